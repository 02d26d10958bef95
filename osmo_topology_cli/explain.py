"""Why a workflow has its status, group by group.

The service decides what matters and writes the sentences: ``GET /api/workflow/{id}/explain`` on the groups
that wait, the workflow itself on its requirements, where tasks run and what failed. This module chooses what
to show, and in which order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osmo_topology_cli import tables
from osmo_topology_cli.tables import Table, moment
from osmo_topology_client.replies import has_ended

Reply = Mapping[str, Any]

MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One group: a heading, sentences, and tables; each may be empty."""

    heading: str
    sentences: tuple[str, ...]
    tables: tuple[Table, ...]


def heading(workflow: Reply) -> str:
    ran = f", ran {tables.seconds(workflow['duration'])}" if workflow["duration"] is not None else ""
    return (
        f"{workflow['name']} in pool {workflow['pool']}: {workflow['status']}, submitted by "
        f"{workflow['submitted_by']} at {moment(workflow['submit_time'])} UTC{ran}"
    )


def explain(workflow: Reply, waits: Mapping[str, Reply]) -> list[Explained]:
    """The groups of a page; ``waits`` has more about those that wait, by their names."""
    return [_group(group, waits.get(group["name"])) for group in workflow["groups"]]


def _group(group: Reply, waiting: Reply | None) -> Explained:
    since = waiting["since"] if waiting else None
    waits = f", waits since {moment(since)} UTC" if since else ", waits" if waiting else ""
    group_tables = [tables.constraints([(group["name"], group["constraints"])])]
    if len(group["attempts"]) > 1:
        group_tables.append(tables.attempts(group["attempts"]))
    if placed := [task for task in group["tasks"] if task["node_name"] or has_ended(task["status"])]:
        group_tables.append(tables.places({"tasks": placed}))
    if troubles := [condition for condition in group["conditions"] if _is_trouble(condition)]:
        group_tables.append(tables.conditions(troubles))
    counts = tables.task_counts(group["tasks"])
    return Explained(
        heading=f"group {group['name']}: {tables.group_status(group)} ({counts}){waits}",
        sentences=reasons(group, waiting),
        tables=tuple(group_tables),
    )


def reasons(group: Reply, waiting: Reply | None) -> tuple[str, ...]:
    """The sentences on a group: why it waits, what would help, how it failed, what is left of it."""
    sentences = [waiting["sentence"], waiting["help"]] if waiting else [group["waiting_reason"]]
    sentences += _evidence(waiting["evidence"]) if waiting else []
    sentences.append(group["failure_message"])
    sentences += _failures(group)
    sentences += _recovery(group)
    if has_ended(group["status"]) and group["created_in_cluster_at"] and not group["released_at"]:
        sentences.append("It has ended, and its objects in the cluster are being deleted.")
    return tuple(dict.fromkeys(filter(None, sentences)))


def _evidence(evidence: Reply) -> list[str]:
    """The evidence of a reason, whatever it is: a line for each key."""
    return [
        f"{name.replace('_', ' ').capitalize()}: {_in_words(value)}"
        for name, value in evidence.items()
        if name != "help" and value
    ]


def _in_words(value: object) -> str:
    """A value of JSON in one line; long lists are cut."""
    if isinstance(value, Mapping):
        return ", ".join(f"{str(name).replace('_', ' ')} {_in_words(item)}" for name, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        more = f"; and {len(value) - MOST_NAMED} more" if len(value) > MOST_NAMED else ""
        return "; ".join(map(_in_words, value[:MOST_NAMED])) + more
    if isinstance(value, bool):
        return "yes" if value else "no"
    return in_one_line(str(value)) if value not in (None, "") else tables.NONE


def _recovery(group: Reply) -> list[str]:
    """The response to the loss of a task, for a group that has not ended."""
    policy = group["recovery"]
    if not policy or has_ended(group["status"]):
        return []
    responses = {loss: policy[loss] or "fail" for loss in ("preempted", "node_lost", "failed")}
    responses |= {"unexplained": policy["unexplained"]} if policy["unexplained"] else {}
    text = ", ".join(f"{loss.replace('_', ' ')}: {response}" for loss, response in responses.items())
    is_bounded = any(responses[loss] != "fail" for loss in ("node_lost", "failed"))
    bound = f", at most {policy['max']}" if is_bounded else ""
    avoided = group["avoided_nodes"]
    return [
        f"When it loses a task: {text}{bound}.",
        f"Attempt {group['attempt']} avoids {_few(avoided)}, where tasks were lost." if avoided else "",
    ]


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def _failures(group: Reply) -> list[str]:
    """The failures of tasks, one line for tasks with the same text; without the group's own message."""
    names: dict[str, list[str]] = {}
    for task in group["tasks"]:
        if task["failure_message"] and task["failure_message"] != group["failure_message"]:
            names.setdefault(task["failure_message"], []).append(task["name"])
    return [f"{_few(task_names)}: {message}" for message, task_names in names.items()]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _is_trouble(condition: Reply) -> bool:
    """``Released`` is true of a group that ended well; every other true condition is about a fault."""
    return (condition["status"], condition["type"] == "Released") == ("True", False)
