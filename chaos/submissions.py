"""What was submitted against the workflows that exist: none lost, none run twice. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from chaos.workload import Submission


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedWorkflow:
    """A workflow, as its row has it."""

    name: str
    key: str
    user: str
    pool: str


def lost(work: Sequence[Submission], rows: Iterable[SubmittedWorkflow], *, user: str) -> Iterator[str]:
    """What was accepted from a user and does not exist, is another's, or is the reply to another one too."""
    by_name = {row.name: row for row in rows}
    for submission in work:
        for name in sorted(submission.replies):
            row = by_name.get(name)
            if row is None:
                yield f"{name} was accepted and is not in the database"
            elif (row.user, row.pool) != (user, submission.pool):
                accepted = f"{name} was accepted from {user} for {submission.pool}"
                yield f"{accepted} and is {row.user}'s in {row.pool}"
    replies = Counter(name for submission in work for name in submission.replies)
    yield from (
        f"{name} was the reply to {count} submissions" for name, count in replies.items() if count > 1
    )


def doubled(work: Iterable[Submission], rows: Iterable[SubmittedWorkflow]) -> Iterator[str]:
    """What one key made twice, what exists although it was refused, and what nobody submitted."""
    names = _names_by_key(rows)
    for submission in work:
        workflows = sorted({*names.pop(submission.key, ()), *submission.replies})
        if len(workflows) > 1:
            yield f"{submission.key} made {', '.join(workflows)}"
        if submission.refused and workflows:
            yield f"{submission.key} was refused and made {workflows[0]}"
    yield from (f"nobody submitted {name}" for of_key in names.values() for name in of_key)


def _names_by_key(rows: Iterable[SubmittedWorkflow]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(row.key, []).append(row.name)
    return names
