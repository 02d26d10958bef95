"""The same facts as the picture's, as rows: for screen readers and for whoever prefers them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pages.map.layout import Box
from pages.map.sentences import about_room, holders, named
from pages.map.tree import MapNode, Mark, Place
from scheduling.sentences import count_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A place or a node; ``depth`` is how far in it stands. ``place`` is None for a node."""

    depth: int
    sort: str
    name: str
    free: str
    gpus: str
    closed: str
    held: str
    chosen: str
    place: Place | None = field(default=None, repr=False)


def rows(box: Box, *, depth: int = 0) -> Iterator[Row]:
    """One row for each box, each before what is in it."""
    yield _node(box.of, depth) if isinstance(box.of, MapNode) else _place(box.of, depth)
    for inner in box.inside:
        yield from rows(inner, depth=depth + 1)


def _place(place: Place, depth: int) -> Row:
    tally = place.tally
    sort = "outside" if place.outside else "run" if place.run else place.key or "pool"
    said = _sets(place.sets or place.marks)
    if place.room:
        said = (
            f"{about_room(place.room)}, lacks {place.room.lacks}"
            if place.room.lacks
            else about_room(place.room)
        )
    return Row(
        depth=depth,
        sort=sort,
        name=place.name,
        free=f"{tally.free} of {count_of(tally.nodes, 'node')}",
        gpus=f"{tally.free_gpus} of {tally.gpus}" if tally.gpus else "",
        closed=count_of(tally.closed, "node") if tally.closed else "",
        held=holders(place),
        chosen=said,
        place=place,
    )


def _node(node: MapNode, depth: int) -> Row:
    return Row(
        depth=depth,
        sort="node",
        name=node.name,
        free="no" if node.users or not node.is_open else "yes",
        gpus=f"{node.free} of {node.gpus}" if node.gpus else "",
        closed=f"{node.shut} {node.taint}".strip(),
        held=named(node.users),
        chosen=_sets(node.marks),
    )


def _sets(marks: tuple[Mark, ...]) -> str:
    return ", ".join(f"{mark.letter}: {count_of(mark.tasks, 'task')}" for mark in marks[:6])
