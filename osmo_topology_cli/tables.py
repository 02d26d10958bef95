"""Replies as tables and sentences: pure functions, nothing is printed here.

A table is text by rows and columns. Texts of a service or a user may contain anything; ``printable`` is
called where they are shown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

ENDED = ("COMPLETED", "FAILED")
NONE = "-"


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


def has_ended(status: str) -> bool:
    return status.startswith(ENDED)


def pools(reply: Json) -> Table:
    rows = [
        (
            name,
            pool["status"],
            _yes(pool["nvlink"]),
            _listed(key["key"] for key in pool["topology_keys"]),
            _listed(pool["platforms"]),
            pool["description"] or "",
        )
        for name, pool in sorted(reply["pools"].items())
    ]
    return Table(("POOL", "STATUS", "NVLINK", "TOPOLOGY KEYS", "PLATFORMS", "DESCRIPTION"), tuple(rows))


def keys(reply: Json) -> Table:
    """A pool's keys, broadest first."""
    rows = [
        (key["key"], key["label"], str(key["domain_count"]), str(key["nodes_without_label"]))
        for key in reply["topology_keys"]
    ]
    return Table(
        ("KEY", "LABEL", "DOMAINS", "NODES WITHOUT LABEL"), tuple(rows), "Topology keys, broadest first"
    )


def domains(reply: Json) -> Table:
    """Every domain under the one that it is part of."""
    rows_by_path = [
        (tuple(domain["path"]), key["key"], domain["nodes"])
        for key in reply["topology_keys"]
        for domain in key["domains"]
    ]
    rows = [("  " * (len(path) - 1) + path[-1], key, str(nodes)) for path, key, nodes in sorted(rows_by_path)]
    return Table(("DOMAIN", "KEY", "NODES"), tuple(rows), "Domains")


def workflows(reply: Json) -> Table:
    rows = [
        (
            workflow["name"],
            workflow["status"],
            workflow["pool"],
            workflow["user"],
            workflow["priority"],
            moment(workflow["submit_time"]),
            seconds(workflow["duration"]),
        )
        for workflow in reply["workflows"]
    ]
    return Table(
        ("WORKFLOW", "STATUS", "POOL", "SUBMITTED BY", "PRIORITY", "SUBMITTED AT", "RUN TIME"), tuple(rows)
    )


def constraints(groups: Iterable[tuple[str, Sequence[Json]]]) -> Table:
    """Each requirement with the set that shares a domain of its key."""
    rows = [
        (
            name,
            _set(constraint["set"]),
            constraint["key"],
            constraint["requirementType"],
            str(constraint["tasks"]),
            _note(constraint),
        )
        for name, applied in groups
        for constraint in applied
    ]
    columns = ("GROUP", "SET", "KEY", "TYPE", "TASKS", "NOTE")
    return Table(columns, tuple(rows), "Requirements, as the scheduler gets them")


def objects(reply: Json) -> Table:
    rows = [
        (obj["kind"], obj.get("apiVersion", ""), obj["metadata"]["name"]) for obj in reply.get("objects", ())
    ]
    return Table(("KIND", "VERSION", "NAME"), tuple(rows), "Objects, in order of creation")


def groups(reply: Json) -> Table:
    """A line for each group of a workflow, with the number of its tasks in each status."""
    rows = [
        (group["name"], group["status"], progress(group), task_counts(group["tasks"]))
        for group in reply["groups"]
    ]
    return Table(("GROUP", "STATUS", "DONE", "TASKS"), tuple(rows))


def places(group: Json) -> Table:
    rows = [
        (task["name"], task["status"], task["node_name"] or NONE, str(task["retry_id"] or NONE))
        for task in group["tasks"]
    ]
    return Table(("TASK", "STATUS", "NODE", "RETRY"), tuple(rows))


def conditions(true_conditions: Sequence[Json]) -> Table:
    columns = ("type", "status", "reason", "message")
    rows = [tuple(str(condition[name]) for name in columns) for condition in true_conditions]
    return Table(("CONDITION", "STATUS", "REASON", "MESSAGE"), tuple(rows))


def findings(report: Json) -> Table:
    rows = [
        (
            finding["kind"],
            " ".join(filter(None, (finding["workflow"], finding["group"]))) or NONE,
            finding["message"],
        )
        for finding in report["findings"]
    ]
    return Table(("KIND", "WORKFLOW", "FINDING"), tuple(rows))


def progress(group: Json) -> str:
    ended = sum(has_ended(task["status"]) for task in group["tasks"])
    return f"{ended}/{len(group['tasks'])}"


def counted(tasks: Iterable[Json]) -> dict[str, int]:
    """How many tasks have each status, the most frequent first."""
    counts = Counter(task["status"] for task in tasks)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def task_counts(tasks: Iterable[Json]) -> str:
    """``6 RUNNING, 2 SCHEDULING``."""
    return ", ".join(f"{number} {status}" for status, number in counted(tasks).items())


def moment(text: str | None) -> str:
    """A time of the service, which is UTC, to the second."""
    return text[:19].replace("T", " ") if text else NONE


def seconds(value: float | None) -> str:
    """A duration with its two largest units."""
    if value is None:
        return NONE
    left = int(value)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2])


def printable(text: str) -> str:
    """Text without what would steer a terminal; line breaks become spaces."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _set(members: Sequence[Json]) -> str:
    return " > ".join(f"{member['key']} {member['group']}" for member in members) or "all tasks"


def _note(constraint: Json) -> str:
    if constraint.get("held_by"):
        return f"held by {constraint['held_by']}"
    if constraint.get("relaxed"):
        return "relaxed"
    return f"as required for {seconds(constraint['waitSeconds'])}" if constraint.get("waitSeconds") else ""


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or NONE
