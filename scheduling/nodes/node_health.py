"""Whether a node can be relied on, from its conditions, taints and cordon. Pure.

Kubernetes says of a node that it is not ready (its kubelet says so) or unreachable (its kubelet is silent).
Either way its pods stay as they were last seen, for ever if nobody removes the node: so after a time such a
node counts as *lost*. A cordoned node, or one with a condition that OSMO's rules do not allow, works on.

OSMO's rules (``node_conditions.rules`` of a backend, ``node_condition_rules.go``): a regular expression for
types of condition, matched from the start, and the statuses that are healthy. ``Ready`` must be ``True``
unless a rule is about it. Python's expressions can take exponential time: only those are used that cannot.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any

READY = "Ready"
STATUSES = ("True", "False", "Unknown")
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)
MOST_CONDITIONS = 64
MOST_TYPE = 128
MOST_REPETITIONS = 2
MOST_PATTERN = 256
MOST_GROUPS = 8
MOST_ALTERNATIVES = 8
"""Of an expression of several groups: groups one after another try each combination of theirs."""
_TAINT = "node.kubernetes.io/"
_REPEATED_GROUP = re.compile(r"\)[*+?{]")
_ASSERTION = re.compile(r"\(\?|\\[1-9]")


class NodeState(StrEnum):
    """In order of severity, the best first."""

    HEALTHY = "healthy"
    CORDONED = "cordoned"
    UNHEALTHY = "unhealthy"
    NOT_READY = "not_ready"
    UNREACHABLE = "unreachable"
    REMOVED = "removed"


_WORDS = {
    NodeState.HEALTHY: "is healthy",
    NodeState.CORDONED: "is cordoned",
    NodeState.UNHEALTHY: "is unhealthy",
    NodeState.NOT_READY: "is not ready",
    NodeState.UNREACHABLE: "is unreachable",
    NodeState.REMOVED: "was removed from the cluster",
}


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """A node's state, the word of the cluster for it, and since when, if the cluster says so."""

    state: NodeState = NodeState.HEALTHY
    reason: str = ""
    since: datetime | None = None

    @property
    def is_healthy(self) -> bool:
        return self.state is NodeState.HEALTHY

    @property
    def is_away(self) -> bool:
        """Whether nobody can tell what its pods do."""
        return self.state in (NodeState.NOT_READY, NodeState.UNREACHABLE)

    def lost_at(self, after: timedelta | None) -> datetime | None:
        """When it is lost if nothing changes; None: never. ``after`` None: nodes are never lost."""
        if after is None or self.since is None:
            return None
        return self.since + after if self.is_away else None

    def is_lost(self, after: timedelta | None, *, now: datetime) -> bool:
        at = self.lost_at(after)
        return at is not None and at <= now

    def sentence(self, node: str) -> str:
        """One sentence for people; times are UTC."""
        since = f" since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.since else ""
        reason = f" ({self.reason})" if self.reason else ""
        return f"Node {node} {_WORDS[self.state]}{since}{reason}."


@dataclass(frozen=True, slots=True)
class ConditionRules:
    """Which statuses of which conditions are healthy."""

    rules: tuple[tuple[re.Pattern[str], frozenset[str]], ...] = ()

    def statuses(self, condition: str) -> frozenset[str] | None:
        """The healthy statuses of a type of condition; None: any. Of several rules all must allow it."""
        sets = [statuses for pattern, statuses in self.rules if pattern.match(condition[:MOST_TYPE])]
        if not sets:
            return frozenset({"True"}) if condition == READY else None
        return frozenset.intersection(*sets)

    def allow(self, condition: Mapping[str, Any]) -> bool:
        healthy = self.statuses(_type(condition))
        return healthy is None or condition.get("status") in healthy


NO_RULES = ConditionRules()


