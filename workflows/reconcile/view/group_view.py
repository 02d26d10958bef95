"""A task group's rows as values, read at the start of a turn of its reconciliation.

All decisions of a turn use these values and no row that is read later; its changes are compared with the rows
under their locks. After a record the values are those under its locks.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from itertools import takewhile
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Count, Max, Q

from pools import conditions
from pools.models import Backend
from pools.values.freshness import Age, Freshness
from pools.values.recovery import MOST_ATTEMPTS, MOST_AVOIDED, Loss
from scheduling.backends.base import RenderedGang
from scheduling.backends.registry import installed
from scheduling.gang.gang_form import GangForm
from scheduling.gang.stages import stage_begins
from scheduling.topology.requirements import Gang, GangTask
from web.database.model_rows import Columns
from web.times import read_instant
from workflows.lifecycle.attempts_in_vain import (
    NO_PROGRESS,
    NONE_IN_VAIN,
    PROGRESS,
    InVain,
    is_in_vain,
)
from workflows.lifecycle.loss_response import History
from workflows.lifecycle.statuses import TERMINAL, TaskStatus
from workflows.manifests.group import Renderer
from workflows.models import Attempt, Task, TaskGroup
from workflows.reconcile.view.rendered_gangs import GangSource, gangs_of
from workflows.selectors import gang_values, group_values
from workflows.services.attempt_rows import run_began
from workflows.services.lease import Lease, LeaseLost
from workflows.services.record import NOT_LOCKED, Recorded
from workflows.values.placement import GroupPlacement, GroupValues, requirements_from_json


class TaskView(NamedTuple):
    """One try of a task, without what only rendering needs; its fields are columns of the row.

    A tuple, since a gang has thousands of them and each reconcile reads them all.
    """

    pk: int
    task_uuid: UUID
    name: str
    retry_id: int
    generation: int
    first_retry: int
    lead: bool
    status: str
    pod_name: str
    node_name: str
    pod_ip: str
    scheduling_start_time: datetime | None
    initializing_start_time: datetime | None
    processing_start_time: datetime | None = None
    nvlink_joined_at: datetime | None = None
    nvlink_left_at: datetime | None = None
    replaced_after: str = ""

    @property
    def live(self) -> bool:
        return self.status not in TERMINAL

    @property
    def replaces(self) -> bool:
        """Whether it follows another try in the same attempt, beside peers that may still run."""
        return self.retry_id > self.first_retry


@dataclass(kw_only=True)
class GroupView:
    """A group and the latest try of each of its tasks, at database time ``now``.

    ``heartbeat_at`` is when an observer last followed its cluster.
    """

    row: TaskGroup
    placement: GroupPlacement
    backend: Backend
    tasks: tuple[TaskView, ...]
    now: datetime
    heartbeat_at: datetime | None = None

    def after(self, recorded: Recorded) -> "GroupView":
        """The view after a record that added no try and noted no membership: no row is read for it."""
        row = recorded.group
        for name in row.get_deferred_fields().intersection(NOT_LOCKED):
            setattr(row, name, getattr(self.row, name))
        moved = {task.pk: task for task in recorded.tasks}
        tasks = tuple(
            task._replace(**moved[task.pk]._asdict()) if task.pk in moved else task for task in self.tasks
        )
        return replace(self, row=row, tasks=tasks, now=recorded.now)

    @property
    def uuid(self) -> UUID:
        return self.row.pk

    @property
    def status(self) -> str:
        """The status of the present attempt."""
        return self.row.present_status

    @property
    def ended(self) -> bool:
        return self.row.status in TERMINAL

    @cached_property
    def live(self) -> tuple[TaskView, ...]:
        """The tasks that have not ended."""
        return tuple(task for task in self.tasks if task.status not in TERMINAL)

    @cached_property
    def scheduling(self) -> tuple[TaskView, ...]:
        """The tasks that wait for a node."""
        return tuple(task for task in self.tasks if task.status == TaskStatus.SCHEDULING)

    @cached_property
    def has_node(self) -> bool:
        """Whether any task has a node, or had one when it ended."""
        return any(task.node_name for task in self.tasks)

    @property
    def observer_is_silent(self) -> bool:
        """Whether no observer has followed the group's cluster lately, so that its rows may be old."""
        return Freshness(self.heartbeat_at, self.now).age is not Age.FRESH

    @property
    def waits_since(self) -> datetime:
        """Since when objects of the present attempt may be created."""
        row = self.row
        times = (row.processing_start_time, row.attempt_began_at, row.attempt_not_before)
        return max((time for time in times if time is not None), default=self.now)

    @property
    def domain_uid(self) -> str:
        """The uid of the ComputeDomain whose channels the pods of this attempt claim; empty: not known."""
        domain = self.row.compute_domain or {}
        is_present = domain.get("attempt") == self.row.attempt_number
        return str(domain.get("uid") or "") if is_present else ""

    @property
    def awaits_room(self) -> bool:
        """Whether its pod group waits for room, before it has pods (``reconcile.objects.room``)."""
        return self.status == TaskStatus.SCHEDULING and self.row.created_in_cluster_at is None

    @cached_property
    def keeps_nodes(self) -> bool:
        """Whether its scheduler admits the gang before it has pods, and keeps a node for each of them."""
        scheduler = installed().get(self.placement.terms.scheduler_type)
        return scheduler is not None and scheduler.admission is not None

    @cached_property
    def pod_group_names(self) -> Mapping[int, str]:
        """The name of each generation's pod group, where its scheduler admits the gang before it has pods."""
        scheduler = installed().get(self.placement.terms.scheduler_type)
        if scheduler is None or scheduler.admission is None:
            return {}
        name_of = partial(scheduler.admission.pod_group_name, self.uuid, form=self.form)
        return {number: name_of(generation=number) for number in sorted({t.generation for t in self.tasks})}

    @cached_property
    def values(self) -> GroupValues:
        """All that rendering needs; read on first use."""
        return group_values(self.row, self.placement)

    @cached_property
    def renderer(self) -> Renderer:
        return Renderer(self.values)

    @cached_property
    def form(self) -> GangForm:
        """The group's form by its row."""
        return GangForm.from_json(self.row.form)

    @property
    def proposed_form(self) -> GangForm | None:
        """A form in which it would be placed; None while its objects are still brought to its own."""
        row = self.row
        return None if row.form_state or row.other_form is None else GangForm.from_json(row.other_form)

    @cached_property
    def _gang_values(self) -> GroupValues:
        """What its pod groups depend on; read on first use, unless all of the group was.

        That is all of the group where the scheduler judges the pods before they exist.
        """
        if self.keeps_nodes:
            return self.values
        return self.__dict__.get("values") or gang_values(self.row, self.placement)

    @cached_property
    def gangs(self) -> Mapping[int, RenderedGang]:
        """The rendered gang of each generation."""
        if self.keeps_nodes or "values" in self.__dict__:
            return Renderer(self._gang_values).gangs
        source = GangSource(
            placement=self.placement,
            attempt_number=self.row.attempt_number,
            generation=self.row.generation,
            form=self.form,
            tries=tuple(task.pk for task in self.tasks),
        )
        return gangs_of(self.uuid, source, render=lambda: Renderer(self._gang_values).gangs)

    def gangs_of(self, form: GangForm) -> Mapping[int, RenderedGang]:
        """The same in another form."""
        return self.gangs if form == self.form else Renderer(replace(self._gang_values, form=form)).gangs

    @cached_property
    def begins(self) -> tuple[float, ...]:
        """When each stage begins, read from the distinct requirements alone: there may be 10,000 tasks."""
        rows = self.row.tasks.filter(latest=True).order_by().values_list("spec__requirements", flat=True)
        tasks = tuple(
            GangTask(str(number), 0, requirements_from_json(requirements))
            for number, requirements in enumerate(rows.distinct())
        )
        return stage_begins(Gang(self.row.name, tasks))


