"""Why a workflow stands where it stands, group by group.

The service decides what matters and puts it in words: ``GET /api/workflow/{id}/explain`` on the groups that
wait, the workflow itself on what was asked for, where tasks are and what failed. This chooses what to show,
and in which order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmo_topology_cli import tables
from osmo_topology_cli.tables import Table, has_ended, moment

Json = Mapping[str, Any]

MOST_NAMED = 3
MOST_SAID = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One group: a heading, sentences, and tables, each of which may be empty."""

    heading: str
    sentences: tuple[str, ...]
    tables: tuple[Table, ...]


def heading(workflow: Json) -> str:
    ran = f", ran {tables.seconds(workflow['duration'])}" if workflow["duration"] is not None else ""
    return (
        f"{workflow['name']} in pool {workflow['pool']}: {workflow['status']}, submitted by "
        f"{workflow['submitted_by']} at {moment(workflow['submit_time'])} UTC{ran}"
    )


def explain(workflow: Json, explanation: Json) -> list[Explained]:
    """Every group; ``explanation`` says more of those that wait."""
    waiting = {one["group"]: one for one in explanation["groups"]}
    return [_group(group, waiting.get(group["name"])) for group in workflow["groups"]]


def _group(group: Json, waiting: Json | None) -> Explained:
    since = waiting["since"] if waiting else None
    waits = f", waits since {moment(since)} UTC" if since else ", waits" if waiting else ""
    shown = [tables.constraints([(group["name"], group["constraints"])])]
    if placed := [one for one in group["tasks"] if one["node_name"] or has_ended(one["status"])]:
        shown.append(tables.places({"tasks": placed}))
    if troubles := [one for one in group["conditions"] if _is_trouble(one)]:
        shown.append(tables.conditions(troubles))
    return Explained(
        heading=f"group {group['name']}: {group['status']} ({tables.task_counts(group['tasks'])}){waits}",
        sentences=reasons(group, waiting),
        tables=tuple(shown),
    )


def reasons(group: Json, waiting: Json | None) -> tuple[str, ...]:
    """The sentences on a group: why it waits, what would help, how it failed, what is left of it."""
    found = [waiting["sentence"], waiting["help"]] if waiting else [group["waiting_reason"]]
    found += _evidence(waiting.get("evidence") or {}) if waiting else []
    found.append(group["failure_message"])
    found += _failures(group)
    if has_ended(group["status"]) and group["created_in_cluster_at"] and not group["released_at"]:
        found.append("It has ended, and what was made for it in the cluster is being removed.")
    return tuple(dict.fromkeys(filter(None, found)))


def _evidence(seen: Json) -> list[str]:
    """What a reason rests on, as far as its sentence leaves it out; a service of before has none."""
    said = [f"The scheduler's words: {_line(text)}" for text in seen.get("scheduler_says", [])[:MOST_SAID]]
    sets = [
        f"Set {one['set']}: on {_few(one['nodes'])}"
        if one["nodes"]
        else f"Set {one['set']}: waiting are {_few(one['waiting'])}"
        for one in seen.get("sets", [])
    ]
    return [*sets, *said]


def _line(text: str) -> str:
    return " ".join(text.split())


def _failures(group: Json) -> list[str]:
    """What tasks failed with, said once for all that say the same; the group's own message says enough."""
    names: dict[str, list[str]] = {}
    for one in group["tasks"]:
        if one["failure_message"] and one["failure_message"] != group["failure_message"]:
            names.setdefault(one["failure_message"], []).append(one["name"])
    return [f"{_few(those)}: {message}" for message, those in names.items()]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _is_trouble(condition: Json) -> bool:
    """``Released`` is true of what has ended well; every other condition that is true tells of something."""
    return (condition["status"], condition["type"] == "Released") == ("True", False)
