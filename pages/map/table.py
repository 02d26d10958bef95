"""The facts of the picture as rows, for screen readers and for people who prefer a table. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from pages.map.captions import about_room, holder_names, named
from pages.map.layout import MapBox
from pages.map.tree import MapNode, MapPlace, Mark
from scheduling.sentences import count_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MapRow:
    """A place or a node; ``depth`` is the number of places around it. ``place`` is None for a node.

    ``free`` is the text of a place; ``is_free`` is a node's, and None for a place.
    """

    depth: int
    sort: str
    name: str
    gpus: str
    closed: str
    holders: str
    chosen: str
    free: str = ""
    is_free: bool | None = None
    place: MapPlace | None = field(default=None, repr=False)


def rows(box: MapBox, *, depth: int = 0) -> Iterator[MapRow]:
    """One row for each box, before those of its content."""
    yield _node(box.of, depth) if isinstance(box.of, MapNode) else _place(box.of, depth)
    for inner in box.inside:
        yield from rows(inner, depth=depth + 1)


def _place(place: MapPlace, depth: int) -> MapRow:
    tally = place.tally
    sort = "outside" if place.outside else "run" if place.run else place.key or "pool"
    selection = _sets(place.sets or place.marks)
    if place.room:
        selection = (
            f"{about_room(place.room)}, lacks {place.room.lacks}"
            if place.room.lacks
            else about_room(place.room)
        )
    return MapRow(
        depth=depth,
        sort=sort,
        name=place.name,
        free=f"{tally.free} of {count_of(tally.nodes, 'node')}",
        gpus=f"{tally.free_gpus} of {tally.gpus}" if tally.gpus else "",
        closed=count_of(tally.closed, "node") if tally.closed else "",
        holders=holder_names(place),
        chosen=selection,
        place=place,
    )


def _node(node: MapNode, depth: int) -> MapRow:
    return MapRow(
        depth=depth,
        sort="node",
        name=node.name,
        is_free=node.is_open and not node.users,
        gpus=node.gpu_note or (f"{node.free} of {node.gpus}" if node.gpus else ""),
        closed=" ".join(filter(None, [node.shut, node.taint, "suspect" if node.suspect else ""])),
        holders=named(node.users),
        chosen=_sets(node.marks),
    )


def _sets(marks: tuple[Mark, ...]) -> str:
    return ", ".join(f"{mark.letter}: {count_of(mark.tasks, 'task')}" for mark in marks[:6])
