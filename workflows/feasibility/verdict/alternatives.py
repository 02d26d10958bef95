"""The specification with which a group would be placed now, where its scheduler passes over a place."""

from typing import Any

import yaml

from scheduling.fit.alternatives import alternative, is_passed_over
from scheduling.fit.board import Board
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Answer, Obstacle, Verdict
from scheduling.topology.requirements import Gang
from workflows.values.placement import GroupValues

MOST_TASKS = 64
"""A gang of more tasks is given no specification: it would fill the reply."""


def workable_spec(group: GroupValues, demand: GangDemand, verdict: Verdict, snapshot: Snapshot) -> str | None:
    """The topology that would work, as YAML; empty if none is known, None if no place is passed over."""
    waits = verdict.answer is Answer.NOT_NOW and not verdict.has_place
    if not waits or verdict.obstacle in (Obstacle.QUOTA, Obstacle.PRIORITY):
        return None
    if not demand.counts_largest or not is_passed_over(Board(snapshot), demand):
        return None
    if len(group.tasks) > MOST_TASKS:
        return ""
    gang = alternative(snapshot, demand, group.gang)
    return "" if gang is None else as_yaml(gang)


def as_yaml(gang: Gang) -> str:
    """The gang's resources and tasks, as far as topology goes; tasks that ask for the same share one."""
    resources: dict[str, Any] = {}
    names: dict[tuple[tuple[str, str, str, float | None], ...], str] = {}
    tasks = []
    for task in gang.tasks:
        key = tuple((r.key, r.group, r.kind, r.wait_seconds) for r in task.requirements)
        name = names.setdefault(key, task.name)
        resources.setdefault(name, {"topology": [each.as_written() for each in task.requirements]})
        tasks.append({"name": task.name, "resource": name})
    document = {"groups": [{"name": gang.name, "tasks": tasks}], "resources": resources}
    return str(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=100))


def sentence_of(spec: str | None) -> str:
    """What a verdict's sentence says of it; empty where no place is passed over."""
    if spec is None:
        return ""
    return (
        " There is a place for its tasks of unlike sizes that its scheduler passes over, and to which node "
        "labels cannot keep them as they are written."
    )


def advice(spec: str) -> str:
    """What to write instead."""
    if spec:
        return f"With this topology it would fit now:\n{spec}"
    return "A set whose tasks all ask for the same amounts is not passed over."
