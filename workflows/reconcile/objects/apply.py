"""Applying a plan's steps, each of them harmless to do twice.

"It exists already" counts as ours only if its labels say so; a delete names the uid. Nothing is assumed
about a lost reply: the reconciliation ends, and the next one observes the result. A refusal of the API server
for good ends the group; a refusal that may change (quota, rights, load, a missing kind) is tried again. The
logs of pods go to the archive that the delete step is given before the pods are deleted.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import structlog

from cluster.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnreachable,
    Invalid,
    NotServed,
    RequestForbidden,
    TooManyRequests,
    WebhookUnanswered,
)
from cluster.interface import Deletion, Obj, WriteOutcome, WriteResult
from cluster.kinds import POD, Kind
from scheduling import names
from web import crashpoints
from workflows.lifecycle.statuses import TaskStatus
from workflows.reconcile.objects.plan import Create, Delete, Step
from workflows.reconcile.view.leased import LeasedCluster, LogArchive
from workflows.reconcile.view.outcomes import Failed, Retry

log = structlog.get_logger(__name__)

_OWNER_LABELS = (names.INSTALLATION_LABEL, names.GROUP_LABEL)


class NameTaken(Exception):
    """An object that is not ours has a name that an object of the group needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """All steps were done; ``removed`` names by kind the objects that are gone with the reply to a delete.

    ``lingers``: there are others.
    """

    removed: Mapping[Kind, Collection[str]]
    lingers: bool


def apply(
    steps: Iterable[Step], *, cluster: LeasedCluster, archive: LogArchive, grace_seconds: int | None
) -> Applied | Retry | Failed:
    """Do the steps in order. Raises ClusterError."""
    removed: dict[Kind, Collection[str]] = {}
    lingers = False
    for step in steps:
        if isinstance(step, Create):
            if failure := create_objects(step, cluster=cluster):
                return failure
            continue
        if step.kind == POD:
            gone = _delete_pods(step, cluster, archive, 0 if step.forced else grace_seconds)
        else:
            gone = _delete(step, cluster)
        if isinstance(gone, Retry):
            return gone
        removed[step.kind] = {*removed.get(step.kind, ()), *gone}
        lingers = lingers or len(gone) < len(step.targets)
    return Applied(removed=removed, lingers=lingers)


def create_objects(step: Create, *, cluster: LeasedCluster) -> Retry | Failed | None:
    """Create the objects; None if all exist now. Raises ClusterError."""
    failure = _create(step, cluster)
    if failure is None:
        crashpoints.reached(f"created-{step.kind.plural}")
    return failure


def _create(step: Create, cluster: LeasedCluster) -> Retry | Failed | None:
    if step.kind == POD:
        return _create_pods(step, cluster)
    for obj in step.objs:
        try:
            cluster.create(step.kind, obj)
        except AlreadyExists:
            _check_ours(step.kind, obj, cluster)
        except Invalid as error:
            return _refused(step.kind, error)
    return None


def _create_pods(step: Create, cluster: LeasedCluster) -> Retry | Failed | None:
    worst: WriteOutcome | None = None
    began = time.monotonic()
    outcomes = _send(step, cluster)
    seconds = time.monotonic() - began
    count = sum(outcome.wrote == WriteResult.DONE for outcome in outcomes)
    log.info("objects_created", kind=step.kind.name, count=count, seconds=round(seconds, 3))
    for at, outcome in enumerate(outcomes):
        if outcome.wrote == WriteResult.EXISTS:
            _check_ours(step.kind, step.objs[at], cluster)
        elif outcome.wrote != WriteResult.DONE and (worst is None or _rank(outcome) > _rank(worst)):
            worst = outcome
    if worst is None:
        return None
    if isinstance(worst.error, Invalid):
        return _refused(step.kind, worst.error)
    return retry_for(worst.error) if worst.error else Retry(trouble="Some pods could not be created.")


