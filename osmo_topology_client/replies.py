"""The fields of the service's replies that programs read most; ``openapi.yaml`` describes all of them.

Times are in UTC: on OSMO's paths written without a zone, on the others (``explain``) with it. A reply may
have more fields than stand here: a newer service adds some.
"""

from typing import TypedDict


class Fit(TypedDict):
    """Whether a group would fit: ``verdict`` is one word of a fixed set, ``sentence`` has the numbers."""

    group: str
    verdict: str
    sentence: str
    tasks: int
    room: int


class Submitted(TypedDict):
    """``name`` is the workflow's from now on; ``overview`` is the address of its page."""

    name: str
    pool: str
    overview: str
    warnings: list[str]
    feasibility: list[Fit]


class TaskReply(TypedDict):
    name: str
    status: str
    retry_id: int
    exit_code: int | None
    node_name: str | None
    failure_message: str | None


class GroupReply(TypedDict):
    """``waiting_reason`` is a sentence while it waits; ``released_at`` is when nothing of it is left."""

    name: str
    status: str
    attempt: int
    waiting_reason: str | None
    failure_message: str | None
    released_at: str | None
    tasks: list[TaskReply]


class Workflow(TypedDict):
    name: str
    uuid: str
    status: str
    pool: str
    submitted_by: str
    groups: list[GroupReply]


class GroupExplanation(TypedDict):
    """``why`` is the first obstacle, one word of a fixed set; ``help`` says what would remove it."""

    group: str
    status: str
    why: str
    sentence: str
    since: str | None
    help: str


class Explanation(TypedDict):
    name: str
    status: str
    sentence: str
    groups: list[GroupExplanation]


class Cancelled(TypedDict):
    name: str


class GroupOfOthers(TypedDict):
    """A gang that others submitted and that waits; ``verdict`` is one word of a fixed set."""

    namespace: str
    name: str
    kind: str
    owner_kind: str
    owner_name: str
    queue: str
    priority: str
    since: str | None
    tasks: int
    gpus: int
    minimum: int
    verdict: str
    sentence: str
    scheduler_report: str


class WaitingOfOthers(TypedDict):
    """The gangs of others that wait for a backend's scheduler, the oldest first.

    ``groups`` is empty without ``names_shown``; ``problem`` says why not all of them are known.
    """

    backend: str
    scheduler: str
    follows_others: bool
    problem: str
    count: int
    omitted: int
    names_shown: bool
    groups: list[GroupOfOthers]
    observed_at: str | None


class NotExamined(TypedDict):
    code: str
    message: str


class ExplanationOfOthers(GroupOfOthers):
    """``faults`` are sentences on what keeps it waiting for ever, whatever is free."""

    backend: str
    faults: list[str]
    not_examined: list[NotExamined]
    feasibility: Fit


def has_ended(status: str) -> bool:
    """Whether a workflow, group or task with this status has ended, well or not."""
    return status.startswith(("COMPLETED", "FAILED"))
