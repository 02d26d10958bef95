"""What the verdict tells: numbers per set and level, the nearest domain, who holds it until when."""

from dataclasses import replace
from datetime import UTC, datetime

from scheduling.fit.demand import Demand
from scheduling.fit.fragmentation import fragmentation
from scheduling.fit.outcome import PlacementOutcome, outcomes, worst
from scheduling.fit.snapshot import OTHERS, FitNode, Holding, OthersShare, Snapshot, amounts
from scheduling.fit.verdict import Answer, judge
from scheduling.gang.tree import build_tree
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.worlds import POOL, RACK, ZONE, draw, gang_demand, node

FOUR = build.gang("a b c d*8: rack! r")


def at(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def holding(snapshot, **until):
    """The same snapshot where these nodes are held by workflow ``w`` until then."""

    def held(holding):
        if holding.name not in until:
            return holding
        mine = Holding("w", amounts(gpu=8, pods=1), until[holding.name])
        return replace(holding, holdings=(mine,))

    return snapshot.edited(held)


def test_a_gang_that_fits_is_told_where_it_would_go():
    verdict = judge(draw("a/r1: n1 n2 n3\na/r2: n4 n5 n6 n7"), gang_demand(FOUR))

    assert verdict.answer is Answer.NOW
    assert sorted(verdict.places.values()) == ["n4", "n5", "n6", "n7"]


def test_never_says_per_set_how_large_the_largest_domain_is():
    verdict = judge(draw("a/r1: n1 n2x n3\nb/r2: n4 n5"), gang_demand(FOUR))

    (rack,) = verdict.sets
    assert verdict.answer is Answer.NEVER
    assert verdict.proven
    assert (rack.key, rack.tasks, rack.domains, rack.fit_empty) == ("rack", 4, 2, 0)
    nearest = rack.nearest[0]
    assert (nearest.path, nearest.empty, nearest.free, nearest.missing) == (("a", "r1"), 3, 2, 2)


def test_not_now_names_the_nearest_domain_what_it_lacks_and_who_holds_it_until_when():
    snapshot = holding(draw("a/r1: n1 n2 n3 n4\nb/r2: n5x n6x n7x n8x"), n3=500.0, n4=900.0)

    verdict = judge(snapshot, gang_demand(FOUR))

    nearest = verdict.blocked[-1].nearest[0]
    assert verdict.answer is Answer.NOT_NOW
    assert (nearest.path, nearest.free, nearest.missing) == (("a", "r1"), 2, 2)
    assert [(holder.name, holder.nodes, holder.until) for holder in nearest.holders] == [("w", 2, at(900))]
    assert nearest.free_at == at(900)


def test_a_cordoned_domain_makes_a_gang_wait_and_never_refuses_it():
    closed = draw("a/r1: n1 n2 n3 n4").edited(
        lambda n: replace(n, closed="cordoned") if n.name == "n1" else n
    )

    verdict = judge(closed, gang_demand(FOUR))

    nearest = verdict.blocked[-1].nearest[0]
    assert verdict.answer is Answer.NOT_NOW
    assert (nearest.closed, nearest.missing, nearest.free_at) == (1, 1, None)


def test_nodes_that_lack_a_label_are_counted_as_out_of_sight():
    verdict = judge(draw("a/r1: n1 n2 n3\na/-: n4 n5"), gang_demand(FOUR))

    assert verdict.answer is Answer.NEVER
    assert verdict.sets[-1].unlabelled == 2


def test_sets_that_are_alike_are_told_as_one():
    gang = build.gang(*(f"a{i} b{i}*8: zone! z, rack! r{i}" for i in range(3)))

    verdict = judge(draw("a/r1: n1 n2\na/r2: n3 n4\na/r3: n5x n6\na/r4: n7x n8"), gang_demand(gang))

    assert [(row.key, row.alike, row.tasks) for row in verdict.sets] == [("zone", 1, 6), ("rack", 3, 2)]
    assert verdict.most_placed == 4


def test_another_order_is_said_where_the_scheduler_fills_the_wrong_domain_first():
    """Sets of 5, 4, 3 and 3 on racks of 8 and 7: the five take the fuller one, a three is left."""
    eight, seven = (" ".join(f"{name}{i}" for i in range(n)) for name, n in (("a", 8), ("b", 7)))
    sizes = {"five": 5, "four": 4, "three": 3, "tre": 3}
    gang = build.gang(
        *(f"{' '.join(f'{name}{i}' for i in range(n))}*8: rack! {name}" for name, n in sizes.items())
    )

    verdict = judge(draw(f"z/r1: {eight}\nz/r2: {seven}"), gang_demand(gang))

    assert verdict.answer is Answer.NOT_NOW
    assert verdict.another_order
    assert verdict.proven
    assert verdict.most_placed == 12


def test_now_is_certain_only_if_no_order_of_tasks_can_lose_the_place():
    """A four and two small ones on nodes of four: elsewhere than with KAI the small may take both nodes."""
    gang = build.gang("a*4: rack! r", "b*2: rack! r", "c*1: rack! r")

    def verdict(picture, **how):
        return judge(draw(picture, gpus=4), gang_demand(gang, **how))

    tight = verdict("a/r1: n1 n2", counts_largest=False)
    wide = verdict("a/r1: n1 n2 n3", counts_largest=False)
    assert (tight.answer, tight.proven) == (Answer.NOW, False)
    assert (wide.answer, wide.proven) == (Answer.NOW, True)
    alike = judge(draw("a/r1: n1 n2 n3 n4"), gang_demand(FOUR, counts_largest=False))
    assert (alike.answer, alike.proven) == (Answer.NOW, True)
    assert verdict("a/r1: n1 n2 n3").proven  # KAI's order is known


def test_a_narrow_level_is_found_where_domains_are_no_paths():
    """A rack stands for itself there, whatever zone its nodes are in."""
    nodes = draw("a/r1: n1 n2\nb/r1: n3 n4\nb/r2: n5 n6 n7").nodes

    verdict = judge(Snapshot.of(nodes, POOL, paths=False), gang_demand(FOUR))

    assert verdict.answer is Answer.NOW
    assert sorted(verdict.places.values()) == ["n1", "n2", "n3", "n4"]


def test_a_node_gives_its_channel_to_one_pod():
    gang = build.gang("a b*4: rack! r")
    small, large = (judge(draw(f"a/r1: {n}"), gang_demand(gang, channel=True)) for n in ("n1", "n1 n2"))

    assert (small.answer, large.answer) == (Answer.NEVER, Answer.NOW)


def test_a_pod_goes_only_where_selector_taints_and_exclusions_let_it():
    nodes = [node("n1", {"kind": "b200"}, gpus=8), node("n2", {"kind": "h100"}, gpus=8)]
    tainted = FitNode(
        name="n3",
        labels={"kind": "b200"},
        allocatable=nodes[0].allocatable,
        taints=({"key": "gpu", "value": "yes", "effect": "NoSchedule"},),
    )
    eight = amounts(gpu=8, pods=1)
    tolerant = [{"key": "gpu", "operator": "Exists"}]

    def usable(**asked):
        kind = Demand.of(eight, **asked)
        return [node.name for node in (*nodes, tainted) if kind.may_use(node)]

    assert usable() == ["n1", "n2"]
    assert usable(selector={"kind": "b200"}) == ["n1"]
    assert usable(selector={"kind": "b200"}, tolerations=tolerant) == ["n1", "n3"]
    assert usable(excluded=["n1"]) == ["n2"]


def test_free_slots_count_whole_free_nodes_of_one_domain():
    zone, rack = fragmentation(draw("a/r1: n1 n2 n3 n4x\na/r2: n5 n6x\n-/-: n7"))

    assert (rack.free, rack.unlabelled, rack.largest, rack.domain) == (4, 1, 3, ("a", "r1"))
    assert rack.slots == {1: 4, 2: 1, 4: 0}
    assert zone.slots == {1: 4, 2: 2, 4: 1}


def test_nodes_without_gpus_are_no_slots_where_others_have_some():
    plain = draw("a/r2: c1 c2", gpus=0)
    mixed = draw("a/r1: n1").edited(lambda node: node, added=plain.nodes)

    assert [level.slots for level in fragmentation(mixed)] == [{1: 1, 2: 0}, {1: 1, 2: 0}]
    assert [level.slots for level in fragmentation(plain)] == [{1: 2, 2: 1}, {1: 2, 2: 1}]


def test_the_placement_of_a_gang_is_judged_per_set_and_level():
    tree = build_tree(build.gang("a b: zone! z, rack? r", "c d: zone! z, rack? s"), POOL)
    places = {"a": ("x", "r1"), "b": ("x", "r1"), "c": ("x", "r2"), "d": ("x", "r3")}

    found = {(outcome.path[-1], outcome.outcome) for outcome in outcomes(tree, places, paths=True)}

    assert found == {
        (("zone", "z"), PlacementOutcome.MATCH),
        (("rack", "r"), PlacementOutcome.MATCH),
        (("rack", "s"), PlacementOutcome.DEGRADED),
    }
    broken = outcomes(tree, {**places, "d": ("y", "r3")}, paths=True)
    assert worst(broken) is PlacementOutcome.VIOLATION


def test_a_snapshot_can_be_edited_without_touching_the_first():
    before = draw("a/r1: n1 n2 n3x n4")
    drained = before.edited(lambda node: None if node.name == "n1" else node)
    freed = before.edited(lambda node: replace(node, holdings=()))
    finer = Snapshot.of(before.nodes, build.levels("zone"), paths=before.paths)

    assert judge(before, gang_demand(FOUR)).answer is Answer.NOT_NOW
    assert judge(drained, gang_demand(FOUR)).answer is Answer.NEVER
    assert judge(freed, gang_demand(FOUR)).answer is Answer.NOW
    assert [level.key for level in finer.levels] == ["zone"]
    assert len(finer.domains) == 1
    assert {ZONE, RACK} == set(before.nodes[0].labels)


def with_others(snapshot, **gpus):
    """The same snapshot where other tenants' pods hold so many GPUs of these nodes, and a little of all."""
    return snapshot.edited(
        lambda node: replace(node, others=amounts(gpu=gpus.get(node.name, 0), cpu=500, memory=2**30, pods=7))
    )


def test_room_that_pods_of_others_hold_is_not_free_and_is_named_without_an_end():
    nodes = draw("a/r1: n1 n2 n3 n4")
    assert judge(with_others(nodes), gang_demand(FOUR)).answer is Answer.NOW

    verdict = judge(with_others(nodes, n2=1, n3=8), gang_demand(FOUR))

    nearest = verdict.blocked[-1].nearest[0]
    assert verdict.answer is Answer.NOT_NOW
    assert (nearest.free, nearest.missing, nearest.free_at) == (2, 2, None)
    assert [(holder.name, holder.nodes, holder.until) for holder in nearest.holders] == [(OTHERS, 2, None)]


def test_whose_the_pods_are_that_use_what_is_lacking_is_known():
    shares = {
        "n2": (OthersShare("ml", amounts(gpu=1)), OthersShare("kube-system", amounts(cpu=500))),
        "n3": (OthersShare("web", amounts(gpu=4)), OthersShare("ml", amounts(gpu=4))),
    }
    nodes = with_others(draw("a/r1: n1 n2 n3 n4"), n2=1, n3=8).edited(
        lambda node: replace(node, others_by=shares.get(node.name, ()))
    )
    (others,) = judge(nodes, gang_demand(FOUR)).blocked[-1].nearest[0].holders
    assert (others.name, others.namespaces) == (OTHERS, ("ml", "web"))


def test_pods_of_others_that_cost_no_place_hide_neither_who_does_nor_until_when():
    snapshot = with_others(holding(draw("a/r1: n1 n2 n3 n4"), n3=500.0))

    nearest = judge(snapshot, gang_demand(FOUR)).blocked[-1].nearest[0]

    assert [holder.name for holder in nearest.holders] == ["w"]
    assert nearest.free_at == at(500)


def test_a_node_with_daemons_on_it_is_still_a_whole_free_node():
    (zone, _) = fragmentation(with_others(draw("a/r1: n1 n2 n3", gpus=0)))
    assert zone.free == 3
    (zone, _) = fragmentation(with_others(draw("a/r1: n1 n2 n3"), n3=1))
    assert zone.free == 2
