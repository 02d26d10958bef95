"""Kueue's answer to a Workload, from its conditions.

``Evicted`` with its reason says that room is taken back; it stays reserved until the owner gives it back. A
Workload with ``spec.active: false`` is evicted too, whether it has room or waits, and while it is inactive
Kueue considers it no further; ``Requeued`` says that somebody has made it active again. The service never
writes ``Finished``; a Workload that has it counts nowhere and is considered no further. Source of the
reasons: upstream's tests (v0.9 to v0.19); only ``Preempted`` was seen running, and what ``Finished`` frees.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from scheduling.backends.base import Admission, Manifest, RoomCause, RoomLoss

_CAUSES: Mapping[str, RoomCause] = {
    "NodeFailures": RoomCause.NODE_FAILED,
    "PodsReadyTimeout": RoomCause.NOT_READY,
}
"""Others are preemptions, or count as such: ``Preempted``, ``AdmissionCheck``, ``ClusterQueueStopped``,
``LocalQueueStopped``."""

_INACTIVE = ("Deactivated", "InactiveWorkload")
"""How the reasons of an inactive Workload begin: ``DeactivatedDueToRequeuingLimitExceeded``."""


_PODS_READY = "PodsReady"
OWN_CONDITIONS = frozenset({_PODS_READY})
_REJECTED = "DeactivatedDueToAdmissionCheck"


def read(workload: Mapping[str, Any]) -> Admission:
    """The answer; of an inactive Workload that has no room, that it is switched off.

    A Workload that is evicted stays admitted until its pods are gone.
    """
    status = workload.get("status") or {}
    conditions = {str(c.get("type")): c for c in status.get("conditions") or ()}
    evicted, finished = conditions.get("Evicted") or {}, conditions.get("Finished") or {}
    if rejection := _rejection(status, evicted):
        return Admission(lost=RoomLoss(RoomCause.REJECTED, rejection))
    if finished.get("status") == "True":
        return _lost(RoomCause.PREEMPTED, finished)
    if evicted.get("status") != "True":
        return Admission(admitted=(conditions.get("Admitted") or {}).get("status") == "True")
    reason, is_reserved = str(evicted.get("reason") or ""), bool(status.get("admission"))
    if not reason.startswith(_INACTIVE):
        return _lost(_CAUSES.get(reason, RoomCause.PREEMPTED), evicted)
    if is_reserved:
        return _lost(RoomCause.SWITCHED_OFF, evicted)
    return Admission(switched_off=(conditions.get("Requeued") or {}).get("status") != "True")


def is_reserved(workload: Mapping[str, Any]) -> bool:
    """Whether its queue counts its room: from its reservation on, also while checks run, to its pods' end."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    met = {c.get("type") for c in conditions if c.get("status") == "True"}
    return "QuotaReserved" in met and "Finished" not in met


def ready(workload: Mapping[str, Any], *, now: datetime) -> Manifest | None:
    """The patch by which its status says that its pods are ready, for ``waitForPodsReady``; None if it does.

    It is never taken back: what a lost pod leads to is decided by the policy of its group.
    """
    conditions = (workload.get("status") or {}).get("conditions") or ()
    others = [condition for condition in conditions if condition.get("type") != _PODS_READY]
    if any(c.get("type") == _PODS_READY and c.get("status") == "True" for c in conditions):
        return None
    condition = {
        "type": _PODS_READY,
        "status": "True",
        "reason": "Started",
        "message": "All pods of the task group run.",
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {"status": {"conditions": [*others, condition]}}


def _rejection(status: Mapping[str, Any], evicted: Mapping[str, Any]) -> str:
    """Which admission check rejected it, and its words; empty for none.

    Kueue then deactivates the Workload, resets its checks and keeps no more than their names.
    """
    rejected = [check for check in status.get("admissionChecks") or () if check.get("state") == "Rejected"]
    if rejected:
        return "; ".join(
            f'admission check "{c.get("name")}" rejected it: {c.get("message")}' for c in rejected
        )
    return str(evicted.get("message")) if evicted.get("reason") == _REJECTED else ""


def _lost(cause: RoomCause, condition: Mapping[str, Any]) -> Admission:
    return Admission(lost=RoomLoss(cause, f"{condition.get('reason')}: {condition.get('message')}"))
