"""What each backend renders, beside the trees: labels, names, queues, and the registry."""

import json
from dataclasses import replace
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from pools.clusters.kinds import as_kind, kind_of
from scheduling import names
from scheduling.backends import registry
from scheduling.backends.base import PoolRequest, QueueSettings
from scheduling.backends.default import DEFAULT, Default
from scheduling.backends.kai.render import MAX_SETS_ANNOTATION, SETS_ANNOTATION, SETS_OMITTED_ANNOTATION, Kai
from scheduling.backends.kubernetes import KUBERNETES, Kubernetes
from scheduling.backends.priorities import class_names, priority_classes
from scheduling.errors import Conflict, InvalidSpec, NotFound, UnsupportedCapability
from tests.unit.scheduling.build import GROUP, INSTALLATION, gang, levels, request

POOL = levels("zone rack")
BACKENDS = [Kai(), Kubernetes(), Default()]


def pool_request(**changes):
    return PoolRequest(
        **{"namespace": "osmo", "pool": "p", "installation": INSTALLATION, "levels": POOL, **changes}
    )


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_every_task_gets_the_parts_of_its_pod(backend):
    rendered = backend.render(request(gang("a b c"), POOL))
    assert set(rendered.pods) == {"a", "b", "c"}
    assert {parts.scheduler_name for parts in rendered.pods.values()} == {"kai-scheduler"}
    json.dumps([rendered.pod_groups, rendered.topologies])


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_unsound_requirements_are_never_rendered(backend):
    with pytest.raises(InvalidSpec) as caught:
        backend.render(request(gang("a: rak! r"), POOL))
    assert "unknown_key" in [fault.code for fault in caught.value.faults]


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_our_own_labels_win_over_the_callers(backend):
    mine = {names.GROUP_LABEL: "forged", "osmo.workflow": "w"}
    for pod_group in backend.render(request(gang("a b"), POOL, labels=mine)).pod_groups:
        labels = pod_group["metadata"]["labels"]
        assert labels[names.GROUP_LABEL] == GROUP.hex
        assert labels["osmo.workflow"] == "w"


def test_a_kai_gang_of_one_set_has_its_minimum_at_the_top_and_no_subgroup_labels():
    rendered = Kai().render(request(gang("a b: rack! r"), POOL))
    (pod_group,) = rendered.pod_groups
    assert pod_group["spec"] == {
        "queue": "osmo-pool-osmo-p",
        "priorityClassName": "osmo-normal",
        "minMember": 2,
        "topologyConstraint": {
            "topology": names.topology(INSTALLATION, ["topology/zone", "topology/rack"]),
            "requiredTopologyLevel": "topology/rack",
            "preferredTopologyLevel": "topology/rack",
        },
    }
    assert rendered.pods["a"].labels == {"kai.scheduler/queue": "osmo-pool-osmo-p"}
    assert rendered.pods["a"].annotations == {
        "pod-group-name": GROUP.hex,
        "kai.scheduler/skip-podgrouper": "true",
    }


def test_topologies_are_cut_at_each_constraints_narrowest_level():
    rendered = Kai().render(request(gang("a b: zone! z, rack? r", "c: zone! z"), POOL))
    assert [[lv["nodeLabel"] for lv in t["spec"]["levels"]] for t in rendered.topologies] == [
        ["topology/zone"],
        ["topology/zone", "topology/rack"],
    ]
    assert all(
        t["metadata"]["labels"] == {names.INSTALLATION_LABEL: INSTALLATION.hex} for t in rendered.topologies
    )


def test_a_group_without_requirements_names_no_topology():
    assert Kai().render(request(gang("a b"), POOL)).topologies == ()


def test_a_pool_makes_every_topology_its_groups_can_name():
    made = {m["metadata"]["name"] for m in Kai().pool_objects(pool_request()) if m["kind"] == "Topology"}
    for asked in (gang("a: zone! z"), gang("a: rack? r"), gang("a: zone! z, rack! r", "b: zone! z")):
        assert {t["metadata"]["name"] for t in Kai().render(request(asked, POOL)).topologies} <= made


