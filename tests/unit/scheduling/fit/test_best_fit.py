"""Verdicts by Kueue's rules, against drawn clusters."""

from dataclasses import replace

from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import Holding, Snapshot, amounts
from scheduling.fit.verdict import Answer, judge
from scheduling.gang.tree import build_tree
from tests.unit.scheduling.build import gang
from tests.unit.scheduling.fit.worlds import POOL, demands, draw, node


def gang_demand(gang, **changes):
    """The demand of a gang on Kueue, which sees only nodes with the labels of all levels."""
    tree, cut = build_tree(gang, POOL), len(POOL) - 1
    return GangDemand(tree, demands(gang, **changes), counts_largest=False, cut=cut, is_best_fit=True)


def verdict(picture, *lines, **changes):
    return judge(draw(picture), gang_demand(gang(*lines), **changes))


def racks(places):
    return sorted({name.partition("-")[0] for name in places.values()})


def test_a_required_set_goes_into_the_smallest_rack_that_holds_it():
    fits = verdict("a/r1: r1-0 r1-1 r1-2\na/r2: r2-0 r2-1", "a b*8: rack! x")
    assert (fits.answer, fits.proven, racks(fits.places)) == (Answer.NOW, True, ["r2"])


def test_a_preference_goes_up_level_by_level_and_spreads_at_last():
    picture = "a/r1: r1-0 r1-1\na/r2: r2-0\nb/r3: r3-0 r3-1"
    assert racks(verdict(picture, "a b c*8: rack? x").places) == ["r1", "r2"]
    assert racks(verdict(picture, "a b c d*8: rack? x").places) == ["r1", "r3"]


def test_sets_inside_a_zone_are_slices_that_no_rack_shares_with_a_part_of_another():
    asked = ("a b*8: zone! z, rack! x", "c d*8: zone! z, rack! y")
    fits = verdict("a/r1: r1-0 r1-1 r1-2\na/r2: r2-0\nb/r3: r3-0 r3-1\nb/r4: r4-0 r4-1", *asked)
    assert (fits.answer, racks(fits.places)) == (Answer.NOW, ["r3", "r4"])
    assert verdict("a/r1: r1-0 r1-1 r1-2\na/r2: r2-0", *asked).answer is Answer.NEVER


def test_a_node_without_a_label_is_out_of_sight_for_free_tasks_too():
    fits = verdict("a/r1: r1-0 r1-1x\na/-: n-0", "a b*8")
    assert (fits.answer, fits.most_placed) == (Answer.NOT_NOW, 0)


def test_free_tasks_take_the_smallest_remainders_first():
    nodes = [node("full", {"topology/zone": "a", "topology/rack": "r"}, gpus=8)]
    nodes.append(node("rest", {"topology/zone": "a", "topology/rack": "r"}, gpus=8, held=6))
    fits = judge(Snapshot.of(nodes, POOL, paths=True), gang_demand(gang("a b c*1")))
    assert sorted(fits.places.values()) == ["full", "full", "full"]
    split = judge(Snapshot.of(nodes, POOL, paths=True), gang_demand(gang("a b c d e f g h i*1")))
    assert sorted(split.places.values()).count("rest") == 2


def test_two_tasks_that_claim_a_channel_are_not_promised_one_node():
    """Kueue counts no channels: it puts both on the node, and the second one could not start."""
    tasks, nodes = "a b*4: rack! x", "a/r1: r1-0 r1-1"
    assert racks(verdict(nodes, tasks).places) == ["r1"]
    claiming = verdict(nodes, tasks, channel=True)
    assert (claiming.answer, claiming.most_placed) == (Answer.NOT_NOW, 1)


def with_claims(picture, *held):
    """The nodes of a picture, where work on these holds the channel and one GPU."""
    holding = Holding("beside", amounts(gpu=1, pods=1, channels=1))
    nodes = [replace(n, holdings=(holding,)) if n.name in held else n for n in draw(picture).nodes]
    return Snapshot.of(nodes, POOL, paths=True)