def _send(step: Create, cluster: LeasedCluster) -> list[WriteOutcome]:
    """Create all; in two halves if the fault harness may stop the process between them."""
    half = len(step.objs) // 2 if crashpoints.enabled() else 0
    first = list(cluster.create_many(step.kind, step.objs[:half])) if half else []
    if half:
        crashpoints.reached("half-of-pods")
    return first + list(cluster.create_many(step.kind, step.objs[half:]))


def _rank(outcome: WriteOutcome) -> int:
    """Order failures by how much they explain: a refusal, a lost reply, a request that was never sent."""
    if isinstance(outcome.error, Invalid):
        return 3
    return {WriteResult.REFUSED: 2, WriteResult.UNKNOWN: 1}.get(outcome.wrote, 0)


def _delete_pods(
    step: Delete, cluster: LeasedCluster, archive: LogArchive, grace_seconds: int | None
) -> list[str] | Retry:
    """Delete pods after their logs are kept; returns the names of those that are gone."""
    cluster.keep_logs(step.targets, archive=archive, forced=grace_seconds == 0)
    removed = []
    for outcome in cluster.delete_many(step.kind, step.targets, grace_seconds=grace_seconds):
        if outcome.error is not None and outcome.wrote is not WriteResult.ABSENT:
            return retry_for(outcome.error)
        if outcome.wrote is WriteResult.REMOVED:
            removed.append(outcome.name)
    crashpoints.reached(f"deleted-{step.kind.plural}")
    return removed


def _delete(step: Delete, cluster: LeasedCluster) -> list[str]:
    """Delete objects; returns the names of those that are gone: one may linger, or another have its name."""
    removed = []
    for target in step.targets:
        deletion = cluster.delete(step.kind, target.name, namespace=target.namespace, uid=target.uid or "")
        if deletion is Deletion.REMOVED:
            removed.append(target.name)
    crashpoints.reached(f"deleted-{step.kind.plural}")
    return removed


def _check_ours(kind: Kind, desired: Obj, cluster: LeasedCluster) -> None:
    """Raise NameTaken if the object of this name is not the desired one."""
    metadata = desired["metadata"]
    existing = cluster.get(kind, metadata["name"], namespace=metadata.get("namespace", ""))
    if existing is None:
        return  # deleted between the two calls; the next reconciliation creates it
    if not has_same_owner(existing, desired):
        raise NameTaken(taken_sentence(kind, desired))


def has_same_owner(existing: Obj, desired: Obj) -> bool:
    """Whether an object of the cluster was created for the same group, by its labels."""
    labels, expected = existing["metadata"].get("labels") or {}, desired["metadata"].get("labels") or {}
    return all(labels.get(key) == expected.get(key) for key in _OWNER_LABELS)


def taken_sentence(kind: Kind, desired: Obj) -> str:
    """Say that an object which is not the group's has the name of one that it needs."""
    named = f"{kind.name} {desired['metadata']['name']}"
    return f"{named} exists in the cluster and was not created for this group; remove it or rename it."


def _refused(kind: Kind, error: ClusterError) -> Failed:
    return Failed(
        status=TaskStatus.FAILED_BACKEND_ERROR,
        message=f"The cluster refuses the group's {kind.name}: {error.message}",
    )


def retry_for(error: ClusterError) -> Retry:
    """When and how to try again after an error of the cluster."""
    if isinstance(error, NotServed):
        return Retry(trouble=error.message, slow=True, unserved=True)
    if isinstance(error, ClusterUnreachable):
        return Retry(trouble=f"The cluster does not answer: {error.message}", unreachable=True)
    after = (error.retry_after or 0.0) if isinstance(error, TooManyRequests) else 0.0
    refused = isinstance(error, RequestForbidden | WebhookUnanswered)
    return Retry(
        trouble=error.message if refused else str(error),
        after=after,
        unanswered=isinstance(error, WebhookUnanswered),
        refused=refused,
    )
