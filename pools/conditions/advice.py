"""Advice about each condition of pools and backends: its severity, and what to do.

For some conditions the good status is "True", for others "False". The texts are those of
``docs/reference/conditions.md`` (a test compares them), so pages and manual agree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from pools.conditions.topology import DRIFT, INCOMPLETE, QUEUE, SHARED
from pools.models import Backend, Pool
from web.times import read_instant


class Tone(StrEnum):
    """The severity of a condition; the word is shown beside every colour."""

    GOOD = "good"
    MINOR = "look at it"
    BAD = "wrong"
    UNKNOWN = "not known"
    CHECKING = "being checked"


_OPEN = (Tone.UNKNOWN, Tone.CHECKING)


@dataclass(frozen=True, slots=True)
class Advice:
    """A condition as people see it."""

    type: str
    status: str
    tone: Tone

    label: str
    """Sums it up in one or two words."""

    reason: str
    message: str
    since: datetime | None
    revision: int | None
    to_do: str


GOOD_STATUS: Mapping[str, str] = {
    DRIFT: "False",
    INCOMPLETE: "False",
    SHARED: "False",
    QUEUE: "True",
    "Reachable": "True",
    "SchedulerServed": "True",
    "Conforms": "True",
    "ComputeDomainServed": "True",
    "NamespaceReady": "True",
    "Synced": "True",
    "ForeignObjects": "False",
    "CompositesHeld": "True",
    "OthersSeen": "True",
    "QueuesSeen": "True",
    "SlicesSeen": "True",
    "GangsSeen": "True",
    "ObservationsStored": "True",
    "SchedulerDisagrees": "False",
}
"""The status of each type with which all is well."""

LABELS: Mapping[str, tuple[str, str]] = {
    DRIFT: ("Topology in step", "Topology drifts"),
    INCOMPLETE: ("labels complete", "labels incomplete"),
    SHARED: ("nodes its own", "nodes shared"),
    QUEUE: ("queue ready", "queue not ready"),
    "Reachable": ("reachable", "unreachable"),
    "SchedulerServed": ("scheduler served", "scheduler not served"),
    "Conforms": ("conforms", "does not conform"),
    "ComputeDomainServed": ("ComputeDomains served", "no ComputeDomains"),
    "NamespaceReady": ("namespace ready", "no namespace"),
    "Synced": ("in line", "not in line"),
    "ForeignObjects": ("no foreign objects", "foreign objects"),
    "CompositesHeld": ("composites held", "composites not held"),
    "OthersSeen": ("other tenants' pods seen", "other tenants' pods not seen"),
    "QueuesSeen": ("queues seen", "queues not seen"),
    "SlicesSeen": ("devices seen", "devices not seen"),
    "GangsSeen": ("gangs of others seen", "gangs of others not seen"),
    "ObservationsStored": ("observations stored", "objects kept aside"),
    "SchedulerDisagrees": ("scheduler agrees", "scheduler disagrees"),
}
"""The names of each type, where all is well and where it is not."""

_MINOR = frozenset(
    {
        "ComputeDomainServed",
        "CompositesHeld",
        "OthersSeen",
        "QueuesSeen",
        "SlicesSeen",
        "GangsSeen",
        "ObservationsStored",
        "ValuesUnderTwoParents",
        "NotObserved",
        "NodesOutsideFlavors",
    }
)
"""Types and reasons that need a look and no more: they harm only some uses."""

TO_DO: Mapping[str, str] = {
    "Drift": "Managed: nothing, it is replaced (below). External: correct it there, or set the pool's "
    "keys to its levels.",
    "TopologyNotFound": "Managed: nothing, it is created again. External: correct topology_name, or "
    "create it.",
    "NotObserved": "Check that the observer runs and the scheduler is installed.",
    "ObserverSilent": "Check that the observer runs and reaches the cluster.",
    "NoNodes": "Correct the pool's node_selector, or wait until it has nodes.",
    "NodesLackLabels": "Label them, or exclude them by the pool's node_selector.",
    "ValuesUnderTwoParents": "Where domains are paths (KAI), two racks of one name in two zones are two "
    "racks: nothing to do unless it is a mistake. Elsewhere use unique values.",
    "SeveralSchedulers": "Give the pools node selectors that exclude each other. Pools of one scheduler may "
    "overlap.",
    QUEUE: "Correct local_queue, or what the message names; the service writes only queues of its own "
    "(backend: own_queues).",
    "Reachable": "Read the message: the address, the rights or the cluster. Running work is not affected.",
    "SchedulerServed": "Install the scheduler in a version that is supported, or give the backend another "
    "scheduler_type.",
    "Conforms": "Read the conformance card: install or switch on what is not found.",
    "ComputeDomainServed": "Install NVIDIA's DRA driver, or use no pool with NVLink on this backend.",
    "NamespaceReady": "Read the message: usually the right to create namespaces is missing. Or create it by "
    "hand.",
    "Synced": "Read the message; the sync is repeated every 5 s.",
    "ForeignObjects": "Rename or delete what the message names, if it may go; the service never touches it.",
    "CompositesHeld": "Switch composite pod groups on as the message says. Sets inside sets are refused "
    "meanwhile; all else goes on.",
    "OthersSeen": "Grant the observer the role osmo-topology-others, or know that verdicts count what "
    "other tenants' pods use as free.",
    "QueuesSeen": "Grant the observer the rights of deploy/rbac/cluster.yaml (list and watch queues), or "
    "know that verdicts know a pool's own queue alone.",
    "SlicesSeen": "Grant the observer the rights of deploy/rbac/cluster.yaml (list and watch "
    "resourceslices and deviceclasses), or know that a claim of a channel is accepted although no node may "
    "have one, and that nothing is proven of GPUs that DRA drivers alone offer.",
    "GangsSeen": "Grant the observer the rights of deploy/rbac/others-gangs.yaml (the chart's "
    "rights.othersGangs), or set the backend's follow_others to false.",
    "SchedulerDisagrees": "Look at the scheduler, then restart it, as the runbook says.",
    "ObservationsStored": "Correct or delete the objects that the message names; each is tried again when it "
    "changes.",
}
"""What to do, by reason, and where a type has one thing to do, by type."""


def advise(entry: Mapping[str, Any], *, revision: int | None = None) -> Advice:
    """Read one condition; one that is older than the ``revision`` of its object is being checked anew."""
    kind, status, reason = entry["type"], entry["status"], entry.get("reason", "")
    good, bad = LABELS.get(kind, (kind, kind))
    is_outdated = revision is not None and entry.get("observedRevision", revision) < revision
    tone = Tone.CHECKING if is_outdated else _tone(kind, status, reason)
    return Advice(
        type=kind,
        status=status,
        tone=tone,
        label=good if tone is Tone.GOOD else f"{good}?" if tone in _OPEN else bad,
        reason=reason,
        message=entry.get("message", ""),
        since=read_instant(entry.get("lastTransitionTime")),
        revision=entry.get("observedRevision"),
        to_do="" if tone in (Tone.GOOD, Tone.CHECKING) else TO_DO.get(reason) or TO_DO.get(kind, ""),
    )


def _tone(kind: str, status: str, reason: str) -> Tone:
    if status == GOOD_STATUS.get(kind, "True"):
        return Tone.GOOD
    if status == "Unknown":
        return Tone.UNKNOWN
    return Tone.MINOR if {kind, reason} & _MINOR else Tone.BAD


def advice_of(obj: Pool | Backend) -> list[Advice]:
    """All conditions of a pool or backend, the most severe first.

    Saving a pool has all of its conditions checked; those of a backend have times of their own.
    """
    revision = obj.revision if isinstance(obj, Pool) else None
    order = [Tone.BAD, Tone.MINOR, Tone.UNKNOWN, Tone.CHECKING, Tone.GOOD]
    advice = [advise(entry, revision=revision) for entry in obj.conditions]
    return sorted(advice, key=lambda entry: (order.index(entry.tone), entry.type))


def concerns(advice: Iterable[Advice]) -> list[Advice]:
    return [entry for entry in advice if entry.tone is not Tone.GOOD]
