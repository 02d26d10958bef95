"""Folding, merging, order and wrapping, as what KAI reads; and the gangs that only the right order places."""

from textwrap import dedent

import pytest

from scheduling.backends.kai import Kai
from scheduling.gang.tree import build_tree, dropped_preferences
from tests.unit.scheduling.build import gang, levels, request
from tests.unit.scheduling.kai_reader import V013, V017, draw, place, read
from tests.unit.scheduling.picture import picture

POOL = levels("zone spine rack")

TREES = {
    "nothing asked": (gang("a b"), "gang | min 2: a b"),
    "a required zone stays required below a preferred rack": (
        gang("a b: zone! z, rack? r"),
        "gang | required zone preferred rack on [zone spine rack] | min 2: a b",
    ),
    "two required keys on the same tasks are the narrower": (
        gang("a b: zone! z, rack! r"),
        "gang | required rack preferred rack on [zone spine rack] | min 2: a b",
    ),
    "two preferred keys on the same tasks are the narrower": (
        gang("a b: zone? z, spine? s"),
        "gang | preferred spine on [zone spine] | min 2: a b",
    ),
    "a preferred zone says nothing beside a required rack": (
        gang("a b: zone? z, rack! r"),
        "gang | required rack preferred rack on [zone spine rack] | min 2: a b",
    ),
    "a broader preference shared with more tasks keeps its node": (
        gang("a b: zone? z, rack! r", "c d: zone? z"),
        """
        gang | preferred zone on [zone]
          00 | required rack preferred rack on [zone spine rack] | min 2: a b
          01 free | min 2: c d
        """,
    ),
    "a task without requirements stands free at the root": (
        gang("a b: rack! r", "c"),
        """
        gang
          00 | required rack preferred rack on [zone spine rack] | min 2: a b
          01 free | min 1: c
        """,
    ),
    "sets with exactly the same tasks are one node": (
        gang("a b: zone! z, spine? s, rack? r", "c: zone! other"),
        """
        gang
          00 | required zone preferred rack on [zone spine rack] | min 2: a b
          01 | required zone preferred zone on [zone] | min 1: c
        """,
    ),
    "one rack name under two zones is two sets": (
        gang("a b: zone! x, rack! r1", "c d: zone! y, rack! r1"),
        """
        gang
          00 | required rack preferred rack on [zone spine rack] | min 2: a b
          01 | required rack preferred rack on [zone spine rack] | min 2: c d
        """,
    ),
    "required first, then more GPUs, then more tasks, then by name, free ones last": (
        gang(
            "p q r s*8: rack? a", "a b*8: rack! m", "c d e: rack! n", "f g*8: rack! k", "h i: rack! o", "z*8"
        ),
        """
        gang
          00 | required rack preferred rack on [zone spine rack] | min 2: f g
          01 | required rack preferred rack on [zone spine rack] | min 2: a b
          02 | required rack preferred rack on [zone spine rack] | min 3: c d e
          03 | required rack preferred rack on [zone spine rack] | min 2: h i
          04 | preferred rack on [zone spine rack] | min 4: p q r s
          05 free | min 1: z
        """,
    ),
    "a set with a required level below comes before one with none": (
        gang("a b*8: zone? big", "c: zone? small, rack! r", "d: zone? small"),
        """
        gang
          00 | preferred zone on [zone]
            00 | required rack preferred rack on [zone spine rack] | min 1: c
            01 free | min 1: d
          01 | preferred zone on [zone]
            00 all | min 2: a b
        """,
    ),
    "a leaf set beside an inner sibling is wrapped": (
        gang("a b c d*8: rack! big", "e: zone! z, rack! r1", "f: zone! z, rack! r2"),
        """
        gang
          00 | required rack preferred rack on [zone spine rack]
            00 all | min 4: a b c d
          01 | required zone preferred zone on [zone]
            00 | required rack preferred rack on [zone spine rack] | min 1: e
            01 | required rack preferred rack on [zone spine rack] | min 1: f
        """,
    ),
    "free leaves inside and outside": (
        gang("a b c d: zone! z, rack! r", "e f: zone! z", "g h"),
        """
        gang
          00 | required zone preferred zone on [zone]
            00 | required rack preferred rack on [zone spine rack] | min 4: a b c d
            01 free | min 2: e f
          01 free | min 2: g h
        """,
    ),
}


@pytest.mark.parametrize("phrase", TREES)
def test_folded_to(phrase):
    asked, want = TREES[phrase]
    assert picture(Kai().render(request(asked, POOL))) == dedent(want).strip()


PLACED = {
    "the free tasks leave the only rack to the set that needs it": (
        gang("a b c d: zone! z, rack! r", "e f g: zone! z"),
        """
        zone a
          spine s
            rack r1 ....
            rack r2 ...
        """,
    ),
    "free tasks use nodes of the zone that have no rack label": (
        gang("a b c d: zone! z, rack! r", "e f g: zone! z"),
        """
        zone a
          spine s
            rack r1 ....
            rack - ...
        """,
    ),
    "free leaves inside and outside an inner set": (
        gang("a b c d: zone! z, rack! r", "e f: zone! z", "g h"),
        """
        zone a
          spine s
            rack r1 ....
            rack - ..
        zone -
          spine s
            rack r9 ..
        """,
    ),
    "a set of four beside an inner set of two": (
        gang("a b c d: rack! big", "e: zone! z, rack! r1", "f: zone! z, rack! r2"),
        """
        zone a
          spine s
            rack r1 ....
            rack r2 .
            rack r3 .
        """,
    ),
    "a zone with one rack holds a set that requires the zone": (
        gang("a b c: zone! z"),
        """
        zone a
          spine s
            rack r1 ...
        """,
    ),
}


@pytest.mark.parametrize("version", [V013, V017])
@pytest.mark.parametrize("phrase", PLACED)
def test_placed(phrase, version):
    asked, nodes = PLACED[phrase]
    rendered = Kai().render(request(asked, POOL))
    assert place(read(rendered.pod_groups[0], rendered.pods, rendered.topologies), draw(nodes), version)


def test_a_preference_that_says_nothing_is_noted_where_it_stands():
    (notice,) = dropped_preferences(build_tree(gang("a b: rack! r, zone? z"), POOL))
    assert notice.path == ("tasks", "a", "topology", 1)
    assert "one rack is required" in notice.message


def test_applied_constraints_show_what_is_held_by_a_narrower_key():
    lines = Kai().render(request(gang("a b: zone! z, rack! r", "c: zone! z"), POOL)).constraints
    assert [(line.key, line.requirement, line.tasks, line.held_by) for line in lines] == [
        ("zone", "required", 3, None),
        ("rack", "required", 2, None),
    ]
    lines = Kai().render(request(gang("a b: zone! z, spine! s, rack? r"), POOL)).constraints
    assert [(line.key, line.requirement, line.held_by, line.subgroup) for line in lines] == [
        ("zone", "required", "spine", ""),
        ("spine", "required", None, ""),
        ("rack", "preferred", None, ""),
    ]
    assert lines[1].path == (("zone", "z"), ("spine", "s"))
    assert lines[0].as_json()["set"] == [{"key": "zone", "group": "z"}]
