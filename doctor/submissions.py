"""What a log of submissions says against the workflows there are: none lost, none run twice.

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
class Sent:
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
class Accepted:
    """A workflow as its row says."""

    name: str
    user: str
    pool: str
    key: str


def read_log(lines: Iterable[str]) -> tuple[Sent, ...]:
    """Read a log. Raises ValueError, naming the line that is none."""
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
            found.append(
                Sent(
                    key=str(said.get("key") or ""),
                    user=str(said["user"]),
                    pool=str(said["pool"]),
                    status=int(said.get("status") or 0),
                    workflow=str(said.get("workflow") or ""),
                )
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"line {number} is no submission ({error}): give key, user, pool, status, workflow"
            ) from error
    return tuple(found)


def compare_submissions(log: Sequence[Sent], rows: Sequence[Accepted]) -> Iterator[Finding]:
    """What was accepted and is not there, what is there twice, and what is there though it was refused."""
    by_name = {row.name: row for row in rows}
    yield from _lost(log, by_name)
    for (user, key), many in _by_key(log).items():
        named = {one.workflow for one in many if one.accepted and one.workflow}
        there = sorted(named | {row.name for row in rows if (row.user, row.key) == (user, key)})
        if len(there) > 1:
            message = f"One submission of {user} (key {key}) made {', '.join(there)}."
            yield _finding("doubled", "submission", message, there[0], key)
        if there and all(one.refused for one in many):
            message = f"Submission of {user} (key {key}) was refused with {many[-1].status} and is there."
            yield _finding("inconsistent", "refused-submission", message, there[0], key)
    yield from _shared(log)


def _lost(log: Sequence[Sent], by_name: Mapping[str, Accepted]) -> Iterator[Finding]:
    for one in log:
        if not one.accepted:
            continue
        if not one.workflow:
            message = f"A submission of {one.user} to {one.pool} was accepted without a name."
            yield _finding("lost", "submission", message, "", one.key)
        elif one.workflow not in by_name:
            message = f"{one.workflow}, accepted of {one.user} for {one.pool}, is not there."
            yield _finding("lost", "submission", message, one.workflow, one.key)
        elif (by_name[one.workflow].user, by_name[one.workflow].pool) != (one.user, one.pool):
            row = by_name[one.workflow]
            message = (
                f"{one.workflow} was accepted of {one.user} for {one.pool} and is {row.user}'s in {row.pool}."
            )
            yield _finding("inconsistent", "submission", message, one.workflow, one.key)


def _shared(log: Sequence[Sent]) -> Iterator[Finding]:
    """One workflow that stands for two submissions: one of them will not run."""
    keys: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in log:
        if one.accepted and one.workflow and (not one.key or (one.user, one.key) not in keys[one.workflow]):
            keys[one.workflow].append((one.user, one.key))
    for name, many in keys.items():
        if len(many) > 1:
            message = f"{name} was the reply to {len(many)} different submissions."
            yield _finding("lost", "shared-workflow", message, name, "")


def _by_key(log: Sequence[Sent]) -> dict[tuple[str, str], list[Sent]]:
    found: dict[tuple[str, str], list[Sent]] = defaultdict(list)
    for one in log:
        if one.key:
            found[one.user, one.key].append(one)
    return found


def _finding(kind: KindOfFinding, rule: str, message: str, workflow: str, key: str) -> Finding:
    return Finding(kind=kind, rule=rule, message=message, workflow=workflow, object=key)
