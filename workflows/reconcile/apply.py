"""Carrying out a plan's steps, each of them harmless to do twice.

"It exists already" counts as ours only if its labels say so; a delete names the uid. A reply that was lost
is not guessed at: the look ends, and the next one sees what there is. What the API server refuses for good
ends the group; what may change (quota, rights, load, a missing kind) is tried again.
"""

import time
from collections.abc import Iterable

import structlog

from cluster.errors import (
    AlreadyExists,
    ClusterError,
    ClusterUnreachable,
    Invalid,
    NotServed,
    TooManyRequests,
)
from cluster.interface import Obj, WriteOutcome, WriteResult
from cluster.kinds import POD, Kind
from scheduling import names
from web import crashpoints
from workflows.lifecycle.statuses import TaskStatus
from workflows.logs.archive import FORCED_SECONDS, HOLD_SECONDS
from workflows.reconcile.leased import LeasedCluster
from workflows.reconcile.outcomes import Failed, Retry
from workflows.reconcile.plan import Create, Delete, Step

log = structlog.get_logger(__name__)

_WHOSE = (names.INSTALLATION_LABEL, names.GROUP_LABEL)


class NameTaken(Exception):
    """An object that is not ours bears a name of ours."""


def apply(
    steps: Iterable[Step], *, cluster: LeasedCluster, grace_seconds: int | None
) -> Retry | Failed | None:
    """Do the steps in order; None if all were done. Raises ClusterError for what ``retry_for`` names."""
    for step in steps:
        if isinstance(step, Create):
            trouble = _create(step, cluster)
        else:
            trouble = _delete(step, cluster, grace_seconds)
        if trouble is not None:
            return trouble
        crashpoints.reached(f"{'created' if isinstance(step, Create) else 'deleted'}-{step.kind.plural}")
    return None


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
    by_name = {obj["metadata"]["name"]: obj for obj in step.objs}
    worst: WriteOutcome | None = None
    began = time.monotonic()
    outcomes = _sent(step, cluster)
    seconds = time.monotonic() - began
    made = sum(outcome.wrote == WriteResult.DONE for outcome in outcomes)
    log.info("objects_created", kind=step.kind.name, count=made, seconds=round(seconds, 3))
    for outcome in outcomes:
        if outcome.wrote == WriteResult.EXISTS:
            _check_ours(step.kind, by_name[outcome.name], cluster)
        elif outcome.wrote != WriteResult.DONE and (worst is None or _rank(outcome) > _rank(worst)):
            worst = outcome
    if worst is None:
        return None
    if isinstance(worst.error, Invalid):
        return _refused(step.kind, worst.error)
    return retry_for(worst.error) if worst.error else Retry(trouble="Some pods could not be made.")


def _sent(step: Create, cluster: LeasedCluster) -> list[WriteOutcome]:
    """Create all; in two halves where a crash between them can be asked for."""
    half = len(step.objs) // 2 if crashpoints.enabled() else 0
    first = list(cluster.create_many(step.kind, step.objs[:half])) if half else []
    if half:
        crashpoints.reached("half-of-pods")
    return first + list(cluster.create_many(step.kind, step.objs[half:]))


def _rank(outcome: WriteOutcome) -> int:
    """A refusal says more than a lost reply, and that more than what was never sent."""
    if isinstance(outcome.error, Invalid):
        return 3
    return {WriteResult.REFUSED: 2, WriteResult.UNKNOWN: 1}.get(outcome.wrote, 0)


def _delete(step: Delete, cluster: LeasedCluster, grace_seconds: int | None) -> Retry | None:
    if step.kind != POD:
        for one in step.doomed:
            cluster.delete(step.kind, one.name, namespace=one.namespace, uid=one.uid or "")
        return None
    cluster.keep_logs(step.doomed, seconds=FORCED_SECONDS if grace_seconds == 0 else HOLD_SECONDS)
    for outcome in cluster.delete_many(step.kind, step.doomed, grace_seconds=grace_seconds):
        if outcome.error is not None and outcome.wrote not in (WriteResult.DONE, WriteResult.ABSENT):
            return retry_for(outcome.error)
    return None


def _check_ours(kind: Kind, wanted: Obj, cluster: LeasedCluster) -> None:
    """Raise NameTaken if what bears the name is not what we wanted there."""
    metadata = wanted["metadata"]
    found = cluster.get(kind, metadata["name"], namespace=metadata.get("namespace", ""))
    if found is None:
        return  # gone between the two calls; the next look makes it
    labels, want = found["metadata"].get("labels") or {}, metadata.get("labels") or {}
    if any(labels.get(key) != want.get(key) for key in _WHOSE):
        raise NameTaken(
            f"{kind.name} {metadata['name']} exists in the cluster and was not made for this group; "
            "remove it or rename it."
        )


def _refused(kind: Kind, error: ClusterError) -> Failed:
    return Failed(
        status=TaskStatus.FAILED_BACKEND_ERROR,
        message=f"The cluster refuses the group's {kind.name}: {error.message}",
    )


def retry_for(error: ClusterError) -> Retry:
    """How to go on after an error of the cluster."""
    if isinstance(error, NotServed):
        return Retry(trouble=error.message, slow=True)
    if isinstance(error, ClusterUnreachable):
        return Retry(trouble=f"The cluster does not answer: {error.message}", unreachable=True)
    after = (error.retry_after or 0.0) if isinstance(error, TooManyRequests) else 0.0
    return Retry(trouble=str(error), after=after)
