"""Kueue's queues that the service makes for a pool, and what they lead to."""

from itertools import pairwise

import jsonschema
import pytest

from scheduling import names
from scheduling.backends.base import PoolRequest, QueueSettings
from scheduling.backends.kai import KAI
from scheduling.backends.kueue import KUEUE, Kueue
from scheduling.backends.kueue.own_queues import KINDS
from scheduling.topology.levels import HOSTNAME_LABEL
from tests.unit.scheduling import crds
from tests.unit.scheduling.build import INSTALLATION, levels

POOL = levels("zone rack")
OURS = QueueSettings(own=True)


def pool(**changes):
    values = {
        "namespace": "osmo",
        "pool": "H100",
        "levels": POOL,
        "queues": OURS,
        "node_selector": {"pool": "p"},
    }
    return PoolRequest(**{**values, "installation": INSTALLATION, **changes})


def objects(**changes):
    return {obj["kind"]: obj for obj in Kueue().pool_objects(pool(**changes))}


def quotas(**changes):
    (group,) = objects(**changes)["ClusterQueue"]["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    assert group["coveredResources"] == [entry["name"] for entry in flavor["resources"]]
    return {entry["name"]: entry["nominalQuota"] for entry in flavor["resources"]}


@pytest.mark.parametrize("source", crds.KUEUE)
@pytest.mark.parametrize("selector", [{}, {"pool": "p"}, {f"label-{place}": "x" for place in range(20)}])
def test_the_objects_pass_a_round_trip_of_the_definitions(source, selector):
    manifests = Kueue().pool_objects(pool(node_selector=selector, gpu_maximum=64))
    plurals = {kind.kind: kind.plural for kind in KINDS}
    for manifest in manifests:
        definition = crds.definition(source, plurals[manifest["kind"]], "kueue.x-k8s.io")
        assert crds.served(definition, manifest) == manifest


def test_the_round_trip_notices_a_flavor_of_too_many_labels():
    flavor = objects()["ResourceFlavor"]
    flavor["spec"]["nodeLabels"] = {f"label-{place}": "x" for place in range(9)}
    with pytest.raises(jsonschema.ValidationError):
        crds.served(crds.definition(crds.KUEUE[0], "resourceflavors", "kueue.x-k8s.io"), flavor)


def test_each_object_names_the_one_before_it():
    made = Kueue().pool_objects(pool())
    assert [obj["kind"] for obj in made] == ["Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue"]
    for above, obj in pairwise(made):
        ((kind, name),) = Kueue().leads_to(obj)
        assert (kind.kind, name) == (above["kind"], above["metadata"]["name"])
    assert Kueue().leads_to(made[0]) == ()


def test_the_topology_ends_with_the_host_once():
    assert [entry["nodeLabel"] for entry in objects()["Topology"]["spec"]["levels"]] == [
        *(level.label for level in POOL),
        HOSTNAME_LABEL,
    ]
    with_host = objects(levels=levels("rack kubernetes.io/hostname"))["Topology"]["spec"]["levels"]
    assert [entry["nodeLabel"] for entry in with_host].count(HOSTNAME_LABEL) == 1
    assert objects(levels=())["Topology"]["spec"]["levels"] == [{"nodeLabel": HOSTNAME_LABEL}]


def test_a_pool_of_all_nodes_has_a_flavor_of_a_label_that_each_node_has():
    assert objects(node_selector={})["ResourceFlavor"]["spec"]["nodeLabels"] == {"kubernetes.io/os": "linux"}


def test_the_queue_is_for_its_namespace_and_lets_higher_priorities_pass():
    spec = objects(namespace="team-a")["ClusterQueue"]["spec"]
    assert spec["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}
    assert spec["preemption"] == {"withinClusterQueue": "LowerPriority"}
    assert objects(namespace="team-a")["LocalQueue"]["metadata"]["namespace"] == "team-a"


def test_every_resource_that_a_pod_can_request_has_quota():
    assert set(quotas()) == {"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "pods"}
    more = quotas(resources=frozenset({"rdma/ib", "cpu"}))
    assert set(more) == {*quotas(), "rdma/ib"}
    assert (more["cpu"], more["rdma/ib"]) == ("1P", "1E")


QUOTAS = {
    -1: "1E",
    0: "0",
    64: "64",
    1000: "1k",
    1500: "1500",
    2_000_000: "2M",
    1_000_000_000: "1G",
    7.9: "7",
}


@pytest.mark.parametrize(("maximum", "want"), QUOTAS.items())
def test_gpus_are_bounded_by_the_pools_maximum_as_go_writes_it(maximum, want):
    assert quotas(gpu_maximum=maximum)["nvidia.com/gpu"] == want


EDITS = {
    "other keys": ({"levels": levels("rack")}, {"Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue"}),
    "other nodes": ({"node_selector": {"pool": "q"}}, {"ResourceFlavor", "ClusterQueue", "LocalQueue"}),
    "another resource": ({"resources": frozenset({"rdma/ib"})}, {"ClusterQueue", "LocalQueue"}),
    "another maximum": ({"gpu_maximum": 8}, set()),
    "another pool": ({"pool": "A100"}, {"ClusterQueue", "LocalQueue"}),
    "another namespace": ({"namespace": "b"}, {"ClusterQueue", "LocalQueue"}),
}


@pytest.mark.parametrize(("changes", "renamed"), EDITS.values(), ids=EDITS)
def test_a_setting_that_must_not_change_under_running_work_is_in_the_name(changes, renamed):
    before, after = objects(), objects(**changes)
    assert {
        kind for kind in before if before[kind]["metadata"]["name"] != after[kind]["metadata"]["name"]
    } == renamed


def test_names_fit_and_are_the_same_again():
    for obj in (*objects(pool="x" * 63, namespace="y" * 63).values(), *objects().values()):
        assert len(obj["metadata"]["name"]) <= names.MAX_NAME
        assert obj["metadata"]["labels"][names.INSTALLATION_LABEL] == INSTALLATION.hex
    assert objects() == objects()


def test_a_pool_has_objects_only_where_its_queue_is_ours():
    assert KUEUE.joined_queues.owned_kinds
    assert KAI.joined_queues is None
    for request in (pool(queues=QueueSettings()), pool(local_queue="team")):
        assert (Kueue().pool_objects(request), Kueue().own_queue(request)) == ((), "")
    assert objects()["LocalQueue"]["metadata"]["name"] == Kueue().own_queue(pool())
