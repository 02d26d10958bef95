"""``never`` refuses a submission, so it is said only of gangs that no scheduler could ever place.

Each gang here was called ``never`` although a placement exists.
"""

from dataclasses import replace

import pytest

from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import Snapshot, amounts
from scheduling.fit.verdict import Answer, judge
from scheduling.gang.stages import at_stage
from scheduling.gang.tree import build_tree
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.worlds import POOL, RACK, ZONE, demands, draw, gang_demand, node

RACK_1 = {ZONE: "a", RACK: "r1"}
RACK_2 = {ZONE: "a", RACK: "r2"}


def snapshot(*nodes, levels=POOL):
    return Snapshot.of(nodes, levels, paths=True)


def row(labels, *gpus, name):
    return [node(f"{name}{i}", labels, gpus=count) for i, count in enumerate(gpus)]


MIXED = row(RACK_1, 4, 2, 4, 2, name="n")


def test_tasks_of_unlike_sizes_need_no_room_for_as_many_of_the_largest_without_a_constraint():
    """Running KAI v0.13 and v0.17 placed it."""
    gang = build.gang("a*4", "b c d*2")

    verdict = judge(snapshot(*MIXED), gang_demand(gang))

    assert verdict.answer is Answer.NOW


def test_below_a_constraint_the_largest_task_counts_for_all():
    """Running KAI v0.13 and v0.17 never placed it, although the rack holds each task."""
    gang = build.gang("a*4: rack! r", "b c d*2: rack! r")

    verdict = judge(snapshot(*MIXED), gang_demand(gang))

    assert verdict.answer is Answer.NEVER


def test_nodes_of_other_pools_in_a_domain_count_for_the_largest_task():
    """KAI counts every node of the rack, whatever the tasks' selector leaves of it."""
    gang = build.gang("a*4: rack! r", "b c d*2: rack! r")
    part = Snapshot.of(MIXED, POOL, paths=True, is_complete=False)

    verdict = judge(part, gang_demand(gang))

    assert verdict.answer is Answer.NOT_NOW
    assert not verdict.proven


def test_a_closed_node_counts_for_the_largest_task():
    """KAI counts what is free there, and then uses other nodes: both tasks have one."""
    gang = build.gang("a*4: zone! z", "b*2: zone! z")
    nodes = [replace(node, closed="cordoned") if node.name == "n0" else node for node in MIXED[:3]]

    verdict = judge(snapshot(*nodes), gang_demand(gang))

    assert verdict.answer is Answer.NOW
    assert sorted(verdict.places.values()) == ["n1", "n2"]


def test_a_free_root_above_sets_of_unlike_sizes_is_no_constraint():
    """Each rack holds its set of equal tasks; the root, with both sizes, is not counted at all."""
    gang = build.gang("a b*4: rack! r", "c d*2: rack! s")
    nodes = [*row(RACK_1, 4, 4, name="a"), *row(RACK_2, 2, 2, name="b")]

    assert judge(snapshot(*nodes), gang_demand(gang)).answer is Answer.NOW


def test_room_that_others_hold_now_makes_such_a_gang_wait():
    gang = build.gang("a*4", "b c d*2")
    nodes = [replace(node, closed="cordoned") if node.name == "n0" else node for node in MIXED]

    verdict = judge(snapshot(*nodes), gang_demand(gang))

    assert verdict.answer is Answer.NOT_NOW
    assert verdict.sets[0].nearest[0].missing == 1


def test_domains_that_differ_for_another_set_are_each_tried():
    """The larger set may use either zone; only one of them has a rack for the other set."""
    gang = build.gang("a b c*1: zone! z", "d e*1: rack! r")
    for is_complete, split in ("ab", "ba"):
        nodes = row({ZONE: is_complete, RACK: "r1"}, 1, 1, 1, name="n")
        nodes += [node(f"m{i}", {ZONE: split, RACK: f"r{i}"}) for i in range(3)]
        assert judge(snapshot(*nodes), gang_demand(gang)).answer is not Answer.NEVER


def test_domains_that_differ_for_another_selector_are_each_tried():
    """Both racks look alike to the first set; the second may use the nodes of one alone."""
    gang = build.gang("a*4: rack! r", "b*4: rack! s")
    special = {"kind": "special"}
    for first, second in (({}, special), (special, {})):
        nodes = [
            *row({**RACK_1, **first}, 4, name="a"),
            *row({**RACK_2, **second}, 4, name="b"),
        ]
        wants = demands(gang)
        wants["b"] = replace(wants["b"], selector=(("kind", "special"),))
        verdict = judge(snapshot(*nodes), GangDemand(build_tree(gang, POOL), wants, counts_largest=True))
        assert verdict.answer is not Answer.NEVER


