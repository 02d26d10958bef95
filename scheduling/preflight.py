"""Checks of an installation before it works: their results, and readings that may be missing. Pure.

Three results stay apart: a check *passed*, it *failed*, or it is *unknown* because a fact could not be read
(missing rights, a silent cluster). A passed check may still suggest something.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


class CheckStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check: one sentence on how it is, and one on what to do (empty: nothing)."""

    check: str
    status: CheckStatus
    message: str
    to_do: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """A fact that could not be read, and why."""

    reason: str
    is_served: bool = True
    """Off where the cluster does not serve the kind: no right on it is missing."""


Reading: TypeAlias = T | Unread
Observed: TypeAlias = Mapping[str, Reading[Sequence[Mapping[str, Any]]]]
"""The objects of each query, by its key."""


def passed(check: str, message: str, to_do: str = "") -> CheckResult:
    return CheckResult(check, CheckStatus.PASSED, message, to_do)


def failed(check: str, message: str, to_do: str) -> CheckResult:
    return CheckResult(check, CheckStatus.FAILED, message, to_do)


def unknown(check: str, message: str, to_do: str) -> CheckResult:
    return CheckResult(check, CheckStatus.UNKNOWN, message, to_do)
