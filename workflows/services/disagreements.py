"""Schedulers that leave a gang waiting although it fits: condition ``SchedulerDisagrees`` of groups.

A turn judges the gangs of a cluster that nobody goes before, a few of each pool and priority, and notes the
first time that each certainly fits (status Unknown). One that has fitted in every turn since, for as long as
the setting says, is left waiting by its scheduler (True): the scheduler's snapshot is wrong (KAI issue 1217),
it hangs, or something stands in the way that is not examined. What is uncertain, old or about to change by
ourselves is never called so, and one turn in which the gang does not fit begins the time anew.

A turn reads rows alone, and writes what turns by ``services.condition_rows``.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import structlog
from django.db.models import Exists, F, OuterRef, QuerySet, Window
from django.db.models.functions import Coalesce, Now, RowNumber

from pools import conditions
from pools.conditions import Condition
from pools.models import Backend, Cluster
from pools.services.composites import record_condition
from scheduling.backends.base import Admission
from scheduling.backends.registry import installed
from web.env import environment
from web.times import read_instant
from workflows.explain import disagreement
from workflows.explain.disagreement import DISAGREES, JUDGED
from workflows.explain.reasons import Why
from workflows.feasibility.verdict.report import certainly_fits
from workflows.lifecycle.statuses import TERMINAL, TaskStatus
from workflows.models import Event, ObservedObject, Task, TaskGroup, in_status
from workflows.selectors import group_values
from workflows.services import condition_rows
from workflows.services.steps import database_now
from workflows.services.timeline import SOURCE
from workflows.services.waiting_gangs import unanswered
from workflows.values.observation import POD_GROUP
from workflows.values.placement import VERSION, GroupPlacement

MOST_JUDGED = 3
"""Gangs of one pool and priority that a turn judges: the oldest ones, which go before all others."""

SETTLED_AFTER = timedelta(seconds=20)
"""A scheduler decides within seconds of a group's last object."""

MOST_BETWEEN = timedelta(seconds=90)
"""Between two turns of a cluster; after a longer pause the time of each gang begins anew."""

MOST_SECONDS = 5.0
"""Of processor time for one turn of a cluster."""

log = structlog.get_logger(__name__)


def clusters_judged() -> list[str]:
    """The clusters with gangs that wait for their scheduler, and those where something was said of one."""
    rows = (_waiting() | _noted()).order_by().values_list("backend__cluster_id", flat=True)
    left = Backend.objects.filter(
        deleted_at=None, conditions__contains=[{"type": DISAGREES, "status": "True"}]
    )
    uids = {*rows.distinct(), *left.values_list("cluster_id", flat=True)}
    return sorted(uid for uid in uids if uid)


def judge(
    cluster: str, *, seconds: float = MOST_SECONDS, clock: Callable[[], float] = time.thread_time
) -> None:
    """Bring the condition of a cluster's gangs, and that of its backends, in line with the verdicts.

    Of a gang that had no turn, once so many seconds of the thread's processor time are used up, nothing
    changes.
    """
    now = database_now()
    noted = dict(_noted().filter(backend__cluster_id=cluster).values_list("pk", "conditions"))
    if _has_missed_turns(cluster, now=now):
        begun = {pk for pk, entries in noted.items() if conditions.status_of(entries, DISAGREES) == "Unknown"}
        _record(begun, fitting=set())
    else:
        oldest, until = _oldest(cluster), clock() + seconds
        fits = {
            group.pk: _certainly_fits(group, cluster=cluster, now=now) for group in oldest if clock() < until
        }
        ended = noted.keys() - {group.pk for group in oldest}
        fitting = {pk for pk, is_fitting in fits.items() if is_fitting}
        _record(fitting | ended | (noted.keys() & fits.keys()), fitting=fitting)
    Cluster.objects.filter(pk=cluster).update(schedulers_judged_at=Now())
    for backend in Backend.objects.filter(cluster_id=cluster, deleted_at=None):
        _record_on(backend)


def _has_missed_turns(cluster: str, *, now: datetime) -> bool:
    """Whether nobody looked for so long that a gang may have fitted, or not, without being noted."""
    before = Cluster.objects.filter(pk=cluster).values_list("schedulers_judged_at", flat=True).first()
    return before is not None and now - before > MOST_BETWEEN