def test_the_users_words_are_kept_for_each_subgroup():
    (pod_group,) = Kai().render(request(gang("a: rack! Ä b", "b"), POOL)).pod_groups
    words = json.loads(pod_group["metadata"]["annotations"][SETS_ANNOTATION])
    assert list(words) == [entry["name"] for entry in pod_group["spec"]["subGroups"]]
    assert list(words.values()) == [[["rack", "Ä b"]], []]


def test_the_users_words_are_bounded_and_say_how_many_are_left_out():
    wide = gang(*(f"t{i}: rack! {'机' * 150} {i}" for i in range(500)))
    (pod_group,) = Kai().render(request(wide, POOL)).pod_groups
    annotations = pod_group["metadata"]["annotations"]
    assert len(annotations[SETS_ANNOTATION].encode()) <= MAX_SETS_ANNOTATION
    assert len(json.loads(annotations[SETS_ANNOTATION])) + int(annotations[SETS_OMITTED_ANNOTATION]) == 500


def test_kai_queues_leave_processor_and_memory_open():
    parent, queue = [
        m
        for m in Kai().pool_objects(pool_request(gpu_guarantee=4, gpu_maximum=8, gpu_weight=2))
        if m["kind"] == "Queue"
    ]
    open_ = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    assert parent["metadata"]["name"] == "osmo-topology-default-osmo"
    assert parent["spec"] == {"resources": {"gpu": open_, "cpu": open_, "memory": open_}}
    assert queue["metadata"]["name"] == "osmo-topology-pool-osmo-p"
    assert queue["spec"]["parentQueue"] == "osmo-topology-default-osmo"
    assert queue["spec"]["resources"] == {
        "gpu": {"quota": 4, "limit": 8, "overQuotaWeight": 2},
        "cpu": open_,
        "memory": open_,
    }


def test_an_osmo_beside_us_deletes_none_of_our_queues():
    """OSMO deletes each Queue and Topology that it does not know and that has its label of the namespace."""
    for manifest in Kai().pool_objects(pool_request()):
        assert "osmo.namespace" not in manifest["metadata"].get("labels", {})


def test_a_pool_whose_name_is_no_label_value_still_has_a_queue():
    long = "P" * 63
    for manifest in Kai().pool_objects(pool_request(pool=long)):
        assert all(len(value) <= 63 for value in manifest["metadata"]["labels"].values())


def test_only_low_is_preemptible():
    made = {m["metadata"]["name"]: m["value"] for m in priority_classes(INSTALLATION, class_names("a-b"))}
    assert made == {"a-b-high": 125, "a-b-normal": 100, "a-b-low": 50}


def test_kubernetes_gives_a_gang_one_pod_group_at_one_level():
    rendered = Kubernetes().render(request(gang("a b: rack! r"), POOL, generation=2))
    (pod_group,) = rendered.pod_groups
    assert pod_group["metadata"]["name"] == f"{GROUP.hex}-2"
    assert pod_group["spec"] == {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "topology/rack"}]},
        "priorityClassName": "osmo-normal",
        "disruptionMode": {"all": {}},
    }
    assert rendered.parents == ()
    assert rendered.pods["b"].spec == {
        "schedulingGroup": {"podGroupName": f"{GROUP.hex}-2"},
        "priorityClassName": "osmo-normal",
    }
    assert [(line.key, line.subgroup) for line in rendered.constraints] == [("rack", f"{GROUP.hex}-2")]
    assert rendered.topologies == ()


@pytest.mark.parametrize("asked", [gang("a b: rack? r ~60"), gang("a: zone! z, rack! r", "b: zone! z")])
def test_kubernetes_never_weakens_what_it_cannot_say(asked):
    with pytest.raises(UnsupportedCapability) as caught:
        Kubernetes().render(request(asked, POOL))
    assert caught.value.faults


def test_the_default_scheduler_gets_pods_and_nothing_else():
    rendered = Default().render(request(gang("a b"), (), scheduler_name="default-scheduler"))
    assert rendered.pod_groups == ()
    assert rendered.pods["a"].scheduler_name == "default-scheduler"


