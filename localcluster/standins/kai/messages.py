r"""The texts KAI shows, word for word where they were seen, and how it joins them.

One error: ``<reason>: <message>.``; several: ``Unable to schedule podgroup: m1. \nm2.``, sorted, equal
ones counted; none: ``Unable to schedule podgroup.`` ("Silent errors"). With ``--detailed-fit-errors`` each
error stands on a line of its own with its domain and amounts.
Source: KAI v0.13 ``common_info/{job,pod}_errors.go``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localcluster.standins.kai.values import GPU
from localcluster.standins.quantities import UNIT

POD_ERRORS = "PodSchedulingErrors"
NOT_ENOUGH = "Not enough resources for the workload"
OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"
NO_QUEUE = "QueueDoesNotExist"
GENERIC = "Unable to schedule podgroup"
POD_GENERIC = "Unable to schedule pod"


@dataclass(frozen=True, slots=True)
class FitError:
    """Why a group did not fit; ``details`` goes into the condition's reason as it is."""

    reason: str
    messages: tuple[str, ...]
    detailed: tuple[str, ...] = ()
    subgroup: str = ""
    domain: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """The detailed form, prefixed with domain and sub-group."""
        text = ", ".join(self.detailed or self.messages)
        if self.subgroup and self.subgroup != "default":
            text = f"subgroup {self.subgroup}: {text}"
        return f"<{self.domain}>: {text}" if self.domain else text

    def explanation(self) -> dict[str, Any]:
        """One entry of a condition's ``reasons``."""
        entry: dict[str, Any] = {"reason": self.reason, "message": ", ".join(self.messages)}
        return {**entry, "details": dict(self.details)} if self.details else entry


def job_message(errors: Iterable[FitError], *, detailed: bool) -> str:
    """Join a group's errors into the message of its condition and event."""
    errors = tuple(errors)
    if not errors:
        return f"{GENERIC}."
    reason = errors[0].reason if len(errors) == 1 else GENERIC
    if detailed:
        lines = sorted(f"\n{error.line()}." for error in errors)
        return f"\n{reason}.{''.join(lines)}"
    return f"{reason}: {_histogram(m for error in errors for m in error.messages)}."


def pod_message(reasons: Iterable[str]) -> str:
    """Join the reasons of all nodes that could not take a pod."""
    counts = Counter(reasons)
    text = "no nodes with enough resources were found"
    if counts:
        text += ": " + ". \n".join(sorted(f"{count} {reason}" for reason, count in counts.items())) + "."
    return text


def _histogram(messages: Iterable[str]) -> str:
    counts = Counter(messages)
    return ". \n".join(sorted(f"{count} {text}" if count > 1 else text for text, count in counts.items()))


def words(resource: str) -> str:
    """KAI's name for a resource."""
    return {GPU: "GPUs", "cpu": "CPU cores"}.get(resource, resource)


def human(resource: str, amount: int) -> str:
    """An amount as KAI writes it: cores, GPUs or pods, and memory in GB (10^9 bytes)."""
    value = amount / UNIT / (1e9 if resource == "memory" else 1)
    return f"{value:.3f}".rstrip("0").rstrip(".")


def over_limit(queue: str, resource: str, *, limit: int, used: int, requested: int) -> str:
    """A queue's limit is reached."""
    unit = {GPU: "GPUs", "cpu": "cores", "memory": "GB"}[resource]
    amounts = [human(resource, amount) for amount in (limit, used, requested)]
    return (
        f"{queue} quota has reached the allowable limit of {words(resource)}. Limit is {amounts[0]} {unit}, "
        f"currently {amounts[1]} {unit} allocated and workload requested {amounts[2]} {unit}"
    )


def over_quota(queue: str, resource: str, *, quota: int, used: int, requested: int) -> str:
    """A group that may not be preempted asks for more than its queue's quota."""
    short = {GPU: "GPUs", "cpu": "cores", "memory": "GB"}[resource]
    long = {GPU: "GPUs", "cpu": "CPU cores", "memory": "GB memory"}[resource]
    amounts = [human(resource, amount) for amount in (requested, quota, used)]
    return (
        f"Non-preemptible workload is over quota. Workload requested {amounts[0]} {long}, "
        f"but {queue} quota is {amounts[1]} {short}, while {amounts[2]} {short} are already "
        "allocated for non-preemptible pods. Use a preemptible workload to go over quota."
    )