def test_a_channel_that_some_tasks_claim_is_none_that_the_scheduler_counts_for_all():
    """KAI counts GPUs, cores and memory of the largest task; four tasks of four fit two nodes of eight."""
    gang = build.gang("a*4: rack! r", "b*2: rack! r", "c*2: rack! r")
    wants = demands(gang)
    claim = replace(wants["a"], amounts=amounts(gpu=4, cpu=1000, memory=2**30, pods=1, channels=1))
    verdict = judge(
        snapshot(*row(RACK_1, 8, 8, name="n")),
        GangDemand(build_tree(gang, POOL), wants | {"a": claim}, counts_largest=True),
    )

    assert verdict.answer is Answer.NOW


PASSING = (
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.cloudprovider.kubernetes.io/uninitialized",
)


@pytest.mark.parametrize("key", PASSING)
def test_a_taint_that_kubernetes_takes_away_again_makes_a_gang_wait(key):
    gang = build.gang("a b*4: rack! r")
    taint = {"key": key, "effect": "NoSchedule"}
    nodes = [replace(n, taints=(taint,)) for n in row(RACK_1, 4, 4, name="n")]

    assert judge(snapshot(*nodes), gang_demand(gang)).answer is Answer.NOT_NOW


def test_a_taint_of_an_administrator_stays():
    gang = build.gang("a b*4: rack! r")
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    nodes = [replace(n, taints=(taint,)) for n in row(RACK_1, 4, 4, name="n")]

    assert judge(snapshot(*nodes), gang_demand(gang)).answer is Answer.NEVER


def test_a_preference_that_is_required_for_a_while_is_none_for_ever():
    gang = build.gang("a b c: rack? r ~60")
    nodes = draw("a/r1: n1 n2\na/r2: n3 n4", gpus=1)
    tree = build_tree(gang, POOL)
    wants = {task: Demand(replace_gpu(want)) for task, want in demands(gang).items()}
    first = GangDemand(tree, wants, counts_largest=True, last=at_stage(tree, 1))

    verdict = judge(nodes, first)

    assert verdict.answer is Answer.NOT_NOW


def replace_gpu(demand):
    return (1, *demand.amounts[1:])


def test_requests_of_another_kind_that_some_tasks_have_end_the_count_of_the_largest():
    """A resource that a pod template adds to some tasks alone: KAI then compares sums."""
    gang = build.gang("a*4: rack! r", "b c d*2: rack! r")
    wants = demands(gang)
    wants["a"] = replace(wants["a"], others=(("example.com/nic", 1),))

    verdict = judge(snapshot(*MIXED), GangDemand(build_tree(gang, POOL), wants, counts_largest=True))

    assert verdict.answer is Answer.NOW


def test_an_external_topology_hides_nodes_without_its_narrowest_label():
    gang = build.gang("a b c*1: zone! z")
    nodes = draw("a/r1: n1 n2\na/-: n3", gpus=1)
    tree = build_tree(gang, POOL)

    own = judge(nodes, GangDemand(tree, demands(gang), counts_largest=True))
    external = judge(nodes, GangDemand(tree, demands(gang), counts_largest=True, cut=1))

    assert own.answer is Answer.NOW
    assert external.answer is Answer.NEVER
    assert external.sets[-1].unlabelled == 1


def test_tasks_of_unlike_sizes_in_one_leaf_have_a_place_that_their_order_may_lose():
    """KAI takes a leaf's tasks by age, and pods of one second in any order."""
    gang = build.gang("a b*4", "c*2")

    verdict = judge(snapshot(*row(RACK_1, 6, 4, name="n")), gang_demand(gang))

    assert (verdict.answer, verdict.proven) == (Answer.NOW, False)


@pytest.mark.parametrize(
    ("other", "sign", "is_complete", "proven"),
    [(2, "?", True, True), (2, "?", False, False), (2, "!", False, True), (4, "?", False, True)],
    ids=["all nodes", "some nodes", "a requirement", "tasks alike"],
)
def test_where_unlike_tasks_prefer_to_be_may_hang_on_nodes_that_they_may_not_use(
    other, sign, is_complete, proven
):
    nodes = replace(draw("a/r1: n1 n2\na/r2: n3 n4"), is_complete=is_complete)
    gang = build.gang(f"a*4: rack{sign} x", f"b*{other}: rack{sign} x")
    verdict = judge(nodes, gang_demand(gang))
    assert (verdict.answer, verdict.proven) == (Answer.NOW, proven)