def test_the_built_in_backends_are_there_without_an_installed_package():
    assert set(registry.collect(())) == {"kai", "kueue", "kubernetes", "default"}
    assert registry.scheduler_backend("kai").name == "kai"
    with pytest.raises(NotFound, match="default, kai, kubernetes, kueue"):
        registry.scheduler_backend("slurm")


class Toy(Default):
    """What a third party's backend renders."""

    name = "toy"


TOY = replace(DEFAULT, rendering=Toy())


def point(name, backend, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "toy_package", SimpleNamespace(backend=backend))
    return EntryPoint(name, "toy_package:backend", registry.GROUP)


def test_an_entry_point_adds_a_backend(monkeypatch):
    assert registry.collect([point("toy", TOY, monkeypatch)])["toy"].name == "toy"


@pytest.mark.parametrize("name", ["kai", "other"])
def test_two_backends_of_one_name_are_refused(name, monkeypatch):
    with pytest.raises(Conflict, match="belongs to one backend"):
        registry.collect([point(name, TOY, monkeypatch)])


# Kubernetes' own pod groups, by what its releases serve

TYPES_OF_1_37 = {
    "schedulingPolicy": {"gang": {"minCount": {}}},
    "schedulingConstraints": {"topology": {"key": {}}},
    "priorityClassName": {},
    "disruptionMode": {"all": {}},
}
"""The fields of ``PodGroupSpec`` of ``k8s.io/api`` v0.37.2, ``scheduling/v1beta1``, that are written here."""


def outside(value, types):
    """The fields of a rendered value that the types lack."""
    if isinstance(value, list):
        return [name for entry in value for name in outside(entry, types)]
    if not isinstance(value, dict):
        return []
    unknown = [name for name in value if name not in types]
    return unknown + [name for key in value.keys() & types.keys() for name in outside(value[key], types[key])]


def test_a_pod_group_of_kubernetes_has_the_fields_of_its_release():
    rendered = Kubernetes().render(request(gang("a b: rack! r"), POOL, priority_class="p"))
    (pod_group,) = rendered.pod_groups
    assert pod_group["apiVersion"] == "scheduling.k8s.io/v1beta1"
    assert outside(pod_group["spec"], TYPES_OF_1_37) == []
    assert kind_of(pod_group) == as_kind(KUBERNETES.pod_group)
    assert {parts.spec["schedulingGroup"]["podGroupName"] for parts in rendered.pods.values()} == {
        pod_group["metadata"]["name"]
    }


def test_where_no_pod_groups_are_served_the_message_says_how_to_switch_them_on():
    with pytest.raises(UnsupportedCapability) as caught:
        Kubernetes().version_of(kubernetes="v1.37.2", pod_group_schema=None)
    assert "--runtime-config=scheduling.k8s.io/v1beta1=true" in caught.value.message
    assert "GenericWorkload" in caught.value.message
    assert "GangScheduling" not in caught.value.message  # 1.37 does not start with that gate


def test_kai_finds_queue_and_shard_by_the_backends_own_labels():
    shard = {"kai.scheduler/node-pool": "blue"}
    rendered = Kai().render(
        request(gang("a b"), POOL, queue="q", queue_label="example.com/queue", shard=shard)
    )
    (pod_group,) = rendered.pod_groups
    for labels in (pod_group["metadata"]["labels"], rendered.pods["a"].labels):
        assert {"example.com/queue": "q", **shard}.items() <= labels.items()
        assert "kai.scheduler/queue" not in labels


def test_a_parent_queue_is_ours_or_somebody_elses():
    own = QueueSettings(prefix="p", parent_gpus=8)
    parent, queue = Kai().pool_objects(pool_request(levels=(), queues=own))
    assert (parent["metadata"]["name"], parent["spec"]["resources"]["gpu"]["quota"]) == ("p-default-osmo", 8)
    assert queue["spec"]["parentQueue"] == "p-default-osmo"
    (queue,) = Kai().pool_objects(pool_request(levels=(), queues=QueueSettings(parent="theirs")))
    assert queue["spec"]["parentQueue"] == "theirs"
