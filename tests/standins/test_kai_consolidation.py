"""Running groups are packed more tightly for one that waits; named after upstream's ``consolidation.go``."""

import dataclasses

import pytest

from localcluster.standins.kai.versions import VERSIONS
from tests.standins.worlds import (
    CLASSES,
    after,
    both,
    channels,
    claiming,
    group,
    placed,
    pod,
    pods,
    reasons,
    run,
    shape,
    two_halves,
    world,
)

RACK = "topo/rack"
TWO = "a/r1: n0 n1"


def evicted(decisions):
    return sorted(each.pod.name for each in decisions.evictions)


@pytest.mark.parametrize("version", VERSIONS)
def test_consolidation_go_a_running_pod_is_deleted_to_pack_another_of_the_same_priority(version):
    """Seen on running v0.13 and v0.17."""
    decisions = run(two_halves(), version=version)

    (eviction,) = decisions.evictions
    assert eviction.pod.name == "y", "the youngest"
    assert eviction.message == (
        "Pod ns/y was preempted and rescheduled due to bin packing (resource consolidation) procedure"
    )
    assert eviction.annotations["evictor-action-type"] == "consolidation"
    assert placed(decisions) == {}
    texts = [event.message for event in decisions.events if event.reason == "Pipelined"]
    assert texts == [
        "Pod ns/y was assigned to node n0, waiting for resources to be released",
        "Pod ns/big was assigned to node n1, waiting for resources to be released",
    ]


def test_consolidation_go_who_is_made_again_finds_the_place():
    snapshot = two_halves()
    gone = after(snapshot, run(snapshot))
    again = pod("y2", group="y", shape=shape(4))
    made = dataclasses.replace(gone, pods=(*gone.pods, again))

    assert placed(run(gone)) == {"big": "n1"}, "whether or not anybody makes it again"
    assert placed(run(made)) == {"big": "n1", "y2": "n0"}


@pytest.mark.parametrize("version", ["0.13", "0.17"])
def test_consolidation_go_a_gang_is_moved_whole_and_keeps_its_required_rack(version):
    """Two racks of three nodes; a gang of two and one of one in the way of a gang of three in one rack."""
    picture = "a/r1: a1 a2 a3\na/r2: b1 b2 b3"
    groups = (
        group("pair", min_member=2, created="t1", constraint=both("t", RACK)),
        group("lone", min_member=1, created="t0"),
        group("three", min_member=3, created="t2", constraint=both("t", RACK)),
    )
    running = (
        pod("pair-0", group="pair", state="active", node="a1"),
        pod("pair-1", group="pair", state="active", node="a2"),
        pod("lone", group="lone", state="active", node="b1"),
    )
    snapshot = world(picture, groups=groups, pods=(*running, *pods(3, "three", group="three")))

    decisions = run(snapshot, version=version)

    assert evicted(decisions) in (["pair-0", "pair-1"], ["lone"])
    finished = after(snapshot, decisions)
    assert {node[0] for node in placed(run(finished, version=version)).values()} in ({"a"}, {"b"})


@pytest.mark.parametrize(("size", "want"), [(4, ["y"]), (5, [])])
def test_consolidation_go_nobody_is_moved_who_finds_no_other_place(size, want):
    """Three nodes have 9 GPUs or more free, but never 5 on one of them."""
    snapshot = two_halves()
    third = world("a/r1: n2", gpus=8).nodes
    running = tuple(dataclasses.replace(each, shape=shape(size)) for each in snapshot.pods[:2])
    foreign = pod("foreign", group="foreign", state="active", node="n2", is_kai=False, shape=shape(5))
    members = (*running, snapshot.pods[2], foreign)

    decisions = run(dataclasses.replace(snapshot, nodes=(*snapshot.nodes, *third), pods=members))

    assert evicted(decisions) == want


def test_consolidation_go_it_comes_before_preemption_and_moves_higher_priorities_too():
    low_asks = two_halves(waiting={"priority_class": "low"}, priorities={"low": 10})
    assert evicted(run(low_asks)) == ["y"]

    high_asks = two_halves(waiting={"priority_class": "high"}, priorities={"high": 90})
    decisions = run(high_asks)
    assert evicted(decisions) == ["y"]
    assert decisions.evictions[0].annotations["evictor-action-type"] == "consolidation"


@pytest.mark.parametrize("fixed", ["x", "y", "big", "all"])
def test_consolidation_go_only_preemptible_groups_take_part(fixed):
    snapshot = two_halves()
    groups = tuple(
        dataclasses.replace(each, preemptibility="non-preemptible") if fixed in (each.name, "all") else each
        for each in snapshot.groups
    )

    want = {"x": ["y"], "y": ["x"], "big": [], "all": []}[fixed]
    assert evicted(run(dataclasses.replace(snapshot, groups=groups))) == want


def test_idle_gpus_go_without_as_many_free_gpus_in_all_nobody_is_moved():
    snapshot = two_halves()
    big = dataclasses.replace(snapshot.pods[-1], shape=shape(8))
    both_big = (dataclasses.replace(big, name="b0", uid="u0"), dataclasses.replace(big, name="b1", uid="u1"))
    groups = (*snapshot.groups[:2], dataclasses.replace(snapshot.groups[2], min_member=2))
    full = dataclasses.replace(snapshot, groups=groups, pods=(*snapshot.pods[:2], *both_big))

    assert evicted(run(full)) == []


def test_consolidation_go_groups_on_nodes_that_do_not_help_are_left_alone():
    snapshot = two_halves()
    asking = dataclasses.replace(snapshot.pods[-1].shape, selector=(("kubernetes.io/hostname", "n0"),))
    picky = (*snapshot.pods[:2], dataclasses.replace(snapshot.pods[-1], shape=asking))

    assert evicted(run(dataclasses.replace(snapshot, pods=picky))) == ["x"]


def test_consolidation_go_the_channel_of_a_moved_pod_moves_with_it():
    """The other node has room and a channel for the moved pod; what it leaves is for the waiting one."""
    (first,), (claim,) = claiming(1, prefix="x", gpus=4)
    (second,), (waiting,) = claiming(1, prefix="big", gpus=8)
    held = dataclasses.replace(
        claim,
        allocated=(("compute-domain.nvidia.com", "n1", "channel-0"),),
        node="n1",
        reserved_for=(first.uid,),
    )
    members = (
        dataclasses.replace(first, group="x", state="active", node="n1"),
        pod("other", group="other", state="active", node="n0", shape=shape(4)),
        dataclasses.replace(second, group="big"),
    )
    groups = (
        group("x", min_member=1, created="t1"),
        group("other", min_member=1, preemptibility="non-preemptible"),
        group("big", min_member=1, created="t2"),
    )
    snapshot = world(
        TWO,
        gpus=8,
        groups=groups,
        pods=members,
        claims=(held, waiting),
        devices=channels("n0", "n1"),
        device_classes=CLASSES,
    )

    assert evicted(run(snapshot)) == ["x000"]


def test_consolidation_go_what_waits_is_not_reported_as_unschedulable():
    decisions = run(two_halves())

    assert "Unschedulable" not in reasons(decisions)
    assert decisions.group_conditions == ()
