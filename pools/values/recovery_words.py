"""How recovery is said: words of a pool, a workflow or a task group, and the policy that they add up to.

Each word on its own overrides the same word of a broader place: pool, then workflow, then group. A word keeps
its place in its document, so that a fault that follows from several places points at the narrowest of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pools.values.durations import ACCEPTED, parse_duration
from pools.values.recovery import LONGEST_PAUSE, RESPONSES, Loss, RecoveryPolicy, Response
from scheduling.capabilities import Capabilities, Capability, lacking
from scheduling.errors import Fault, Path
from scheduling.sentences import in_seconds

PLACES: Mapping[str, Path] = {
    **{loss.value: (loss.value,) for loss in Loss},
    "unexplained": ("unexplained",),
    "most": ("max",),
    "most_preemptions": ("max_preemptions",),
    "replace_patience": ("replace_patience",),
    "avoid_nodes": ("avoid_nodes",),
    "backoff_first": ("backoff", "first"),
    "backoff_limit": ("backoff", "limit"),
}
"""Where the words of a document say each field of ``RecoveryPolicy``."""

DURATIONS = frozenset({"replace_patience", "backoff_first", "backoff_limit"})

POOL_DEFAULT = RecoveryPolicy(preempted=Response.REQUEUE, node_lost=Response.REQUEUE)
"""What a pool that says nothing does. A policy that says nothing ends the group: it is that of old groups."""


@dataclass(frozen=True, slots=True)
class RecoveryWords:
    """What one place says; ``values`` are by field of ``RecoveryPolicy``, ``path`` is that of the words."""

    values: Mapping[str, Any]
    path: Path = ()

    def path_of(self, field: str) -> Path:
        return (*self.path, *PLACES[field])


def read_words(document: Mapping[str, Any], *, path: Path) -> tuple[RecoveryWords, list[Fault]]:
    """Read well-formed words, nulls left out; the faults are those of their durations."""
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for field, place in PLACES.items():
        word: Any = document
        for step in place:
            word = (word or {}).get(step)
        if word is None:
            continue
        try:
            values[field] = _value(field, word)
        except ValueError as error:
            faults.append(Fault((*path, *place), "invalid_duration", str(error), allowed=ACCEPTED))
    return RecoveryWords(values, path), faults


def policy_of(places: Sequence[RecoveryWords]) -> RecoveryPolicy:
    """The policy in force; ``places`` run from broad to narrow."""
    values: dict[str, Any] = {}
    for words in places:
        values |= words.values
    return RecoveryPolicy(**values)


def document_of(policy: RecoveryPolicy) -> dict[str, Any]:
    """A whole policy in the words of a document."""
    document: dict[str, Any] = {}
    for field, (*outer, last) in PLACES.items():
        inner = document
        for step in outer:
            inner = inner.setdefault(str(step), {})
        value = getattr(policy, field)
        inner[str(last)] = f"{value:.10g}s" if field in DURATIONS else value
    return document


def check_amounts(places: Sequence[RecoveryWords], *, most: int) -> Iterator[Fault]:
    """Refuse more recoveries than the pool allows, and pauses that are over a bound.

    ``places`` begin with the pool. Its own words are checked where it stands alone, when it is saved.
    """
    policy = policy_of(places)
    if policy.most > most:
        message = f"{policy.most} is over what the pool allows (max_recoveries), which is {most}."
        yield Fault(_narrowest(places, "most").path_of("most"), "over_maximum", message, allowed=(str(most),))
    for field in ("backoff_first", "backoff_limit"):
        words, seconds = _narrowest(places, field), getattr(policy, field)
        is_saved = len(places) > 1 and words is places[0]
        if seconds > LONGEST_PAUSE and not is_saved:
            message = f"{in_seconds(seconds)} is over the longest pause of all, {in_seconds(LONGEST_PAUSE)}."
            yield Fault(words.path_of(field), "over_maximum", message, allowed=("1d",))
    if policy.backoff_first > policy.backoff_limit:
        message = (
            f"The first pause, {in_seconds(policy.backoff_first)}, is longer than the longest, "
            f"{in_seconds(policy.backoff_limit)}."
        )
        words = _narrowest(places, "backoff_first", "backoff_limit")
        field = "backoff_first" if "backoff_first" in words.values else "backoff_limit"
        yield Fault(words.path_of(field), "over_maximum", message)


def check_responses(places: Sequence[RecoveryWords], *, capabilities: Capabilities) -> Iterator[Fault]:
    """Refuse ``task`` where the scheduler does not place a task again beside its peers."""
    if Capability.GANG_REPLACE_TASK in capabilities:
        return
    policy = policy_of(places)
    for word in PLACES:
        if word in RESPONSES and getattr(policy, word) == Response.TASK:
            path = _narrowest(places, word).path_of(word)
            because = "The lost task alone cannot be tried again: write requeue or fail."
            yield lacking(Capability.GANG_REPLACE_TASK, capabilities, path=path, because=because)


def _narrowest(places: Sequence[RecoveryWords], *fields: str) -> RecoveryWords:
    """The narrowest place that says one of these fields; the broadest place if none does."""
    saying = (words for words in reversed(places) if any(field in words.values for field in fields))
    return next(saying, places[0])


def _value(field: str, word: Any) -> Any:
    if field in DURATIONS:
        return parse_duration(str(word))
    return Response(word) if field in RESPONSES else word
