"""Whether the scheduler of a backend holds composite pod groups: condition ``CompositesHeld``.

No API shows the scheduler's gate, and without it sets inside sets are placed anywhere, in silence. So a trial
decides (``scheduling.backends.kubernetes.composites_trial``), daily and when the version of the API server
changes, unless an administrator vouches. A breach of a required level by a placement counts more than either.
"""

import time
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import structlog
from django.db import transaction
from django.utils import timezone

from cluster.errors import ClusterError
from cluster.interface import ClusterApi, Obj
from cluster.kinds import POD
from pools import conditions
from pools.clusters.kinds import kind_of
from pools.conditions import Condition
from pools.documents.backend import COMPOSITES_HELD, queues_of
from pools.models import Backend
from pools.selectors import installation
from scheduling import names
from scheduling.backends.kubernetes.composites_trial import CompositesTrial, is_held, trial
from scheduling.backends.kubernetes.group_kinds import COMPOSITES_SWITCHED_ON
from scheduling.backends.registry import installed
from web.times import read_instant

EVERY: Final = timedelta(days=1)
SOONER: Final = timedelta(minutes=10)
"""Until the next trial after one that showed nothing."""
AT_ONCE: Final = timedelta(minutes=1)
"""Until the next one after one that could not be made."""
NEEDS: Final = ("NamespaceReady", "WritesAllowed")
"""The conditions of a backend without which no trial can be made."""
SECONDS: Final = 40.0
"""How long a trial may last; its objects are deleted then, and by the sweep of orphans at the latest."""
POLL_SECONDS: Final = 1.0

PROVEN, IGNORED, BREACH = "Held", "Ignored", "Breach"
TRIED = frozenset({PROVEN, IGNORED})
"""The reasons by which a trial has decided."""
UNDECIDED = frozenset({"NotTried", "NothingShown"})

log = structlog.get_logger(__name__)


def composites_condition(backend: Backend) -> list[Condition]:
    """What the cluster and the configuration say by themselves; nothing where a trial has the word."""
    scheduler = installed().get(backend.scheduler_type)
    if scheduler is None or not scheduler.hidden_gate:
        return []
    if missing := _missing(backend):
        return [_condition("False", "NotServed", f"{'; '.join(missing)}. {COMPOSITES_SWITCHED_ON}")]
    if _has_breach(backend):
        return []
    before = conditions.find(backend.conditions, COMPOSITES_HELD)
    if backend.composite_pod_groups:
        return [_condition("True", "Vouched", "The backend's composite_pod_groups says so.")]
    if before is None or before["reason"] not in TRIED | UNDECIDED:
        return [_condition("Unknown", "NotTried", "No trial has shown whether the scheduler holds them.")]
    return []


def _missing(backend: Backend) -> list[str]:
    """Why objects that stand above pod groups are not served; empty if they are."""
    scheduler = installed()[backend.scheduler_type]
    findings = {finding["name"]: finding for finding in backend.card.get("findings", ())}
    kinds = [kind.kind for kind in scheduler.parents if not findings.get(kind.kind, {}).get("found")]
    return [str(findings.get(kind, {}).get("how", f"{kind} was not found")) for kind in kinds]


def begins_trial(backend: Backend, *, now: datetime) -> bool:
    """Whether a trial is due; if so, the row says that it was begun, and is to be saved."""
    scheduler = installed().get(backend.scheduler_type)
    if scheduler is None or not scheduler.hidden_gate or _missing(backend) or backend.deleted_at:
        return False
    reason = (conditions.find(backend.conditions, COMPOSITES_HELD) or {}).get("reason")
    if reason == "Vouched" or _has_breach(backend):
        return False
    if any(conditions.status_of(backend.conditions, need) != "True" for need in NEEDS):
        return False
    before = backend.composites_tried
    tried_at = read_instant(before.get("at"))
    is_new = before.get("kubernetes") != backend.kubernetes_version
    pause = EVERY if reason in TRIED else AT_ONCE if before.get("failed") else SOONER
    if tried_at and not is_new and now < tried_at + pause:
        return False
    backend.composites_tried = {"at": now.isoformat(), "kubernetes": backend.kubernetes_version}
    return True


