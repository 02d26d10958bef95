"""The texts of a map: for titles, for screen readers, and for the table beside it. Pure."""

from collections.abc import Sequence

from pages.map.tree import MapNode, MapPlace, NodeTally, SetRoom
from scheduling.sentences import count_of, plain_listing

MOST_NAMED = 4


def about_place(place: MapPlace) -> str:
    """A place in one sentence."""
    tally = place.tally
    parts = [f"{_name(place)}: {tally.free} of {count_of(tally.nodes, 'node')} wholly free{_occupied(tally)}"]
    if tally.gpus:
        parts.append(f"{tally.free_gpus} of {tally.gpus} GPUs free on nodes that take work")
    if place.holders:
        parts.append(f"held by {holder_names(place)}")
    parts += [f"set {mark.letter} has {count_of(mark.tasks, 'task')} here" for mark in place.marks]
    if place.room:
        parts.append(about_room(place.room))
    return "; ".join(parts) + "."


def _name(place: MapPlace) -> str:
    if place.outside:
        return f"Nodes {place.name}, outside every domain of that key"
    if place.run:
        return place.name
    path = "/".join(value for value in place.path if not value.startswith("@")) or place.name
    return f"{place.key} {path}" if place.key else place.name


def _occupied(tally: NodeTally) -> str:
    parts = [
        f"{number} {word}"
        for number, word in ((tally.part, "partly held"), (tally.full, "held"), (tally.closed, "closed"))
        if number
    ]
    return f" ({', '.join(parts)})" if parts else ""


def holder_names(place: MapPlace) -> str:
    """The holders of nodes in a place, those of most nodes first."""
    return named([name for name, _nodes in place.holders])


def about_room(room: SetRoom) -> str:
    """The room of a domain for a waiting set."""
    if not room.lacks:
        return f"room for {room.tasks}"
    return f"room for {room.free} of {room.tasks}"


def about_node(node: MapNode) -> str:
    """A node in one sentence."""
    has = f"{node.free} of {node.gpus} GPUs free" if node.gpus else "no GPUs"
    parts = [f"{node.name}: {node.gpu_note or has}"]
    if node.shut:
        parts.append(f"takes no new work: {node.shut}{f' ({node.taint})' if node.taint else ''}")
    if node.suspect:
        parts.append("suspect: groups of several users were lost on it")
    if node.users:
        parts.append(f"held by {named(node.users)}")
    parts += [f"set {mark.letter}: {count_of(mark.tasks, 'task')}" for mark in node.marks]
    return "; ".join(parts)


def named(names: Sequence[str]) -> str:
    """The first few of some names."""
    return plain_listing(names, limit=MOST_NAMED)
