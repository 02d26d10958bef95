"""What tells KAI's versions apart, each test named after the upstream file that shows it."""

import dataclasses

import pytest

from localcluster.api import ApiError
from localcluster.crds import kai as definitions
from localcluster.standins.kai.values import Binding, Claim
from localcluster.standins.kai.versions import VERSIONS
from localcluster.standins.kai.writer import Answers, Writer
from localcluster.standins.taints import Toleration
from tests.standins.worlds import (
    CLASSES,
    DRIVER,
    after,
    both,
    channels,
    claiming,
    draw,
    group,
    leaf,
    message,
    placed,
    pod,
    pods,
    reasons,
    run,
    shape,
    world,
)

ZONE, RACK = "topo/zone", "topo/rack"
BEFORE_15 = [name for name, rules in VERSIONS.items() if rules.anchors_everywhere]
SINCE_15 = [name for name, rules in VERSIONS.items() if not rules.anchors_everywhere]
FORGETFUL = ("0.16.2", "0.17.0")


def test_the_local_clusters_versions_are_rows_of_the_table():
    assert {"0.13", "0.17"} <= VERSIONS.keys()
    assert {rules.schema for rules in VERSIONS.values()} >= {"0.13", "0.17"}
    assert definitions.definitions("0.13") != definitions.definitions("0.17")


@pytest.mark.parametrize("version", VERSIONS)
def test_actions_common_allocate_go_a_replaced_leaf_and_the_domain_of_its_peers(version):
    """Root in one zone; a set of two runs in zone b; the free pod of its own leaf is made again.

    Zone a is the fuller one, so KAI tries it first.
    """
    picture = "a/r1: a1 a2x\nb/r2: b1 b2 b3 b4"
    nodes, _ = draw(picture)
    subs = (leaf("s0", 2, both("t", RACK)), leaf("s1", 1))
    running = tuple(pod(f"p{n}", subgroup="s0", state="active", node=f"b{n}") for n in (1, 2))
    snapshot = world(
        picture,
        groups=(group(subgroups=subs, constraint=both("t", ZONE)),),
        pods=(*running, pod("again", subgroup="s1")),
    )

    (node,) = placed(run(snapshot, version=version)).values()

    zone = next(each.labels[ZONE] for each in nodes if each.name == node)
    assert zone == ("b" if version in BEFORE_15 else "a")


@pytest.mark.parametrize("version", VERSIONS)
def test_plugins_elastic_a_group_below_its_minimum_goes_before_the_extra_pod_of_an_older_one(version):
    """Seen on running v0.13 and v0.17."""
    older = group("older", created="t0", min_member=3)
    younger = group("younger", created="t1", min_member=1)
    running = tuple(pod(f"p{n}", group="older", state="active", node=f"n{n}") for n in (1, 2, 3))
    waiting = (pod("extra", group="older"), pod("new", group="younger"))
    snapshot = world("a/r1: n1 n2 n3 n4", groups=(older, younger), pods=(*running, *waiting))

    assert placed(run(snapshot, version=version)) == {"new": "n4"}


@pytest.mark.parametrize("version", VERSIONS)
def test_plugins_elastic_extra_pods_of_two_groups_by_age(version):
    groups = (group("older", created="t0", min_member=1), group("younger", created="t1", min_member=1))
    some = tuple(pod(f"{name}-{n}", group=name) for name in ("older", "younger") for n in range(2))
    snapshot = world("a/r1: n1 n2 n3", groups=groups, pods=some)

    assert sorted(placed(run(snapshot, version=version))) == ["older-0", "older-1", "younger-0"]


