"""The drawing of a workflow's groups: in order of dependency, nothing over anything else, always the same."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages.workflows.graph import ACROSS, BOX_HEIGHT, BOX_WIDTH, MARGIN, MOST_DRAWN, columns, draw

DIAMOND = {"load": (), "left": ("load",), "right": ("load",), "join": ("left", "right")}
# load ─▶ step ─▶ eval
#   └───────────────▲
SHORTCUT = {"load": (), "step": ("load",), "eval": ("step", "load")}


@pytest.mark.parametrize(
    ("upstream", "want"),
    [
        pytest.param(DIAMOND, {"load": 0, "left": 1, "right": 1, "join": 2}, id="a diamond"),
        pytest.param(SHORTCUT, {"load": 0, "step": 1, "eval": 2}, id="the longest way counts"),
        pytest.param({"b": ("a",), "a": ()}, {"a": 0, "b": 1}, id="written backwards"),
        pytest.param({"a": (), "b": ()}, {"a": 0, "b": 0}, id="strangers"),
    ],
)
def test_a_group_stands_right_of_all_it_waits_for(upstream, want):
    assert columns(upstream) == want


def test_one_group_or_too_many_are_not_drawn():
    assert draw({}) is None
    assert draw({"alone": ()}) is None
    assert draw({str(number): () for number in range(MOST_DRAWN + 1)}) is None
    assert len(draw({str(number): () for number in range(MOST_DRAWN)}).boxes) == MOST_DRAWN


def test_boxes_come_in_the_users_order_and_arrows_name_their_ends():
    drawing = draw(DIAMOND)
    assert [box.name for box in drawing.boxes] == list(DIAMOND)
    assert {(arrow.before, arrow.after) for arrow in drawing.arrows} == {
        ("load", "left"),
        ("load", "right"),
        ("left", "join"),
        ("right", "join"),
    }


def test_an_arrow_over_a_column_passes_above_or_below_the_boxes_in_it():
    drawing = draw(SHORTCUT)
    step = next(box for box in drawing.boxes if box.name == "step")
    (long,) = [arrow for arrow in drawing.arrows if (arrow.before, arrow.after) == ("load", "eval")]
    (lane,) = re.findall(r" \S+,(\S+)H", long.path)
    assert not step.y <= float(lane) <= step.y + BOX_HEIGHT


def test_a_name_of_no_group_and_a_repeated_one_draw_no_arrow_of_their_own():
    drawing = draw({"a": (), "b": ("a", "a", "elsewhere")})
    assert len(drawing.arrows) == 1


@pytest.mark.parametrize("ring", [{"a": ("b",), "b": ("a",)}, {"a": ("a",), "b": ()}])
def test_a_ring_is_drawn_all_the_same(ring):
    assert len(draw(ring).boxes) == 2


NAMES = [f"g{number}" for number in range(12)]
EDGES = st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=25)


@given(EDGES)
def test_no_box_of_any_graph_lies_on_another_and_all_lie_inside(edges):
    upstream = {name: sorted(up for up, down in edges if down == name) for name in NAMES}
    drawing = draw(upstream)
    assert drawing == draw(upstream)
    for first in drawing.boxes:
        assert MARGIN <= first.x <= drawing.width - MARGIN - BOX_WIDTH
        assert MARGIN <= first.y <= drawing.height - MARGIN - BOX_HEIGHT
        for other in drawing.boxes:
            assert (
                first is other
                or abs(first.x - other.x) >= BOX_WIDTH + ACROSS
                or abs(first.y - other.y) >= BOX_HEIGHT
            )
    place = {box.name: box for box in drawing.boxes}
    for arrow in drawing.arrows:
        assert place[arrow.before].column < place[arrow.after].column