_GROUP = Columns(TaskGroup)
_ROW = f"""
    SELECT {_GROUP.sql("g")}, clock_timestamp(), c.heartbeat_at FROM workflows_taskgroup AS g
      LEFT JOIN pools_cluster AS c ON c.uid = coalesce(nullif(g.placement ->> 'cluster_uid', ''), %s)
     WHERE g.uuid = %s
"""  # noqa: S608 -- names of columns
_COLUMN_OF = {field.name: str(field.column) for field in Task._meta.concrete_fields} | {"pk": "id"}  # noqa: SLF001 -- public
_COLUMNS = ", ".join(_COLUMN_OF[field] for field in TaskView._fields)
_TASKS = f"SELECT {_COLUMNS} FROM workflows_task WHERE group_id = %s AND latest ORDER BY position"  # noqa: S608 -- names
"""Each turn reads both; Django builds them for longer than they run."""


def load(lease: Lease) -> GroupView:
    """Read the group. Raises LeaseLost if it is gone, ValueError for a placement of another release."""
    with connection.cursor() as cursor:
        cursor.execute(_ROW, [lease.backend.cluster_id, lease.group_id])
        values = cursor.fetchone()
        if values is None:
            raise LeaseLost(f"group {lease.group_id} is gone")
        cursor.execute(_TASKS, [lease.group_id])
        tasks = cursor.fetchall()
    row, (now, heartbeat_at) = _GROUP.instance(values), values[len(_GROUP) :]
    return GroupView(
        row=row,
        placement=GroupPlacement.from_json(row.placement),
        backend=lease.backend,
        tasks=tuple(map(TaskView._make, tasks)),
        now=now,
        heartbeat_at=heartbeat_at,
    )