def test_a_node_whose_channel_is_held_is_left_out_before_the_least_room_is_chosen():
    """By GPUs alone r1 would be the smaller rack, and its nodes would have room."""
    cluster = with_claims("a/r1: r1-0 r1-1\na/r2: r2-0 r2-1 r2-2", "r1-0")
    claiming = judge(cluster, gang_demand(gang("a b*5: rack! x"), channel=True))
    assert (claiming.answer, racks(claiming.places)) == (Answer.NOW, ["r2"])
    assert racks(judge(cluster, gang_demand(gang("a b*5: rack! x"))).places) == ["r1"]


def test_claims_wait_where_every_rack_has_too_few_free_channels():
    cluster = with_claims("a/r1: r1-0 r1-1\na/r2: r2-0 r2-1", "r1-0", "r2-1")
    claiming = judge(cluster, gang_demand(gang("a b*5: rack! x"), channel=True))
    assert (claiming.answer, claiming.most_placed) == (Answer.NOT_NOW, 0)


def test_tasks_alike_of_which_one_claims_are_one_list_of_pods():
    """Kueue reads one template for all of them, so the others leave held nodes out too."""
    cluster = with_claims("a/r1: r1-0 r1-1\na/r2: r2-0 r2-1", "r1-0")
    written = gang("a b*5: rack! x")
    demand = gang_demand(written, channel=True)
    silent = replace(demand.demands["b"], amounts=(*demand.demands["b"].amounts[:-1], 0))
    mixed = replace(demand, demands={**demand.demands, "b": silent})
    assert racks(judge(cluster, mixed).places) == ["r2"]


ZONES = "a/r1: a1-0 a1-1\na/r2: a2-0\nb/r1: b1-0\nb/r2: b2-0 b2-1 b2-2"
UNEQUAL = ("a b*8: zone! z, rack! x", "c*8: zone! z, rack! y")


def chosen(picture, *lines):
    """The verdict where the service chooses the domain of sets around others."""
    demand = replace(gang_demand(gang(*lines)), is_pinnable=True)
    return judge(draw(picture), demand)


def test_sets_that_are_no_slices_get_the_fullest_zone_that_holds_them():
    fits = chosen(ZONES, *UNEQUAL)
    assert (fits.answer, [pin.domain for pin in fits.pins], racks(fits.places)) == (
        Answer.NOW,
        [("a",)],
        ["a1", "a2"],
    )


def test_a_zone_with_room_in_all_but_not_in_its_racks_is_passed_over():
    fits = chosen(ZONES.replace("a2-0", "a2-0x").replace("a/r2", "a/r3: a3-0\na/r2"), *UNEQUAL)
    assert [pin.domain for pin in fits.pins] == [("a",)]
    fits = chosen("a/r1: a1-0\na/r2: a2-0\na/r3: a3-0\nb/r1: b1-0 b1-1 b1-2 b1-3", *UNEQUAL)
    assert [pin.domain for pin in fits.pins] == [("b",)]


def test_preferred_racks_get_a_zone_and_no_zone_is_never():
    wanted = ("a b*8: zone! z, rack? x", "c*8: zone! z, rack? y")
    assert [pin.domain for pin in chosen(ZONES, *wanted).pins] == [("a",)]
    assert chosen("a/r1: a1-0 a1-1\nb/r1: b1-0 b1-1", *wanted).answer is Answer.NEVER
    full = chosen("a/r1: a1-0x a1-1\na/r2: a2-0", *UNEQUAL)
    assert (full.answer, full.pins) == (Answer.NOT_NOW, ())


def test_a_set_beside_others_keeps_its_constraint():
    nested = replace(
        gang_demand(gang("a b*8: zone! z, rack! x", "c*8: zone! z", "d*8: zone! w")), is_pinnable=True
    )
    fits = judge(draw(ZONES), nested)
    (pin,) = fits.pins
    assert pin.path == (("zone", "z"),)
    assert fits.answer is Answer.NOW


def test_sets_around_others_find_domains_apart_from_each_other_among_many():
    picture = "\n".join(f"z{zone:02}/r{zone}: n{zone}-0 n{zone}-1" for zone in range(16))
    lines = [line for i in range(4) for line in (f"a{i}*8: zone! z{i}, rack? x", f"b{i}*8: zone! z{i}")]
    demand = replace(gang_demand(gang(*lines)), is_pinnable=True)
    fits = judge(draw(picture), demand)
    assert fits.answer is Answer.NOW
    assert len({pin.domain for pin in fits.pins}) == 4
