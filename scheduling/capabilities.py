"""The capabilities of schedulers, as data.

A *capability* is a named thing that a scheduler backend can do, with the scheduler version it needs. A
capability exists only if a check reads it, so the list below is exactly what can lead to a refusal. Refusals,
the admin page and the documentation read this one table, and nothing is decided from a scheduler's name.

A backend's version is inferred from the schemas that its cluster serves, never from image tags, which anybody
can change.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from scheduling.errors import Fault, Path
from scheduling.topology.levels import Level


class Capability(StrEnum):
    GANG = "gang"
    GANG_MULTI_SET = "gang.multi_set"
    GANG_REPLACE_TASK = "gang.replace_task"
    TOPOLOGY_REQUIRED = "topology.required"
    TOPOLOGY_PREFERRED = "topology.preferred"
    TOPOLOGY_BOTH_TYPES = "topology.both_types"
    TOPOLOGY_MIXED_PODS = "topology.mixed_pods"
    TOPOLOGY_EQUAL_SETS = "topology.equal_sets"
    TOPOLOGY_CHOSEN_DOMAIN = "topology.chosen_domain"
    TOPOLOGY_NESTED = "topology.nested"
    TOPOLOGY_PATH_DOMAINS = "topology.path_domains"
    TOPOLOGY_RELAX_PENDING = "topology.relax_pending"
    QUEUE_GUARANTEE = "queue.guarantee"
    QUEUE_LIMIT = "queue.limit"
    QUEUE_WEIGHT = "queue.over_quota_weight"
    QUEUE_PREEMPT_MIN_RUNTIME = "queue.preempt_min_runtime"
    QUEUE_RECLAIM_MIN_RUNTIME = "queue.reclaim_min_runtime"
    QUEUE_PREEMPTION_DELAY = "queue.preemption_delay"


MEANING: Mapping[Capability, str] = {
    Capability.GANG: "starts the tasks of a task group together or not at all",
    Capability.GANG_MULTI_SET: "holds a task group of several co-location sets as one gang",
    Capability.GANG_REPLACE_TASK: "places one task again while its peers go on, within their domain",
    Capability.TOPOLOGY_REQUIRED: "keeps a co-location set in one domain of a topology key",
    Capability.TOPOLOGY_PREFERRED: "tries to keep a co-location set in one domain before spreading it",
    Capability.TOPOLOGY_BOTH_TYPES: "prefers a narrower domain for tasks that require a broader one",
    Capability.TOPOLOGY_MIXED_PODS: "keeps tasks that ask for different resources in one domain",
    Capability.TOPOLOGY_EQUAL_SETS: (
        "holds co-location sets of equal size, all of whose tasks ask for the same resources, inside another "
        "one"
    ),
    Capability.TOPOLOGY_CHOSEN_DOMAIN: (
        "holds any co-location sets inside a required domain, which the service chooses and node labels keep"
    ),
    Capability.TOPOLOGY_NESTED: "holds any co-location sets inside another one",
    Capability.TOPOLOGY_PATH_DOMAINS: (
        "tells apart domains of the same name under different broader domains, and so holds several "
        "required keys on the same tasks"
    ),
    Capability.TOPOLOGY_RELAX_PENDING: (
        "lets a waiting pod group be edited, and so holds a preference as required for a while"
    ),
    Capability.QUEUE_GUARANTEE: "guarantees GPUs to a pool (gpu.guarantee)",
    Capability.QUEUE_LIMIT: "bounds the GPUs of a pool (gpu.maximum)",
    Capability.QUEUE_WEIGHT: "shares GPUs beyond guarantees by weight (gpu.weight)",
    Capability.QUEUE_PREEMPT_MIN_RUNTIME: (
        "lets work run for a time before work of higher priority preempts it (preempt_min_runtime)"
    ),
    Capability.QUEUE_RECLAIM_MIN_RUNTIME: (
        "lets work run for a time before another queue reclaims its GPUs (reclaim_min_runtime)"
    ),
    Capability.QUEUE_PREEMPTION_DELAY: (
        "lets a group wait for a time before other work is evicted for it (preemption_delay)"
    ),
}


@dataclass(frozen=True, slots=True, order=True)
class SchedulerVersion:
    """A scheduler's version, as precise as needed: ``patch`` is 0 where it makes no difference.

    ``gates`` are feature gates of the scheduler itself, which no schema shows: a trial has shown them, or an
    administrator vouches for them. Versions are compared by number alone.
    """

    major: int
    minor: int
    patch: int = 0
    gates: frozenset[str] = field(default=frozenset(), compare=False)

    def __str__(self) -> str:
        number = f"{self.major}.{self.minor}.{self.patch}" if self.patch else f"{self.major}.{self.minor}"
        return f"{number} ({', '.join(sorted(self.gates))})" if self.gates else number

    @classmethod
    def parse(cls, text: str) -> "SchedulerVersion":
        """Read ``1.36``, ``v1.36.3`` or ``0.13``, without the patch. Raises ValueError for anything else."""
        if match := re.match(r"v?(\d+)\.(\d+)", text):
            return cls(int(match[1]), int(match[2]))
        raise ValueError(f"{text!r} is no version; one looks like 0.13")

    @classmethod
    def parse_known(cls, text: str) -> "SchedulerVersion | None":
        """Read the text of a version; None for an empty one, which means that it is not known."""
        if not text:
            return None
        number, _, gates = text.partition(" ")
        major, minor, *patch = (int(part) for part in number.split("."))
        version = cls(major, minor, patch[0] if patch else 0)
        return version.with_gates(*gates.strip("()").split(", ")) if gates else version

    def with_gates(self, *gates: str) -> "SchedulerVersion":
        return replace(self, gates=frozenset(gates))

    def has(self, needed: "SchedulerVersion") -> bool:
        """Whether this version is as late as the other, and has its gates."""
        return self >= needed and self.gates >= needed.gates


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of one scheduler, at one version.

    ``max_levels`` bounds a pool's list of keys, ``max_pod_sets`` the parts of a gang that are placed by
    themselves (None: any number). ``version`` None: not known, so that these are the oldest one's.
    """

    scheduler: str
    held: frozenset[Capability]
    max_levels: int
    max_pod_sets: int | None = None
    version: SchedulerVersion | None = field(default=None, compare=False)

    def __contains__(self, capability: Capability) -> bool:
        return capability in self.held

    @property
    def by_paths(self) -> bool:
        """Whether sets inside sets stand in domains inside domains, so that these are paths of labels."""
        return not self.held.isdisjoint({Capability.TOPOLOGY_PATH_DOMAINS, Capability.TOPOLOGY_NESTED})

    def as_json(self) -> dict[str, Any]:
        """What REST shows: every capability, held or not, and the bound on levels."""
        return {**{str(c): c in self.held for c in Capability}, "max_levels": self.max_levels}


