"""What the map of a pool promises of its boxes: nothing overlaps, nothing is lost, and it can be read."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.scenario import nvl72
from pages.map import letters
from pages.map.layout import MOST_CARDS, MOST_CELLS, MOST_PLACES, WIDTH, BoxKind, detail, lay_out
from pages.map.svg import Caption, draw
from pages.map.tree import (
    MOST_TOGETHER,
    Chosen,
    LocatedNode,
    MapNode,
    MapPlace,
    Mark,
    SetRoom,
    Shut,
    Use,
    find,
    grow,
)

KEYS = ("zone", "rack", "clique")


def node(name, **fields):
    return MapNode(**{"name": name, "gpus": 8, "free": 8, "use": Use.FREE, **fields})


def stand(name, *domain, holders=(), **fields):
    return LocatedNode(node(name, **fields), domain, holders)


def pool(count, *, per_rack=18, racks_per_zone=40):
    rows = [
        stand(f"n{at}", f"z{at // per_rack // racks_per_zone}", f"r{at // per_rack}") for at in range(count)
    ]
    return grow(rows, pool="train", keys=("zone", "rack"))


def everything(box):
    yield box
    for inner in box.inside:
        yield from everything(inner)


def drawn_nodes(box):
    """Names of the nodes in a box, and how many stand in bars."""
    boxes = list(everything(box))
    names = [box.of.name for box in boxes if isinstance(box.of, MapNode)]
    return names, sum(box.of.tally.nodes for box in boxes if box.kind is BoxKind.BAR)


values = st.one_of(st.none(), st.sampled_from(["", "a", "b", "c", "a-10", "a-9"]))
pools = st.lists(st.tuples(values, values, values), max_size=70)


@given(domains=pools, times=st.sampled_from([1, 3, 12]))
def test_boxes_lie_within_their_parents_and_beside_each_other_and_no_node_is_lost(domains, times):
    rows = [stand(f"n{at}", *domain) for at, domain in enumerate(domains * times)]
    tree = grow(rows, pool="train", keys=KEYS)
    picture = lay_out(tree)

    for box in everything(picture.box):
        for at, inner in enumerate(box.inside):
            assert box.x < inner.x
            assert inner.x + inner.width < box.x + box.width
            assert box.y < inner.y
            assert inner.y + inner.height < box.y + box.height
            for other in box.inside[at + 1 :]:
                beside = inner.x + inner.width <= other.x or other.x + other.width <= inner.x
                below = inner.y + inner.height <= other.y or other.y + other.height <= inner.y
                assert beside or below
    names, in_bars = drawn_nodes(picture.box)
    assert len(names) == len(set(names))
    assert len(names) + in_bars == tree.tally.nodes == len(rows)


@pytest.mark.parametrize(
    ("count", "kind", "most"),
    [
        (16, BoxKind.CARD, MOST_CARDS),
        (500, BoxKind.CELL, MOST_CELLS),
        (5000, BoxKind.BAR, MOST_PLACES),
        (20000, BoxKind.BAR, MOST_PLACES),
    ],
)
def test_a_pool_of_any_size_is_drawn_with_as_much_detail_as_can_be_read(count, kind, most):
    picture = lay_out(pool(count))
    assert picture.nodes is kind
    smallest = [box for box in everything(picture.box) if not box.inside]
    assert {box.kind for box in smallest} == {kind}
    assert len(smallest) <= most
    assert picture.box.width <= WIDTH
    assert len(draw(picture, title="", description="")) < 400_000


def test_of_five_thousand_nodes_each_rack_is_one_box():
    boxes = list(everything(lay_out(pool(5000)).box))
    assert sum(box.kind is BoxKind.BAR for box in boxes) == 278


def test_an_opened_domain_shows_its_nodes_one_by_one():
    tree = pool(5000)
    rack = find(tree, ("z0", "r3"))
    names, in_bars = drawn_nodes(lay_out(rack).box)
    assert (len(names), in_bars) == (18, 0)
    assert find(tree, ("z0", "r900")) is None


@pytest.mark.parametrize("keys", [(), ("zone",)], ids=["a pool without keys", "every node a domain"])
def test_very_many_in_one_place_are_divided_into_runs_that_can_be_opened(keys):
    rows = [stand(f"n{at}", *(f"z{at}" for _ in keys)) for at in range(2000)]
    tree = grow(rows, pool="train", keys=keys)

    assert len(tree.inside) == 20
    assert all(part.run for part in tree.inside)
    names, _ = drawn_nodes(lay_out(find(tree, tree.inside[3].path)).box)
    assert names == [f"n{at}" for at in range(300, 400)]
    assert all(len(box.inside) <= MOST_TOGETHER for box in [tree, *tree.inside])


def test_a_domain_in_a_run_is_found_by_its_own_path():
    rows = [stand(f"n{at}", f"z{at}") for at in range(2000)]
    found = find(grow(rows, pool="train", keys=("zone",)), ("z1999",))
    assert [node.name for node in found.nodes] == ["n1999"]


def test_nodes_without_a_label_stand_outside_the_level_they_lack():
    """a: r1 n1    a: no rack n2    no zone n3"""
    rows = [stand("n1", "a", "r1"), stand("n2", "a", None), stand("n3", None, "r1")]
    tree = grow(rows, pool="train", keys=("zone", "rack"))

    zone, without_zone = tree.inside
    assert (without_zone.outside, without_zone.path, without_zone.nodes[0].name) == (True, ("!zone",), "n3")
    rack, without_rack = zone.inside
    assert (rack.outside, without_rack.outside, without_rack.nodes[0].name) == (False, True, "n2")


def test_counts_tell_open_nodes_apart_from_closed_ones():
    rows = [
        stand("n1", "a"),
        stand("n2", "a", free=2, use=Use.PART, holders=("w-1",)),
        stand("n3", "a", free=0, use=Use.FULL, holders=("w-1", "w-2")),
        stand("n4", "a", shut=Shut.CORDONED),
    ]
    (zone,) = grow(rows, pool="train", keys=("zone",)).inside
    tally = zone.tally
    assert (tally.free, tally.part, tally.full, tally.closed) == (1, 1, 1, 1)
    assert (tally.free_gpus, tally.gpus) == (10, 32)
    assert zone.holders == (("w-1", 2), ("w-2", 1))


def test_names_stand_in_the_order_people_count():
    rows = [stand(f"n{at}", f"rack-{at}") for at in (10, 9, 1)]
    tree = grow(rows, pool="train", keys=("rack",))
    assert [box.name for box in tree.inside] == ["rack-1", "rack-9", "rack-10"]


def chosen(rank, path):
    mark = Mark("A", 0, 4)
    return Chosen((mark,), SetRoom(4, 3, 4)) if (rank, path) == (0, ("a",)) else Chosen()


def test_the_chosen_workflow_is_told_in_boxes_in_letters_and_in_words():
    rows = [stand("n1", "a", free=0, use=Use.FULL, marks=(Mark("B", 1, 2),)), stand("n2", "b")]
    text = draw(
        lay_out(grow(rows, pool="train", keys=("zone",), chosen_in=chosen)), title="Map", description=""
    )
    assert "room for 3 of 4" in text
    assert ">A 4</text>" in text
    assert ">B</text>" in text
    assert "set B: 2 tasks" in text


HOSTILE = "\"><script>alert('1')</script>&amp;\x00\x1b]]>"


def test_hostile_names_stay_text():
    rows = [stand(HOSTILE, HOSTILE, users=(HOSTILE,), marks=(Mark("A", 0, 1),), holders=(HOSTILE,))]
    tree = grow(rows, pool=HOSTILE, keys=("zone",))
    text = draw(
        lay_out(tree),
        title=HOSTILE,
        description=HOSTILE,
        link=lambda place: "?open=" + "/".join(place.path),
        captions=[Caption(HOSTILE)],
    )
    root = ET.fromstring(text)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        *("svg", "title", "desc", "defs", "pattern", "path", "circle", "g", "rect", "text", "tspan", "a")
    }
    assert all(not name.startswith("on") for element in root.iter() for name in element.attrib)


def test_every_place_is_a_link_with_a_name_in_a_page_and_none_in_a_file():
    picture = lay_out(pool(40))
    page = draw(picture, title="Map", description="", link=lambda place: f"?open={place.name}")
    alone = draw(picture, title="Map", description="", style=".map{}")
    assert page.count("<a href=") == len(re.findall('<a href="[^"]*"><title>[^<]+ Open.</title>', page)) == 4
    assert 'role="group"' in page
    assert "<a " not in alone
    assert 'role="img"' in alone
    assert "<style>" in alone


@pytest.mark.parametrize(("room", "want"), [(110, "gpu-node-0017"), (65, "gp…0017"), (10, "")])
def test_a_name_that_is_too_long_keeps_its_end(room, want):
    assert letters.NAME.fitted("gpu-node-0017", room) == want


def test_a_caption_has_as_many_lines_as_it_needs():
    lines = letters.TEXT.lines("set A has four tasks here", 80)
    assert " ".join(lines) == "set A has four tasks here"
    assert len(lines) > 1
    assert all(letters.TEXT.width(line) <= 80 for line in lines)


LONG_USERS = ("nemotron-pretraining-340b-ab12cd34: worker-0 and worker-1",) * 2


def nvl72_pool(racks):
    """Racks with names as they are where clusters are real."""
    place = nvl72(racks)
    rows = [
        stand(machine.name, *map(machine.labels.get, place.keys.values()), gpus=4, free=4, users=LONG_USERS)
        for machine in place.machines({})
    ]
    return grow(rows, pool="gb200", keys=tuple(place.keys))


FACES = {"name": letters.NAME, "letter": letters.MARK, "": letters.TEXT}


def texts_of(picture):
    """The texts in a picture: their left and right end, their line, and what they say."""
    caption = Caption("No rack has room for 8 tasks at the moment. " * 6, Mark("A", 0, 8))
    svg = ET.fromstring(draw(picture, title="", description="", captions=[caption, caption]))
    for element in svg.iter("{http://www.w3.org/2000/svg}text"):
        face = FACES.get(element.get("class", "").split(" ")[0], letters.SMALL)
        key, name = element.findtext("{*}tspan") or "", "".join(element.itertext())
        width = letters.TEXT.width(key) + face.width(name.removeprefix(key))
        x = float(element.get("x"))
        left = {"figure": x - width, "letter": x - width / 2}.get(element.get("class"), x)
        yield left, left + width, float(element.get("y")), name


@pytest.mark.parametrize("racks", [1, 2, 17, 278])
def test_no_text_of_a_picture_is_printed_over_another(racks):
    texts = sorted(texts_of(lay_out(nvl72_pool(racks))))
    by_line = {}
    for left, right, line, text in texts:
        assert left >= by_line.get(line, (0, ""))[0], (text, by_line[line])
        by_line[line] = (right, text)
    assert max(right for _left, right, _line, _text in texts) <= WIDTH


def test_boxes_show_what_tells_a_name_from_those_beside_it():
    texts = {text for *_, text in texts_of(lay_out(nvl72_pool(2)))}
    assert {"zone us-east-02a", "block block-0", "rack rack07", "node-01", "node-18"} <= texts


def test_a_box_has_its_full_name_for_those_who_point_at_it():
    text = draw(lay_out(nvl72_pool(2)), title="", description="")
    assert "<title>gb200-rack07-node-13.cluster.example: 4 of 4 GPUs free" in text
    assert "rack us-east-02a/us-east-02a-block-0/us-east-02a-rack07: 18 of 18 nodes" in text


def test_an_empty_pool_has_a_picture():
    tree = grow([], pool="train", keys=KEYS)
    assert detail(tree)[0] is BoxKind.CARD
    assert isinstance(lay_out(tree).box.of, MapPlace)
