"""The KAI stand-in behaves as running KAI was seen to.

Each behaviour is described in docs/explanation/kai-behaviour.md.
"""

import dataclasses

import pytest

from localcluster.standins.kai.values import Constraint, SubGroup, Topology
from tests.standins.worlds import (
    LEVELS,
    after,
    both,
    domains,
    edit,
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

ZONE, RACK = LEVELS
VERSIONS = pytest.mark.parametrize("version", ["0.13", "0.17"])

TWO_ZONES = """
    a/r1: a1 a2 a3 a4
    a/r2: a5 a6 a7 a8
    b/r3: b1 b2 b3 b4
    b/r4: b5 b6 b7 b8
"""


@VERSIONS
def test_a_tree_with_minimums_on_leaves_only_is_one_gang(version):
    subs = (leaf("s0", 4, both("t", RACK)), leaf("s1", 4, both("t", RACK)))
    gang = group(subgroups=subs, constraint=both("t", ZONE))
    members = (*pods(4, "x", subgroup="s0"), *pods(4, "y", subgroup="s1"))
    snapshot = world(TWO_ZONES, groups=(gang,), pods=members)

    decisions = run(snapshot, version=version)

    assert len(placed(decisions)) == 8
    assert len(set(domains(decisions, snapshot, ZONE))) == 1
    assert len(set(domains(decisions, snapshot, RACK))) == 2


@VERSIONS
def test_one_leaf_without_room_keeps_the_whole_gang_waiting(version):
    subs = (leaf("s0", 4, both("t", RACK)), leaf("s1", 5, both("t", RACK)))
    members = (*pods(4, "x", subgroup="s0"), *pods(5, "y", subgroup="s1"))
    snapshot = world(TWO_ZONES, groups=(group(subgroups=subs),), pods=members)

    assert placed(run(snapshot, version=version)) == {}


@VERSIONS
def test_required_and_preferred_in_one_constraint_both_hold(version):
    picture = """
        a/r1: a1 a2 a3
        a/r2: a4 a5 a6
        b/r3: b1 b2 b3
        b/r4: b4 b5 b6
    """
    both_hold = Constraint("t", required=ZONE, preferred=RACK)
    snapshot = world(picture, groups=(group(min_member=6, constraint=both_hold),), pods=pods(6))

    decisions = run(snapshot, version=version)

    assert len(placed(decisions)) == 6
    assert len(set(domains(decisions, snapshot, ZONE))) == 1


def test_with_only_the_preferred_rack_six_pods_may_spread_over_two_zones():
    picture = """
        a/r1: a1 a2 a3
        a/r2: a4x a5x a6x
        b/r3: b1 b2 b3
        b/r4: b4x b5x b6x
    """
    only = Constraint("t", preferred=RACK)
    snapshot = world(picture, groups=(group(min_member=6, constraint=only),), pods=pods(6))

    assert set(domains(run(snapshot), snapshot, ZONE)) == {"a", "b"}


ONE_RACK = """
    a/r1: a1 a2 a3 a4
"""


@VERSIONS
def test_required_only_fails_where_all_nodes_share_a_finer_domain(version):
    required = Constraint("t", required=ZONE)
    snapshot = world(ONE_RACK, groups=(group(min_member=4, constraint=required),), pods=pods(4))

    decisions = run(snapshot, version=version)
    assert placed(decisions) == {}
    assert "didn't have enough resources: GPUs" in message(decisions)

    detailed = message(run(snapshot, version=version, detailed_fit_errors=True))
    assert "a didn't have enough resources: CPU cores, requested: 4, available: 0" in detailed


@VERSIONS
@pytest.mark.parametrize("preferred", [ZONE, RACK])
def test_a_preferred_level_equal_or_finer_cures_it(version, preferred):
    cured = Constraint("t", required=ZONE, preferred=preferred)
    snapshot = world(ONE_RACK, groups=(group(min_member=4, constraint=cured),), pods=pods(4))

    assert len(placed(run(snapshot, version=version))) == 4


def test_the_fault_also_bites_below_a_parent_with_one_child_domain():
    """A child level equal to what the parent's domain already is: the rack of a one-rack zone, by host."""
    levels = ("topo/zone", "topo/rack", "kubernetes.io/hostname")
    picture = """
        a/r1/n1: n1
        b/r2/n2: n2
    """
    subs = (leaf("s0", 1, Constraint("t", required="topo/rack")),)
    snapshot = world(
        picture,
        levels=levels,
        groups=(group(subgroups=subs, constraint=both("t", "topo/zone")),),
        pods=pods(1, subgroup="s0"),
    )

    assert placed(run(snapshot)) == {}


@VERSIONS
def test_a_child_broader_than_its_parent_is_placed_in_its_parents_domain(version):
    """Tried on running KAI, with required and preferred in both."""
    gang = group(constraint=both("t", RACK), subgroups=(leaf("s0", 2, both("t", ZONE)),))
    snapshot = world(TWO_ZONES, groups=(gang,), pods=pods(2, subgroup="s0"))

    bound = run(snapshot, version=version)

    assert len(set(domains(bound, snapshot, RACK))) == 1
    assert len(placed(bound)) == 2


SILENT = {
    "required finer than preferred": {"constraint": Constraint("t", required=RACK, preferred=ZONE)},
    "a required level the Topology lacks": {"constraint": both("t", "topo/spine")},
    "a preferred level the Topology lacks": {"constraint": Constraint("t", ZONE, "topo/spine")},
    "a Topology named without any level": {"constraint": Constraint("t")},
}


@VERSIONS
@pytest.mark.parametrize("case", SILENT)
def test_some_mistakes_wait_for_ever_with_the_generic_message_alone(version, case):
    snapshot = world(TWO_ZONES, groups=(group(**SILENT[case], min_member=4),), pods=pods(4))

    decisions = run(snapshot, version=version)

    assert placed(decisions) == {}
    assert message(decisions) == "Unable to schedule podgroup."


@VERSIONS
@pytest.mark.parametrize("label", [None, "s9"])
def test_a_pod_without_its_label_is_dropped_and_the_gang_runs_without_it(version, label):
    lost = pod("lost", subgroup=label)
    members = (*pods(2, subgroup="s0"), lost)
    snapshot = world(TWO_ZONES, groups=(group(subgroups=(leaf("s0", 2),)),), pods=members)

    decisions = run(snapshot, version=version)

    assert sorted(placed(decisions)) == ["p000", "p001"]
    assert bool([event for event in decisions.events if event.name == "lost"]) is (version == "0.17")
    told = [each.pod.name for each in decisions.pod_conditions]
    assert told == ([] if version == "0.13" else ["lost"])


def test_a_label_in_a_group_without_sub_groups_drops_the_pod_too():
    snapshot = world(TWO_ZONES, groups=(group(min_member=1),), pods=(pod("lost", subgroup="s0"), pod("kept")))

    assert sorted(placed(run(snapshot))) == ["kept"]


def test_a_leaf_named_default_catches_pods_without_the_label():
    subs = (leaf("default", 2), leaf("s0", 2))
    members = (*pods(2, "x"), *pods(2, "y", subgroup="s0"))
    snapshot = world(TWO_ZONES, groups=(group(subgroups=subs),), pods=members)

    assert len(placed(run(snapshot))) == 4


def test_nodes_without_any_one_label_are_invisible_to_preferred_constraints_too():
    picture = """
        a/r1: a1 a2 a3 a4
        a/r2: a5 a6 a7 a8
        a/- : h1 h2 h3 h4
    """
    only = Constraint("t", preferred=ZONE)
    snapshot = world(picture, groups=(group(min_member=12, constraint=only),), pods=pods(12))

    decisions = run(snapshot)

    assert placed(decisions) == {}
    assert "not enough resources in a to allocate the job" in message(decisions)


@VERSIONS
def test_removing_the_required_level_of_a_pending_group_is_honoured(version):
    waiting = group(min_member=5, constraint=Constraint("t", required=RACK, preferred=RACK))
    snapshot = world(TWO_ZONES, groups=(waiting,), pods=pods(5))
    first = run(snapshot, version=version)
    assert placed(first) == {}

    relaxed = edit(after(snapshot, first), constraint=Constraint("t", preferred=RACK))

    assert len(placed(run(relaxed, version=version))) == 5


def test_conditions_stay_after_success_until_v0_17_which_clears_them():
    waiting = group(min_member=4, constraint=both("t", RACK))
    picture = "a/r1: a1 a2 a3 a4x\nb/r2: b1x b2x b3x b4x"
    for version in ("0.13", "0.17"):
        snapshot = world(picture, groups=(waiting,), pods=pods(4))
        blocked = run(snapshot, version=version)
        assert message(blocked)

        freed = after(snapshot, blocked)
        freed = dataclasses.replace(freed, pods=tuple(p for p in freed.pods if p.name != "busy-a4"))
        success = run(freed, version=version)
        assert len(placed(success)) == 4
        assert not success.group_conditions, "not before the bindings are seen"

        settled = run(after(freed, success), version=version)
        cleared = [each.conditions for each in settled.group_conditions]
        assert cleared == ([] if version == "0.13" else [()])


def test_a_zone_that_cannot_hold_is_explained_per_domain_and_then_as_a_whole():
    snapshot = world(TWO_ZONES, groups=(group(min_member=9, constraint=both("t", ZONE)),), pods=pods(9))

    decisions = run(snapshot)

    assert message(decisions) == (
        "Unable to schedule podgroup: node-group a can allocate only 8 of 9 required pods. \n"
        "node-group b can allocate only 8 of 9 required pods. \n"
        "topology t, requirement topo/zone couldn't be satisfied for job <ns/g>."
    )
    reasons_given = [each["reason"] for each in decisions.group_conditions[0].conditions[-1]["reasons"]]
    assert reasons_given == ["Not enough resources for the workload"] * 2 + ["PodSchedulingErrors"]


def test_a_topology_that_does_not_exist_is_named():
    missing = group(min_member=1, constraint=both("nope", ZONE))
    decisions = run(world(TWO_ZONES, groups=(missing,), pods=pods(1)))

    assert message(decisions) == "PodSchedulingErrors: Requested topology nope does not exist."


def test_an_unmet_sub_group_is_named():
    gang = group(subgroups=(leaf("s0", 5, both("t", RACK)),))
    decisions = run(world(TWO_ZONES, groups=(gang,), pods=pods(5, subgroup="s0")))

    assert "topology t, requirement topo/rack couldn't be satisfied for job <ns/g>, subgroup s0" in message(
        decisions
    )


@pytest.mark.parametrize(
    "subs",
    [
        pytest.param((leaf("s0", 2), leaf("s0", 2)), id="a name twice"),
        pytest.param((leaf("s0", 2, parent="nobody"),), id="unknown parent"),
        pytest.param((SubGroup("ZoneA"), leaf("s0", 2, parent="ZoneA")), id="a parent in upper case"),
    ],
)
def test_trees_only_the_webhook_refuses_make_kai_drop_every_labelled_pod(subs):
    snapshot = world(TWO_ZONES, groups=(group(subgroups=subs),), pods=pods(2, subgroup="s0"))

    decisions = run(snapshot)

    assert placed(decisions) == {}
    assert decisions.events == ()
    assert decisions.group_conditions == ()


def test_groups_of_one_name_in_two_namespaces_are_merged_and_all_placed():
    groups = (group(namespace="a", min_member=2), group(namespace="b", min_member=2))
    members = (*pods(2, "x", namespace="a"), *pods(2, "y", namespace="b"))

    assert len(placed(run(world(TWO_ZONES, groups=groups, pods=members)))) == 4


def test_a_gang_short_of_pods_is_completed_by_its_namesakes():
    groups = (group(namespace="a", min_member=4), group(namespace="b", min_member=4))
    members = (*pods(2, "x", namespace="a"), *pods(2, "y", namespace="b"))

    assert len(placed(run(world(TWO_ZONES, groups=groups, pods=members)))) == 4


ONE_GOOD_RACK = """
    a/r1: n1 n2 n3 n4
    a/r2: n5 n6
    a/r3: n7
"""


@VERSIONS
@pytest.mark.parametrize(("free", "want"), [("a-free", 0), ("z-free", 7)])
def test_siblings_are_placed_by_name_and_a_placed_one_is_never_moved(version, free, want):
    subs = (leaf("m-set", 4, both("t", RACK)), leaf(free, 3))
    gang = group(subgroups=subs, constraint=both("t", ZONE))
    members = (*pods(4, "x", subgroup="m-set"), *pods(3, "y", subgroup=free))

    decisions = run(world(ONE_GOOD_RACK, groups=(gang,), pods=members), version=version)

    assert len(placed(decisions)) == want


@pytest.mark.parametrize(("version", "want"), [("0.13", 0), ("0.17", 6)])
def test_v0_13_places_inner_groups_before_leaves_whatever_their_names(version, want):
    picture = """
        a/r1: n1 n2 n3 n4
        a/r2: n5 n6
    """
    subs = (leaf("a-set", 4, both("t", RACK)), SubGroup("b-inner"), leaf("leaf", 2, parent="b-inner"))
    gang = group(subgroups=subs, constraint=both("t", ZONE))
    members = (*pods(4, "x", subgroup="a-set"), *pods(2, "y", subgroup="leaf"))

    assert len(placed(run(world(picture, groups=(gang,), pods=members), version=version))) == want


ZONES_AND_RACKS = (Topology("zones", (ZONE,)), Topology("racks", (ZONE, RACK)))

THREE_WITHOUT_RACK = """
    a/r1: n1 n2 n3 n4
    a/r2: n5x n6x n7x n8x
    a/- : o1 o2 o3
"""


@VERSIONS
@pytest.mark.parametrize(("zone_topology", "want"), [("zones", 7), ("racks", 0)])
def test_several_topologies_cut_at_their_own_level_make_unlabelled_nodes_usable(version, zone_topology, want):
    subs = (leaf("s0", 4, both("racks", RACK)), leaf("s1-free", 3))
    gang = group(subgroups=subs, constraint=both(zone_topology, ZONE))
    members = (*pods(4, "x", subgroup="s0"), *pods(3, "y", subgroup="s1-free"))
    snapshot = world(THREE_WITHOUT_RACK, topologies=ZONES_AND_RACKS, groups=(gang,), pods=members)

    decisions = run(snapshot, version=version)

    assert len(placed(decisions)) == want
    if want:
        assert {placed(decisions)[f"y00{n}"] for n in range(3)} == {"o1", "o2", "o3"}


def test_a_preferred_zone_on_its_own_topology_uses_nodes_without_rack():
    picture = """
        a/r1: n1 n2 n3 n4
        a/r2: n5 n6 n7 n8
        a/- : o1 o2 o3
    """
    gang = group(min_member=11, constraint=Constraint("zones", preferred=ZONE))
    snapshot = world(picture, topologies=ZONES_AND_RACKS, groups=(gang,), pods=pods(11))

    assert len(placed(run(snapshot))) == 11


@VERSIONS
def test_relaxing_one_sub_group_of_a_pending_group_is_honoured(version):
    subs = (leaf("s0", 5, both("t", RACK)), leaf("s1", 2, both("t", RACK)))
    members = (*pods(5, "x", subgroup="s0"), *pods(2, "y", subgroup="s1"))
    snapshot = world(TWO_ZONES, groups=(group(subgroups=subs),), pods=members)
    assert placed(run(snapshot, version=version)) == {}

    relaxed = edit(snapshot, subgroups=(leaf("s0", 5, Constraint("t", preferred=RACK)), subs[1]))

    assert len(placed(run(relaxed, version=version))) == 7


@VERSIONS
def test_a_selector_falls_back_to_the_next_domain_though_counts_ignore_it(version):
    snapshot = world(
        """
        a/r1: n1 n2
        a/r2: n3 n4
        """,
        groups=(group(min_member=2, constraint=both("t", RACK)),),
        pods=pods(2),
    )
    mine = {"pool": "mine"}
    nodes = tuple(
        dataclasses.replace(each, labels={**each.labels, **mine}) if each.name in ("n3", "n4") else each
        for each in snapshot.nodes
    )
    selected = tuple(
        dataclasses.replace(p, shape=dataclasses.replace(p.shape, selector=(("pool", "mine"),)))
        for p in snapshot.pods
    )
    fenced = dataclasses.replace(snapshot, nodes=nodes, pods=selected)

    assert sorted(placed(run(fenced, version=version)).values()) == ["n3", "n4"]

    three = edit(
        dataclasses.replace(fenced, pods=(*selected, dataclasses.replace(selected[0], name="p9", uid="u9"))),
        min_member=3,
    )
    assert "node-group a.r1 can allocate only 2 of 3 required pods" in message(run(three, version=version))


def running_gang(version_grace=None, **more):
    members = tuple(
        dataclasses.replace(each, state="active", node=f"a{number}")
        for number, each in enumerate(pods(4), start=1)
    )
    return world(TWO_ZONES, groups=(group(min_member=4, grace=version_grace, **more),), pods=members)


def short_of_one(snapshot, state="failed"):
    gone = dataclasses.replace(snapshot.pods[0], state=state)
    return dataclasses.replace(snapshot, pods=(gone, *snapshot.pods[1:]))


@VERSIONS
def test_a_gang_below_its_minimum_is_marked_at_once_and_deleted_after_the_grace_period(version):
    snapshot = short_of_one(running_gang())

    first = run(snapshot, version=version, stale_grace=60)
    assert [mark.since for mark in first.stale_marks] == [snapshot.now]
    assert "StaleJob" in reasons(first, "PodGroup")
    assert first.evictions == ()
    assert first.wake_at == snapshot.now + 60

    almost = after(snapshot, first, seconds=59)
    assert run(almost, version=version, stale_grace=60).evictions == ()

    over = after(snapshot, first, seconds=60)
    evicted = run(over, version=version, stale_grace=60).evictions
    assert sorted(each.pod.name for each in evicted) == ["p001", "p002", "p003"]


def test_lowering_the_minimum_within_the_grace_period_saves_the_gang():
    snapshot = short_of_one(running_gang())
    marked = after(snapshot, run(snapshot), seconds=30)

    saved = run(edit(marked, min_member=3))

    assert saved.evictions == ()
    assert [mark.since for mark in saved.stale_marks] == [None]


def test_a_replacement_pod_in_time_saves_the_gang():
    snapshot = short_of_one(running_gang())
    marked = after(snapshot, run(snapshot), seconds=30)
    retried = dataclasses.replace(marked, pods=(*marked.pods, pod("retry")))

    healed = after(retried, run(retried))

    assert run(healed, stale_grace=60).evictions == ()
    assert [mark.since for mark in run(healed).stale_marks] == [None]


def test_a_pod_being_deleted_counts_until_it_is_gone():
    assert run(short_of_one(running_gang(), state="releasing")).stale_marks == ()


def test_once_a_pod_has_succeeded_the_gang_is_never_stale():
    snapshot = short_of_one(short_of_one(running_gang()))
    done = dataclasses.replace(snapshot.pods[1], state="succeeded")
    decisions = run(dataclasses.replace(snapshot, pods=(snapshot.pods[0], done, *snapshot.pods[2:])))

    assert decisions.stale_marks == ()
    assert decisions.evictions == ()


def test_a_sub_group_below_its_minimum_is_named():
    subs = (leaf("s0", 2), leaf("s1", 2))
    snapshot = edit(running_gang(), subgroups=subs, min_member=None)
    labelled = tuple(
        dataclasses.replace(each, subgroup=f"s{number // 2}") for number, each in enumerate(snapshot.pods)
    )
    decisions = run(short_of_one(dataclasses.replace(snapshot, pods=labelled)))

    (stale,) = [event for event in decisions.events if event.reason == "StaleJob"]
    assert "subGroup s0 minMember is 2 and 1 pods are active" in stale.message


@VERSIONS
def test_a_set_taken_out_for_a_moment_lets_the_grace_period_begin_anew(version):
    """And its pod, whose label fits no leaf then, is left alone until the set is back."""
    sets = (leaf("s0", 1), leaf("s1", 3))
    snapshot = edit(running_gang(), subgroups=sets, min_member=None)
    names = ("s0", "s1", "s1", "s1")
    labelled = tuple(
        dataclasses.replace(each, subgroup=name) for each, name in zip(snapshot.pods, names, strict=True)
    )
    lost = dataclasses.replace(labelled[0], state="failed")
    retried = pod("retry", subgroup="s0", shape=shape(gpus=99))
    short = dataclasses.replace(snapshot, pods=(lost, *labelled[1:], retried))
    marked = after(short, run(short, version=version), seconds=30)
    without = edit(marked, subgroups=sets[1:])
    aside = run(without, version=version)
    assert ([mark.since for mark in aside.stale_marks], aside.bindings, aside.evictions) == ([None], (), ())
    back = edit(after(without, aside, seconds=31), subgroups=sets)
    again = run(back, version=version)
    assert [mark.since for mark in again.stale_marks] == [back.now]
    assert (again.evictions, again.wake_at) == ((), back.now + 60)


def test_only_v0_17_reads_a_grace_period_of_the_group_itself():
    snapshot = short_of_one(running_gang(version_grace=5.0))
    for version, want in (("0.13", 0), ("0.17", 3)):
        marked = after(snapshot, run(snapshot, version=version), seconds=10)
        assert len(run(marked, version=version, stale_grace=60).evictions) == want


SPINES = ("topo/spine", "topo/rack")

USE_CASE_4 = {
    "one spine with two racks: each set whole on its rack": (
        "a/r1: n1 n2 n3 n4\na/r2: n5 n6 n7 n8\nb/r3: n9 m1x m2x m3x",
        [["a/r1"], ["a/r2"]],
    ),
    "two spines of one rack: each set whole, on different spines": (
        "a/r1: n1 n2 n3 n4\nb/r2: n5 n6 n7 n8",
        [["a/r1"], ["b/r2"]],
    ),
    "spine a with one free rack, spine b with two: both sets on b": (
        "a/r1: n1 n2 n3 n4\nb/r2: n5 n6 n7 n8\nb/r3: m1 m2 m3 m4",
        [["b/r2"], ["b/r3"]],
    ),
    "racks of 3, 3 and 2 nodes: all placed all the same": (
        "a/r1: n1 n2 n3\na/r2: n4 n5 n6\na/r3: n7 n8",
        None,
    ),
}


@VERSIONS
@pytest.mark.parametrize("case", USE_CASE_4)
def test_use_case_4_with_preferred_racks_and_a_preferred_spine(version, case):
    picture, want = USE_CASE_4[case]
    cut = (Topology("spines", SPINES[:1]), Topology("racks", SPINES))
    preferred = Constraint("racks", preferred="topo/rack")
    gang = group(
        subgroups=(leaf("s0", 4, preferred), leaf("s1", 4, preferred)),
        constraint=Constraint("spines", preferred="topo/spine"),
    )
    members = (*pods(4, "x", subgroup="s0"), *pods(4, "y", subgroup="s1"))
    snapshot = world(picture, levels=SPINES, topologies=cut, groups=(gang,), pods=members)

    decisions = run(snapshot, version=version)

    assert len(placed(decisions)) == 8
    if want:
        labels = {each.name: each.labels for each in snapshot.nodes}
        places = [
            {
                "/".join(labels[node][level] for level in SPINES)
                for name, node in placed(decisions).items()
                if name[0] == s
            }
            for s in "xy"
        ]
        assert sorted(sorted(each) for each in places) == want


NESTED = """
    a/r1: n1 n2 n3 n4
    a/r2: n5 n6x n7x n8x
    a/- : o1
    b/r3: p1x p2x p3x p4x
    -/- : q1 q2
"""


def nested(inner_free, root_free):
    """An inner group in one zone with a rack set and a free leaf, and a free leaf at the root."""
    return group(
        subgroups=(
            SubGroup("m-zone", None, None, both("zones", ZONE)),
            leaf("m-set", 4, both("racks", RACK), parent="m-zone"),
            leaf(inner_free, 2, parent="m-zone"),
            leaf(root_free, 2),
        )
    )


NESTED_ORDERS = {
    ("z-free", "z-root", "0.13"): 8,
    ("z-free", "z-root", "0.17"): 8,
    ("a-free", "z-root", "0.13"): 0,
    ("a-free", "z-root", "0.17"): 0,
    ("z-free", "a-root", "0.13"): 8,
    ("z-free", "a-root", "0.17"): 0,
}


@pytest.mark.parametrize(("inner_free", "root_free", "version"), NESTED_ORDERS)
def test_the_nested_shape_is_placed_in_the_order_of_its_names(inner_free, root_free, version):
    members = (
        *pods(4, "x", subgroup="m-set"),
        *pods(2, "y", subgroup=inner_free),
        *pods(2, "z", subgroup=root_free),
    )
    snapshot = world(
        NESTED, topologies=ZONES_AND_RACKS, groups=(nested(inner_free, root_free),), pods=members
    )

    want = NESTED_ORDERS[(inner_free, root_free, version)]
    assert len(placed(run(snapshot, version=version))) == want


WRAPPED = {
    ("unwrapped", "0.13"): 0,
    ("unwrapped", "0.17"): 8,
    ("wrapped", "0.13"): 8,
    ("wrapped", "0.17"): 8,
}


@pytest.mark.parametrize(("form", "version"), WRAPPED)
def test_wrapping_a_leaf_set_puts_it_before_an_inner_sibling_on_both_versions(form, version):
    picture = """
        a/r1: n1 n2 n3 n4
        a/r2: n5 n6
        a/r3: n7 n8
    """
    if form == "wrapped":
        first = (SubGroup("a-set", None, None, both("t", RACK)), leaf("a-leaf", 4, parent="a-set"))
    else:
        first = (leaf("a-leaf", 4, both("t", RACK)),)
    inner = (SubGroup("b-inner"), leaf("b0", 2, parent="b-inner"), leaf("b1", 2, parent="b-inner"))
    gang = group(subgroups=(*first, *inner), constraint=both("t", ZONE))
    members = (
        *pods(4, "x", subgroup="a-leaf"),
        *pods(2, "y", subgroup="b0"),
        *pods(2, "z", subgroup="b1"),
    )

    decisions = run(world(picture, groups=(gang,), pods=members), version=version)

    assert len(placed(decisions)) == WRAPPED[(form, version)]


@VERSIONS
def test_a_pending_gang_is_placed_once_its_leaves_are_renamed_on_group_and_pods(version):
    """Only both edits together help: between them three pods name a leaf that is gone."""
    subs = (leaf("a-free", 3), leaf("m-set", 4, both("t", RACK)))
    gang = group(subgroups=subs, constraint=both("t", ZONE))
    free, fixed = pods(3, "y", subgroup="a-free"), pods(4, "x", subgroup="m-set")
    waiting = world(ONE_GOOD_RACK, groups=(gang,), pods=(*fixed, *free))
    assert placed(run(waiting, version=version)) == {}

    renamed = edit(waiting, subgroups=(subs[1], leaf("z-free", 3)))
    assert placed(run(renamed, version=version)) == {}

    relabelled = tuple(dataclasses.replace(each, subgroup="z-free") for each in free)
    assert len(placed(run(dataclasses.replace(renamed, pods=(*fixed, *relabelled)), version=version))) == 7