_EXIT_ACTIONS = """
    SELECT id, nullif(spec -> 'exit_actions', 'null') FROM workflows_task
     WHERE group_id = %s AND id = ANY(%s::bigint[])
"""


def exit_actions_of(row: TaskGroup, pks: list[int]) -> Mapping[int, Mapping[str, str]]:
    """The exit actions of these tries."""
    with connection.cursor() as cursor:
        cursor.execute(_EXIT_ACTIONS, [row.pk, pks])
        return {pk: json.loads(actions) if actions else {} for pk, actions in cursor.fetchall()}


def uncounted_tries_of(row: TaskGroup, pks: list[int]) -> Mapping[int, int]:
    """How many earlier tries of these did not end by an exit action of theirs."""
    latest = dict(Task.objects.filter(group=row, pk__in=pks, retry_id__gt=0).values_list("task_uuid", "pk"))
    replaced = Task.objects.filter(group=row, task_uuid__in=latest, latest=False).filter(
        Q(uncounted=True) | Q(exit_code=None) | ~Q(status=TaskStatus.RESCHEDULED)
    )
    return Counter(latest[uuid] for uuid in replaced.values_list("task_uuid", flat=True))


def history_of(row: TaskGroup, *, now: datetime, tasks: Sequence[TaskView]) -> History:
    """What the group recovered from before, and how often these tasks were replaced alone in vain."""
    kinds = Attempt.objects.filter(group=row).order_by().values_list("loss", "counted")
    counts = {(loss, counted): rows for loss, counted, rows in kinds.annotate(rows=Count("pk"))}
    preemptions = counts.get((Loss.PREEMPTED.value, False), 0)
    alone = Task.objects.filter(group=row).exclude(replaced_after="").order_by().values_list("replaced_after")
    # those replaced at the same time were lost together
    replaced = dict(alone.annotate(times=Count("processing_start_time", distinct=True)))
    replaced_preempted = replaced.pop(Loss.PREEMPTED.value, 0)
    warned = _warned(row)
    return History(
        now=now,
        attempts=sum(counts.values()),
        counted=sum(rows for (_, counted), rows in counts.items() if counted),
        preemptions=preemptions,
        rescheduled=sum(rows for (_, counted), rows in counts.items() if not counted) - preemptions,
        in_vain=replace(_in_vain(row, now), warned=warned),
        ran=_seconds(run_began(row), now),
        replaced_in_vain={
            pk: replace(tries.in_vain, warned=warned) for pk, tries in replaced_in_vain(row, tasks).items()
        },
        replaced=sum(replaced.values()),
        replaced_preempted=replaced_preempted,
        out_of_domain=_out_of_domain(row),
    )