def _waiting() -> QuerySet[TaskGroup]:
    """Groups whose objects were made a while ago, as they were sent, and of which no pod has a node.

    One that is admitted before it has pods counts from its first pod group on.
    """
    placed = Task.objects.filter(group=OuterRef("pk"), latest=True).exclude(node_name="")
    return (
        unanswered()
        .annotate(scheduling_since=Coalesce("created_in_cluster_at", "scheduling_start_time"))
        .filter(
            in_status(TaskStatus.SCHEDULING),
            ~Exists(placed),
            released_at=None,
            stop_status="",
            clearing=False,
            scheduling_since__lt=Now() - SETTLED_AFTER,
            waiting_why__in=[why.value for why in JUDGED],
            placement__version=VERSION,
        )
        .exclude(waiting_evidence__has_key="pod_changes")
    )


def _noted() -> QuerySet[TaskGroup]:
    return TaskGroup.objects.filter(released_at=None, conditions__contains=[{"type": DISAGREES}]).exclude(
        conditions__contains=[{"type": DISAGREES, "status": "False"}]
    )


def _oldest(cluster: str) -> Sequence[TaskGroup]:
    """The gangs that waited longest, of each pool and priority."""
    place = Window(
        RowNumber(),
        partition_by=[F("workflow__pool_name"), F("workflow__priority")],
        order_by=[F("submit_time").asc(), F("pk").asc()],
    )
    ranked = _waiting().filter(backend__cluster_id=cluster).annotate(place=place)
    return list(ranked.filter(place__lte=MOST_JUDGED).select_related("backend"))


def _certainly_fits(group: TaskGroup, *, cluster: str, now: datetime) -> bool:
    try:
        values = group_values(group, GroupPlacement.from_json(group.placement))
    except ValueError as error:  # of a newer release, whose workers judge it
        log.warning("group_not_judged", group=str(group.pk), error=str(error))
        return False
    if values.placement.templates and group.waiting_why == Why.SCHEDULER:
        return False  # its scheduler's own words may be of what a template asks for
    return _awaits_answer(group) and certainly_fits(values, cluster=cluster, now=now)


def _awaits_answer(group: TaskGroup) -> bool:
    """Whether its scheduler has to decide: of one that admits first, every pod group waits for its word.

    It has given it where checks of the queue are not done, where the room was taken back, or where somebody
    switched the gang off.
    """
    scheduler = installed().get(group.placement["scheduler_type"])
    if scheduler is None or (admission := scheduler.admission) is None or group.created_in_cluster_at:
        return True
    rows = ObservedObject.objects.filter(
        kind=POD_GROUP,
        group_uuid=group.pk,
        cluster_id=group.backend.cluster_id,
        namespace=group.placement["namespace"],
        deleting=False,
    )
    pod_groups = [row.as_manifest() for row in rows]
    return bool(pod_groups) and not any(
        admission.holds_room(obj) or admission.admission(obj) != Admission() for obj in pod_groups
    )


def _record(groups: Iterable[UUID], *, fitting: set[UUID]) -> None:
    """Write what turned; one that begins to fit is due, so that a scheduler that sleeps is woken for it."""
    condition_rows.write(groups, turned=partial(_turned, fitting), event_of=_event, unknown_is_due=True)


def _turned(fitting: set[UUID], group: TaskGroup, now: datetime) -> Condition | None:
    """The condition of a group if it differs from the recorded one."""
    before = conditions.find(group.conditions, DISAGREES) or {}
    status, since = before.get("status", "False"), read_instant(before.get("lastTransitionTime"))
    if group.pk not in fitting or group.status in TERMINAL:
        return None if status == "False" else disagreement.over()
    if status == "False" or since is None:
        return disagreement.fits()
    wait = timedelta(seconds=environment().scheduler_disagrees_seconds)
    return disagreement.not_placed(since) if status == "Unknown" and now - since >= wait else None


def _event(group: TaskGroup, condition: Condition, before: str, now: datetime) -> Event | None:
    """The event of a condition that becomes True, or was."""
    if "True" not in (before, condition.status):
        return None
    begins = condition.status == "True"
    return Event(
        workflow_id=group.workflow_id,
        group=group,
        time=now,
        source=SOURCE,
        warning=begins,
        reason=DISAGREES if begins else "SchedulerDisagreesNoMore",
        message=f"Group {group.name}: {condition.message}",
        dedupe=f"disagrees:{group.pk.hex}:{condition.status}:{now.isoformat()}",
    )


def _record_on(backend: Backend) -> None:
    """Say of a backend how many gangs its scheduler leaves waiting; nothing of one that never left any."""
    left = TaskGroup.objects.filter(
        backend=backend,
        released_at=None,
        conditions__contains=[{"type": DISAGREES, "status": "True"}],
    ).count()
    before = conditions.find(backend.conditions, DISAGREES)
    condition = disagreement.of_backend(left)
    if (left or before) and conditions.differs(backend.conditions, condition):
        record_condition(backend.pk, condition)
