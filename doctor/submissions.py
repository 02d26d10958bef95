"""A log of submissions against the workflows that exist: none lost, none run twice.

The log has one JSON object a line: ``key`` (Idempotency-Key, or null), ``user``, ``pool``, ``status`` (HTTP
status of the reply, 0 or null where none came) and ``workflow`` (its name in the reply, or null). A request
that was sent again has a line for each sending.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from doctor.facts import Finding, KindOfFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionAttempt:
    """One sending of a submission and its reply."""

    key: str
    user: str
    pool: str
    status: int
    workflow: str

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        return 400 <= self.status < 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedWorkflow:
    """A workflow, as its row has it."""

    name: str
    user: str
    pool: str
    key: str


def read_log(lines: Iterable[str]) -> tuple[SubmissionAttempt, ...]:
    """Read a log. Raises ValueError with the number of the line that is no submission."""
    attempts = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            attempts.append(
                SubmissionAttempt(
                    key=str(entry.get("key") or ""),
                    user=str(entry["user"]),
                    pool=str(entry["pool"]),
                    status=int(entry.get("status") or 0),
                    workflow=str(entry.get("workflow") or ""),
                )
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"line {number} is no submission ({error}): give key, user, pool, status, workflow"
            ) from error
    return tuple(attempts)


def compare_submissions(
    attempts: Sequence[SubmissionAttempt], rows: Sequence[SubmittedWorkflow]
) -> Iterator[Finding]:
    """Find what was accepted and does not exist, what exists twice, and what exists although refused."""
    by_name = {row.name: row for row in rows}
    yield from _lost(attempts, by_name)
    for (user, key), attempts_of_key in _by_key(attempts).items():
        answered = {attempt.workflow for attempt in attempts_of_key if attempt.accepted and attempt.workflow}
        workflow_names = sorted(answered | {row.name for row in rows if (row.user, row.key) == (user, key)})
        if len(workflow_names) > 1:
            message = f"One submission of {user} (key {key}) made {', '.join(workflow_names)}."
            yield _finding("doubled", "submission", message, workflow_names[0], key)
        if workflow_names and all(attempt.refused for attempt in attempts_of_key):
            status = attempts_of_key[-1].status
            message = f"Submission of {user} (key {key}) was refused with {status}, and its workflow exists."
            yield _finding("inconsistent", "refused-submission", message, workflow_names[0], key)
    yield from _shared(attempts)


def _lost(
    attempts: Sequence[SubmissionAttempt], by_name: Mapping[str, SubmittedWorkflow]
) -> Iterator[Finding]:
    for attempt in attempts:
        if not attempt.accepted:
            continue
        if not attempt.workflow:
            message = f"A submission of {attempt.user} to {attempt.pool} was accepted without a name."
            yield _finding("lost", "submission", message, "", attempt.key)
        elif attempt.workflow not in by_name:
            message = f"{attempt.workflow}, accepted from {attempt.user} for {attempt.pool}, does not exist."
            yield _finding("lost", "submission", message, attempt.workflow, attempt.key)
        elif (by_name[attempt.workflow].user, by_name[attempt.workflow].pool) != (attempt.user, attempt.pool):
            row = by_name[attempt.workflow]
            message = (
                f"{attempt.workflow} was accepted from {attempt.user} for {attempt.pool} "
                f"and is {row.user}'s in {row.pool}."
            )
            yield _finding("inconsistent", "submission", message, attempt.workflow, attempt.key)


def _shared(attempts: Sequence[SubmissionAttempt]) -> Iterator[Finding]:
    """Find workflows that are the reply to two submissions: one of the two will not run."""
    keys: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for attempt in attempts:
        if (
            attempt.accepted
            and attempt.workflow
            and (not attempt.key or (attempt.user, attempt.key) not in keys[attempt.workflow])
        ):
            keys[attempt.workflow].append((attempt.user, attempt.key))
    for name, many in keys.items():
        if len(many) > 1:
            message = f"{name} was the reply to {len(many)} different submissions."
            yield _finding("lost", "shared-workflow", message, name, "")


def _by_key(attempts: Sequence[SubmissionAttempt]) -> dict[tuple[str, str], list[SubmissionAttempt]]:
    attempts_by_key: dict[tuple[str, str], list[SubmissionAttempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.key:
            attempts_by_key[attempt.user, attempt.key].append(attempt)
    return attempts_by_key


def _finding(kind: KindOfFinding, rule: str, message: str, workflow: str, key: str) -> Finding:
    return Finding(kind=kind, rule=rule, message=message, workflow=workflow, object=key)