def _out_of_domain(row: TaskGroup) -> tuple[str, ...]:
    """The nodes that left the group's ComputeDomain under a try, and that no later one joined."""
    tries = Task.objects.filter(group=row).exclude(node_name="").order_by().values_list("node_name")
    left_at = tries.filter(nvlink_left_at__isnull=False).annotate(at=Max("nvlink_left_at"))
    times: dict[str, datetime] = dict(left_at.order_by("-at")[:MOST_AVOIDED])
    if not times:
        return ()
    back = tries.filter(node_name__in=times, nvlink_left_at=None, nvlink_joined_at__isnull=False)
    joined_at = dict(back.annotate(at=Max("nvlink_joined_at")))
    return tuple(node for node, at in times.items() if node not in joined_at or joined_at[node] < at)


def _in_vain(row: TaskGroup, now: datetime) -> InVain:
    """The last attempts in a row that were in vain; where there is none, the present one may be the first."""
    attempts = Attempt.objects.filter(group=row).order_by("-number")
    last = attempts.values_list("evidence", "start_time", "end_time")[:MOST_ATTEMPTS]
    ends = [
        end
        for _, _, end in takewhile(lambda attempt: is_in_vain(attempt[0], ran=_seconds(*attempt[1:])), last)
    ]
    return InVain(number=len(ends), since=ends[-1] if ends else now)


def _warned(row: TaskGroup) -> datetime | None:
    """Since when the group has the condition of attempts in vain; None without it."""
    entry = conditions.find(row.conditions, NO_PROGRESS)
    return read_instant(entry["lastTransitionTime"]) if entry and entry["status"] == "True" else None


_MOST_TRIES = 10_000
_BY_CLUSTER = {Loss.PREEMPTED.value, Loss.NODE_LOST.value}


class _EndedTry(NamedTuple):
    at: datetime
    ran: float
    reason: str
    lost_to: str


@dataclass(frozen=True, slots=True)
class EarlierReplacements:
    """The last replacements in a row of a task that were in vain, and why the last one ended."""

    in_vain: InVain
    reason: str = ""


def replaced_in_vain(row: TaskGroup, tasks: Sequence[TaskView]) -> Mapping[int, EarlierReplacements]:
    """The ended replacements of these tasks in the present attempt, by row; none for one without any.

    Only the next try says what a try was lost to. One query, and none where no task was replaced alone twice.
    """
    again = {t.task_uuid: t for t in tasks if t.replaced_after and t.retry_id - t.first_retry > 1}
    if not again:
        return {}
    ended: dict[UUID, list[_EndedTry]] = {uuid: [] for uuid in again}
    lost_to = {uuid: task.replaced_after for uuid, task in again.items()}
    rows = Task.objects.filter(group=row, latest=False, task_uuid__in=again, end_time__isnull=False)
    columns = ("task_uuid", "retry_id", "start_time", "end_time", "failure_message", "replaced_after")
    latest_first = rows.order_by("-retry_id").values_list(*columns)[:_MOST_TRIES]
    for uuid, retry, start, end, message, after in latest_first:
        if retry > again[uuid].first_retry:
            ended[uuid].append(_EndedTry(end, _seconds(start, end), message, lost_to[uuid]))
            lost_to[uuid] = after
    return {again[uuid].pk: _earlier(tries) for uuid, tries in ended.items()}


def _earlier(tries: Sequence[_EndedTry]) -> EarlierReplacements:
    in_vain = list(takewhile(lambda ended: ended.ran < PROGRESS and ended.lost_to in _BY_CLUSTER, tries))
    if not in_vain:
        return EarlierReplacements(NONE_IN_VAIN)
    return EarlierReplacements(
        InVain(len(in_vain), since=in_vain[-1].at, noun="replacement"), reason=in_vain[0].reason
    )


def _seconds(since: datetime | None, until: datetime) -> float:
    return (until - since).total_seconds() if since is not None else 0.0


def claims_channels(tasks: Iterable[TaskView]) -> bool:
    """Whether the container of one of these tasks claims a channel of its group's ComputeDomain."""
    keys = [task.pk for task in tasks]
    return bool(keys) and Task.objects.filter(pk__in=keys, spec__claims_channel=True).exists()