@pytest.mark.parametrize("version", VERSIONS)
def test_cache_cluster_info_a_pod_that_succeeded_where_finished_pods_are_forgotten(version):
    """Seen on release v0.17.0: a flat gang of four of which one succeeds is deleted after the grace."""
    members = tuple(
        dataclasses.replace(each, state="active", node=f"n{number}")
        for number, each in enumerate(pods(4), start=1)
    )
    done = dataclasses.replace(members[0], state="succeeded")
    snapshot = world("a/r1: n1 n2 n3 n4", groups=(group(min_member=4),), pods=(done, *members[1:]))
    first = run(snapshot, version=version, stale_grace=60)
    later = run(after(snapshot, first, seconds=61), version=version, stale_grace=60)

    assert len(later.evictions) == (3 if version in FORGETFUL else 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_v2alpha2_podgroup_types_go_staleness_switched_off_by_the_group(version):
    """Seen on v0.17: with -1s a gang below its minimum runs on."""
    members = tuple(
        dataclasses.replace(each, state="active", node=f"n{number}")
        for number, each in enumerate(pods(3), start=1)
    )
    snapshot = world("a/r1: n1 n2 n3", groups=(group(min_member=4, grace=-1.0),), pods=members)
    later = run(after(snapshot, run(snapshot, version=version), seconds=61), version=version)

    assert len(later.evictions) == (0 if VERSIONS[version].own_grace else 3)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("least", [0, None])
def test_subgroup_info_factory_go_a_leaf_with_no_minimum(version, least):
    """Seen on v0.17: the gang is placed with no pod in it, and a pod created there later is placed too."""
    subs = (leaf("s0", 2), leaf("s1", least))
    snapshot = world("a/r1: n1 n2 n3", groups=(group(subgroups=subs),), pods=pods(2, subgroup="s0"))

    decisions = run(snapshot, version=version)

    assert len(placed(decisions)) == (0 if version in BEFORE_15 else 2)
    if version in SINCE_15:
        later = after(snapshot, decisions)
        later = dataclasses.replace(later, pods=(*later.pods, pod("late", subgroup="s1")))
        assert list(placed(run(later, version=version))) == ["late"]


@pytest.mark.parametrize("version", VERSIONS)
def test_status_updater_a_pod_of_a_subgroup_that_does_not_exist(version):
    snapshot = world(
        "a/r1: n1", groups=(group(subgroups=(leaf("s0", 1),)),), pods=(pod("lost", subgroup="x"),)
    )

    decisions = run(snapshot, version=version)

    texts = [each.message for each in decisions.pod_conditions]
    want = 'Pod references subgroup "x", which does not exist in PodGroup ns/g'
    assert texts == ([] if version in BEFORE_15 else [want])
    assert ("Unschedulable" in reasons(decisions, "Pod")) == (version in SINCE_15)


def ending_channel():
    """One node whose channel is held by a pod that is being deleted, and a gang that claims one."""
    members, claims = claiming(1)
    leaving = pod("old", group="old", state="releasing", node="n1", shape=shape(8))
    held = Claim(
        "ns", "old", "uid-c", allocated=((DRIVER, "n1", "channel-0"),), node="n1", reserved_for=(leaving.uid,)
    )
    return world(
        "a/r1: n1",
        gpus=8,
        groups=(group(min_member=1, created="t1"),),
        pods=(leaving, *members),
        claims=(*claims, held),
        devices=channels("n1"),
        device_classes=CLASSES,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_dynamicresources_go_a_gang_is_not_pipelined_onto_the_channel_of_an_ending_pod(version):
    decisions = run(ending_channel(), version=version)

    assert "Pipelined" not in reasons(decisions)
    assert "cannot allocate all" in message(decisions)


@pytest.mark.parametrize("version", VERSIONS)
def test_dynamicresources_go_a_later_group_without_claims_takes_the_node(version):
    snapshot = ending_channel()
    later = group("later", min_member=1, created="t9")
    snapshot = dataclasses.replace(
        snapshot,
        groups=(*snapshot.groups, later),
        pods=(*snapshot.pods, pod("later", group="later", shape=shape(8))),
    )

    decisions = run(snapshot, version=version)

    pipelined = [event.name for event in decisions.events if event.reason == "Pipelined"]
    assert pipelined == ["later"]


def test_dynamicresources_go_the_channel_of_a_pod_evicted_in_this_cycle_is_kept_for_who_evicts_it():
    snapshot = ending_channel()
    running = dataclasses.replace(snapshot.pods[0], state="active")
    groups = (group("old", min_member=1), group(min_member=1, created="t1", priority_class="high"))
    contest = dataclasses.replace(
        snapshot, groups=groups, pods=(running, *snapshot.pods[1:]), priorities={"high": 90}
    )

    decisions = run(contest)

    assert [each.pod.name for each in decisions.evictions] == ["old"]
    assert "Pipelined" in reasons(decisions)


CLOSED = {
    "node is unschedulable": {"unschedulable": True},
    "node has NotReady condition": {"conditions": ("NotReady",)},
    "node has DiskPressure condition": {"conditions": ("DiskPressure",)},
    "node has MemoryPressure condition": {"conditions": ("MemoryPressure",)},
}


@pytest.mark.parametrize("text", CLOSED)
def test_scheduler_util_go_closed_nodes_whatever_is_tolerated(text):
    """Seen on running v0.13 and v0.17 for a cordoned node."""
    everything = shape(tolerations=(Toleration("", "Exists", "", ""),))
    snapshot = world("a/r1: n1", groups=(group(min_member=1),), pods=(pod("p", shape=everything),))
    closed = tuple(dataclasses.replace(node, **CLOSED[text]) for node in snapshot.nodes)

    decisions = run(dataclasses.replace(snapshot, nodes=closed))

    assert placed(decisions) == {}
    assert f"1 {text}" in message(decisions)


class RefusingApi:
    """An API server that refuses every binding."""

    def __init__(self):
        self.patches = []

    def create(self, path, body):
        raise ApiError(code=403, call="bind", body={"message": "may not bind"})

    def patch(self, path, body, *, content_type=None):
        self.patches.append((path, body))
        return body


def test_binder_a_failure_to_bind_stands_in_the_pod():
    """Charts of 0.13 lack the right to bind claims on Kubernetes 1.36: pods never bind, and say why."""
    api = RefusingApi()
    writer = Writer(api, Answers(pod=list, group=list, claim=list, queue=list))
    waiting = pod("p", group="g")

    failures = writer.bind([Binding(waiting, "n1", "g")])

    assert [failure.pod for failure in failures] == [waiting]
    ((path, body),) = api.patches
    (condition,) = body["status"]["conditions"]
    assert path.endswith("/pods/p/status")
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodBound",
        "False",
        "BindingError",
    )
    assert "may not bind" in condition["message"]