def try_composites(backend: Backend, cluster: ClusterApi) -> Condition:
    """Make a trial in the backend's namespace, and delete its objects again. Raises ClusterError."""
    objects = trial(
        uuid4(),
        installation=installation(),
        namespace=backend.namespace,
        scheduler_name=backend.scheduler_name,
        priority_class=names.priority_class("LOW", prefix=queues_of(backend).prefix),
    )
    created: list[Obj] = []
    try:
        for obj in (*objects.parents, *objects.pod_groups, *objects.pods):
            created.append(cluster.create(kind_of(obj), obj))  # noqa: PERF401 -- kept if one fails
        verdict = _concluded(objects, cluster)
    finally:
        _remove(created, cluster)
    version = backend.kubernetes_version
    proven = _condition("True", PROVEN, f"A trial on Kubernetes {version} has shown it.")
    before = conditions.find(backend.conditions, COMPOSITES_HELD)
    if verdict or (verdict is None and before and before["message"] == proven.message):
        return proven
    if verdict is None:
        message = f"A trial on Kubernetes {version} showed nothing within {SECONDS:g} seconds."
        return _condition("Unknown", "NothingShown", message)
    message = (
        f"In a trial on Kubernetes {version} the scheduler placed one set of a tree of which another did not "
        f"fit: it ignores composite pod groups. {COMPOSITES_SWITCHED_ON}"
    )
    return _condition("False", IGNORED, message)


def _concluded(objects: CompositesTrial, cluster: ClusterApi) -> bool | None:
    until = time.monotonic() + SECONDS
    while True:
        verdict = is_held(_live(objects.pods, cluster), _live(objects.pod_groups, cluster))
        if verdict is not None or time.monotonic() > until:
            return verdict
        time.sleep(POLL_SECONDS)


def _live(objs: tuple[Obj, ...], cluster: ClusterApi) -> list[Obj]:
    live = (
        cluster.get(kind_of(obj), obj["metadata"]["name"], namespace=obj["metadata"]["namespace"])
        for obj in objs
    )
    return [obj for obj in live if obj is not None]


def _remove(created: list[Obj], cluster: ClusterApi) -> None:
    """Delete all objects, the last first; what cannot be deleted now the sweep of orphans deletes."""
    for obj in reversed(created):
        kind, metadata = kind_of(obj), obj["metadata"]
        grace = 0 if kind == POD else None
        with suppress(ClusterError):
            cluster.delete(
                kind,
                metadata["name"],
                uid=metadata["uid"],
                namespace=metadata["namespace"],
                grace_seconds=grace,
            )


def record_condition(backend_id: int, condition: Condition) -> None:
    """Record what a trial or a placement has shown, unless the backend is gone."""
    with transaction.atomic():
        backend = Backend.objects.select_for_update().filter(pk=backend_id).first()
        if backend is None:
            return
        backend.conditions = conditions.upsert(
            backend.conditions, [condition], now=timezone.now(), observed_revision=backend.revision
        )
        backend.save(update_fields=["conditions"])


def record_failure(backend_id: int, error: ClusterError) -> None:
    """Record that a trial could not be made, so that the next one is due soon."""
    with transaction.atomic():
        backend = Backend.objects.select_for_update().filter(pk=backend_id).first()
        if backend is None:
            return
        backend.composites_tried = {**backend.composites_tried, "failed": True}
        before = conditions.find(backend.conditions, COMPOSITES_HELD)
        if before is None or before["reason"] not in TRIED:
            news = [_condition("Unknown", "NotTried", f"A trial could not be made: {error}")]
            backend.conditions = conditions.upsert(
                backend.conditions, news, now=timezone.now(), observed_revision=backend.revision
            )
        backend.save(update_fields=["composites_tried", "conditions"])


def record_breach(backend_id: int, message: str) -> None:
    """Record that a placement broke a required level, until somebody saves the backend again."""
    message = f"{message} Save the backend again once the scheduler is known to hold sets inside sets."
    record_condition(backend_id, _condition("False", BREACH, message))


def unheld_sentence(backend: Backend) -> str:
    """Why no tree of pod groups is made for its scheduler now; empty where the condition is True."""
    current = conditions.find(backend.conditions, COMPOSITES_HELD)
    if current is not None and current["status"] == "True":
        return ""
    status, message = (current["status"], current["message"]) if current else ("Unknown", "")
    state = f'Condition {COMPOSITES_HELD} of backend "{backend.name}" is {status}. {message}'.strip()
    return (
        f"{state} Its scheduler may place single sets of the group, so none is made before the condition is "
        "True; an administrator who knows better says so with the backend's composite_pod_groups."
    )


def _has_breach(backend: Backend) -> bool:
    """Whether a breach was recorded since the backend was saved."""
    before = conditions.find(backend.conditions, COMPOSITES_HELD)
    return bool(before and before["reason"] == BREACH and before["observedRevision"] == backend.revision)


def _condition(status: conditions.Status, reason: str, message: str) -> Condition:
    return Condition(type=COMPOSITES_HELD, status=status, reason=reason, message=message)