def rules_of(written: object) -> ConditionRules:
    """The rules as stored; an entry that is no rule is left out."""
    if not isinstance(written, Mapping):
        return NO_RULES
    return _rules(tuple(sorted((str(pattern), str(statuses)) for pattern, statuses in written.items())))


@lru_cache(maxsize=256)
def _rules(written: tuple[tuple[str, str], ...]) -> ConditionRules:
    return ConditionRules(
        tuple(
            (re.compile(pattern), _statuses(statuses))
            for pattern, statuses in written
            if not rule_fault(pattern, statuses)
        )
    )


def rule_fault(pattern: str, statuses: str) -> str:
    """The fault of a rule, in words; empty if nothing is."""
    if not _statuses(statuses) or _statuses(statuses) - set(STATUSES):
        return f'"{statuses}" must be one or more of {", ".join(STATUSES)}, separated by "|".'
    if words := _beyond_bounds(pattern):
        return words
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        return f'"{pattern}" is no regular expression: {error}.'
    return ""


def _beyond_bounds(pattern: str) -> str:
    """Why a pattern could take very long; empty if it cannot."""
    groups = pattern.count("(")
    if len(pattern) > MOST_PATTERN or groups > MOST_GROUPS:
        return f'"{pattern[:32]}..." may have at most {MOST_PATTERN} characters and {MOST_GROUPS} groups.'
    if _REPEATED_GROUP.search(pattern) or _ASSERTION.search(pattern):
        return f'"{pattern}" may repeat no group, and use no assertion and no reference.'
    if sum(pattern.count(sign) for sign in "*+{?") > MOST_REPETITIONS:
        return f'"{pattern}" may repeat at most {MOST_REPETITIONS} times (*, +, ?, braces).'
    if groups > 1 and pattern.count("|") > MOST_ALTERNATIVES:
        return f'"{pattern}" may have at most {MOST_ALTERNATIVES} signs "|" where it has more than one group.'
    return ""


def _statuses(written: str) -> frozenset[str]:
    return frozenset(part for part in written.strip("()^$ ").split("|") if part)


def node_health(
    conditions: Sequence[Mapping[str, Any]],
    *,
    taints: Iterable[Mapping[str, Any]],
    unschedulable: bool,
    ready: bool,
    rules: ConditionRules = NO_RULES,
) -> NodeHealth:
    """A node's health. ``ready`` is used where its conditions are not known."""
    by_key = {str(taint.get("key")): taint for taint in taints}
    written = conditions or ({"type": READY, "status": "True" if ready else "Unknown"},)
    faults = [c for c in written if not rules.allow(c)]
    if unready := next((c for c in faults if _type(c) == READY), None):
        return _unready(unready, by_key)
    if READY not in map(_type, written):
        return NodeHealth(NodeState.NOT_READY, "NodeStatusNeverUpdated")
    if faults:
        worst = min(faults, key=lambda c: (str(c.get("since") or ""), _type(c)))
        return NodeHealth(NodeState.UNHEALTHY, _type(worst), read_time(worst.get("since")))
    if unschedulable:
        since = by_key.get(f"{_TAINT}unschedulable", {}).get("timeAdded")
        return NodeHealth(NodeState.CORDONED, "", read_time(since))
    return NodeHealth()


def _unready(condition: Mapping[str, Any], taints: Mapping[str, Mapping[str, Any]]) -> NodeHealth:
    silent = condition.get("status") == "Unknown" or f"{_TAINT}unreachable" in taints
    state = NodeState.UNREACHABLE if silent else NodeState.NOT_READY
    return NodeHealth(state, str(condition.get("reason") or ""), read_time(condition.get("since")))


def _type(condition: Mapping[str, Any]) -> str:
    return str(condition.get("type") or "")


def read_time(text: object) -> datetime | None:
    """A time as Kubernetes writes it; None for anything else, and where sums with it could overflow."""
    try:
        time = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    if time is None or time.tzinfo is None:
        return None
    return time if EARLIEST <= time < LATEST else None
