"""Maps as text: a pool's domains with what is free, and the domains and nodes of a workflow.

A bar shows the share of GPUs in use, or of nodes where a pool has no GPUs; ``#`` is in use, ``.`` is free.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmo_topology_cli import tables
from osmo_topology_cli.tables import NONE, Table

Reply = Mapping[str, Any]
PlacePath = tuple[str, ...]

BAR = 16
OUTSIDE = "(no label)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """``names`` are the paths of the domains, or the nodes of a workflow."""

    heading: str
    tables: tuple[Table, ...]
    sentences: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def map_of_pool(topology: Reply) -> Map:
    domains = sorted(
        (tuple(domain["path"]), key["key"], domain)
        for key in topology["topology_keys"]
        for domain in key["domains"]
    )
    rows = [
        ("  " * (len(path) - 1) + path[-1], key, bar(domain), *_room(domain)) for path, key, domain in domains
    ]
    rows.append(("(pool)", "", bar(topology), *_room(topology)))
    return Map(
        heading=tables.pool_heading(topology),
        tables=(Table(("DOMAIN", "KEY", "IN USE", "FREE NODES", "FREE GPUS"), tuple(rows)),),
        names=tuple("/".join(path) for path, _, _ in domains),
    )


def bar(place: Reply) -> str:
    """The share in use."""
    total, free = (
        (place["gpus"], place["free_gpus"]) if place["gpus"] else (place["nodes"], place["free_nodes"])
    )
    occupied = round(BAR * (total - free) / total) if total else 0
    if total and 0 < free < total:
        occupied = min(max(occupied, 1), BAR - 1)  # a little is not nothing
    return "#" * occupied + "." * (BAR - occupied)


def _room(place: Reply) -> tuple[str, str]:
    return f"{place['free_nodes']}/{place['nodes']}", f"{place['free_gpus']}/{place['gpus']}"


def map_of_workflow(workflow: Reply, reply: Reply) -> Map:
    """The nodes of a workflow's tasks under their domains, and what became of its requirements."""
    pool = workflow["pool"]
    places = {node["hostname"]: node["topology"].get(pool) or {} for node in reply["resources"]}
    tasks: dict[str, list[str]] = defaultdict(list)
    for group in workflow["groups"]:
        for task in group["tasks"]:
            if task["node_name"]:
                tasks[task["node_name"]].append(f"{group['name']}/{task['name']}")
    rows = list(_tree({node: _path(places.get(node, {})) for node in tasks}, tasks))
    waiting = Counter(
        task["status"] for group in workflow["groups"] for task in group["tasks"] if not task["node_name"]
    )
    left = ", ".join(f"{number} {status}" for status, number in waiting.items())
    where = tables.node_count(len(tasks))
    return Map(
        heading=f"{workflow['name']} in pool {pool}: {workflow['status']}, on {where}",
        tables=tuple(
            table
            for table in (Table(("PLACE", "TASKS"), tuple(rows)), tables.outcomes(workflow["groups"]))
            if table.rows
        ),
        sentences=(f"without a node: {left}",) if left else (),
        names=tuple(sorted(tasks)),
    )


def _path(place: Mapping[str, str | None]) -> PlacePath:
    """The domains of a node, broadest first, as the service lists the keys."""
    return tuple(value or OUTSIDE for value in place.values())


def _tree(paths: Mapping[str, PlacePath], tasks: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """Lines of domains, each once, with the nodes below them."""
    last: PlacePath = ()
    for node, path in sorted(paths.items(), key=lambda item: (item[1], item[0])):
        for depth, name in enumerate(path):
            if path[: depth + 1] != last[: depth + 1]:
                yield "  " * depth + name, f"{_count(paths, tasks, path[: depth + 1])}"
        last = path
        yield "  " * len(path) + node, ", ".join(sorted(tasks[node])) or NONE


def _count(paths: Mapping[str, PlacePath], tasks: Mapping[str, Sequence[str]], domain: PlacePath) -> str:
    number = sum(len(tasks[node]) for node, path in paths.items() if path[: len(domain)] == domain)
    return f"{number} {'task' if number == 1 else 'tasks'}"
