"""What a scheduler says that gives neither the cause of an eviction nor the time of its reports."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from scheduling.backends.base import Eviction, EvictionCause, Meaning


class PlainTexts:
    """The part of ``SchedulerTexts`` in which such schedulers are alike."""

    meanings: Mapping[str, Meaning] = MappingProxyType({})

    def last_report(self, pod_groups: Sequence[Mapping[str, Any]]) -> str:
        """Empty: it is not known."""
        del pod_groups
        return ""

    def read_eviction(self, message: str) -> Eviction:
        """The scheduler's own words."""
        return Eviction(EvictionCause.UNKNOWN, f"The scheduler evicted it: {message}")