def supported_at(
    needs: Mapping[Capability, SchedulerVersion], version: SchedulerVersion
) -> frozenset[Capability]:
    """The capabilities that this version has."""
    return frozenset(capability for capability, since in needs.items() if version.has(since))


def lacking(capability: Capability, capabilities: Capabilities, *, path: Path, because: str) -> Fault:
    """The fault of a requirement that the scheduler cannot hold."""
    return Fault(
        path,
        "unsupported_capability",
        f'{because} The pool\'s scheduler "{capabilities.scheduler}" lacks capability '
        f"{capability} ({MEANING[capability]}).",
        capability=str(capability),
    )


def places_by_topology(capabilities: Capabilities) -> bool:
    """Whether the scheduler supports any topology constraint."""
    return not capabilities.held.isdisjoint({Capability.TOPOLOGY_REQUIRED, Capability.TOPOLOGY_PREFERRED})


SHARE_CAPABILITIES: Mapping[str, Capability] = {
    "guarantee": Capability.QUEUE_GUARANTEE,
    "maximum": Capability.QUEUE_LIMIT,
    "weight": Capability.QUEUE_WEIGHT,
}
"""The capability that each field of a pool's share of GPUs needs."""

NO_SHARE: Mapping[str, float] = {"guarantee": -1, "maximum": -1, "weight": 1}
"""The values that ask for nothing."""

QUEUE_CAPABILITIES: Mapping[str, Capability] = {
    "preempt_min_runtime": Capability.QUEUE_PREEMPT_MIN_RUNTIME,
    "reclaim_min_runtime": Capability.QUEUE_RECLAIM_MIN_RUNTIME,
    "preemption_delay": Capability.QUEUE_PREEMPTION_DELAY,
}
"""The capability that each setting of a backend's queues needs."""


def check_share(
    share: Mapping[str, float], before: Mapping[str, float], *, capabilities: Capabilities, path: Path
) -> list[Fault]:
    """Refuse new values of a pool's share of GPUs that its scheduler would ignore."""
    return [
        lacking(capability, capabilities, path=(*path, field), because="The scheduler would ignore this.")
        for field, capability in SHARE_CAPABILITIES.items()
        if share.get(field, NO_SHARE[field]) not in {NO_SHARE[field], before.get(field, NO_SHARE[field])}
        and capability not in capabilities
    ]


def check_queue_settings(
    settings: Mapping[str, str], before: Mapping[str, str], *, capabilities: Capabilities, path: Path
) -> list[Fault]:
    """Refuse new settings of queues that the scheduler, at its version, would ignore."""
    return [
        lacking(capability, capabilities, path=(*path, field), because="The scheduler would ignore this.")
        for field, capability in QUEUE_CAPABILITIES.items()
        if settings.get(field) and settings[field] != before.get(field) and capability not in capabilities
    ]


def check_pool_levels(levels: Sequence[Level], *, capabilities: Capabilities, path: Path) -> list[Fault]:
    """Refuse topology keys that the backend's scheduler cannot use (saving keys, moving a pool)."""
    if not levels:
        return []
    if not places_by_topology(capabilities):
        because = "Topology keys need a scheduler that places by topology; this pool can have none."
        return [lacking(Capability.TOPOLOGY_REQUIRED, capabilities, path=path, because=because)]
    if len(levels) > capabilities.max_levels:
        message = (
            f'Scheduler "{capabilities.scheduler}" holds at most {capabilities.max_levels} topology keys '
            f"(max_levels), not {len(levels)}."
        )
        return [Fault(path, "unsupported_capability", message, capability="max_levels")]
    return []
