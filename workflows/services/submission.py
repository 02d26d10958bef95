"""Accepting a workflow: every check first, then all rows in one transaction, then the nudge.

Nothing reaches a cluster from here. A dry run and a validation run the very same checks and write
nothing. A number is taken under a lock on its base name, so two submissions never race for one; pool and
backend are held in share mode meanwhile, so neither is deleted or disabled under an accepted workflow.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any
from uuid import UUID, uuid4

import structlog
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, connection, transaction
from django.db.models import Max

from osmo_topology import env
from osmo_topology.crashpoints import reached
from osmo_topology.web.access import grants_of
from osmo_topology.web.errors import summary
from osmo_topology.web.policy import Action
from pools.capabilities import capabilities_of
from pools.models import Pool
from pools.selectors import pool_visible_to, pools_visible_to
from scheduling import names
from scheduling.backends.registry import scheduler_backend
from scheduling.errors import Conflict, Fault, InvalidSpec, Path, listing
from workflows import metrics
from workflows.admission import Admission, AdmittedGroup, Wish, admit, capability_faults, oversized
from workflows.explain import starts_after
from workflows.manifests.group import GroupObjects, render_group
from workflows.manifests.labels import is_reserved
from workflows.models import Event, Task, TaskGroup, Workflow
from workflows.overlays import environment, merged_labels
from workflows.pool_facts import PoolFacts, coverage_warnings, pool_facts
from workflows.services.backlog import check_room
from workflows.services.idempotency import digest, earlier_reply
from workflows.services.nudge import nudge_on_commit
from workflows.services.quotas import Limit, check_limits, hold_limits, limits_on
from workflows.spec import Limits, Parsed, read_workflow
from workflows.statuses import TaskStatus

log = structlog.get_logger(__name__)

BATCH = 2000
NUMBERING_LOCK = 0x6F73_6D6F
"""First key of our advisory locks on base names; the second is the name's hash."""

VALIDATED = "Workflow validation succeeded."


class Mode(Enum):
    SUBMIT = auto()
    DRY_RUN = auto()
    VALIDATE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Former:
    """A finished workflow that is run again; the groups that ``completed`` are carried over."""

    name: str
    base_name: str
    number: int
    completed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRequest:
    """What a caller asks for. ``labels`` and ``env_vars`` are ``key=value``, as given.

    ``former`` is set for a restart. A text that was ``rendered_before`` is not rendered again.
    """

    pool_name: str
    text: str
    variables: tuple[str, ...]
    string_variables: tuple[str, ...]
    user: AbstractBaseUser
    priority: str
    labels: tuple[str, ...]
    env_vars: tuple[str, ...]
    mode: Mode
    uploaded_template: str
    idempotency_key: str | None
    request_id: str
    former: Former | None = None
    rendered_before: bool = False

    def digest(self) -> str:
        again = {"restart_of": self.former.name} if self.former else {}
        return digest(
            **again,
            pool=self.pool_name,
            text=self.text,
            variables=self.variables,
            string_variables=self.string_variables,
            priority=self.priority,
            labels=self.labels,
            env_vars=self.env_vars,
            template=self.uploaded_template,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Accepted:
    """A workflow that passed every check, not yet written."""

    request: SubmissionRequest
    pool: Pool
    parsed: Parsed
    workflow: UUID
    labels: dict[str, str]
    admission: Admission
    objects: tuple[GroupObjects, ...]
    limits: tuple[Limit, ...]
    warnings: list[str]


def submit(request: SubmissionRequest) -> dict[str, Any]:
    """Check a workflow and, unless asked only to check, accept it; returns the reply's values.

    Raises NotFound for an unknown pool, Conflict for one that takes no workflows, InvalidSpec with every
    fault of the workflow, LimitReached where user or pool have as much as they may, Busy while too much that
    was accepted waits.
    """
    with metrics.submission() as ending:
        ending.outcome, reply = _submit(request)
    return reply


def _submit(request: SubmissionRequest) -> tuple[str, dict[str, Any]]:
    """Do it; returns how it is counted, and the reply."""
    if earlier := _answered(request):
        return "repeated", earlier
    accepted = _accept(request)
    if request.mode is Mode.DRY_RUN:
        return "checked", _dry_run_reply(accepted)
    if request.mode is Mode.VALIDATE:
        return "checked", _reply(accepted, name=_expected_name(accepted), logs=VALIDATED)
    try:
        return "accepted", _write(accepted)
    except IntegrityError:
        if earlier := _answered(request):  # the same request at the same moment won
            return "repeated", earlier
        raise


def _answered(request: SubmissionRequest) -> dict[str, Any] | None:
    """What an earlier request with the same key was answered. Raises Conflict if it was another one."""
    if request.mode is not Mode.SUBMIT:
        return None
    return earlier_reply(
        user=request.user.get_username(), key=request.idempotency_key, digest=request.digest()
    )


def _accept(request: SubmissionRequest) -> _Accepted:
    """Run every check. Raises InvalidSpec with all faults found."""
    pool = _open_pool(request)
    if request.mode is Mode.SUBMIT:
        check_room(pool.name)
    facts = pool_facts(pool)
    parsed = _read(request, facts)
    spec = parsed.spec
    labels, faults = merged_labels(spec.labels, request.labels, own_path=("workflow", "labels"))
    variables, more = environment(request.env_vars)
    workflow = uuid4()
    admission = admit(
        spec,
        facts,
        wish=Wish(
            user=request.user.get_username(),
            priority=request.priority,
            labels=labels,
            environment=variables,
        ),
        name=_next_name(spec.name),
        workflow=workflow,
        scheduler=scheduler_backend(facts.scheduler_type),
        new_uuid=uuid4,
    )
    faults += [*more, *parsed.faults, *admission.faults]
    objects = _rendered(admission.groups) if not faults else ()
    faults += oversized(_sizes(admission.groups, objects), most=facts.limits.max_object_bytes)
    _refuse(faults, parsed=parsed, user=request.user)
    limits = limits_on(request.user.get_username(), pool, facts.limits)
    check_limits(limits, tasks=_task_count(admission))
    return _Accepted(
        request=request,
        pool=pool,
        parsed=parsed,
        workflow=workflow,
        labels=labels,
        admission=admission,
        objects=objects,
        limits=limits,
        warnings=[*_label_warnings(labels), *_warnings(parsed, admission, facts, pool)],
    )


def _read(request: SubmissionRequest, facts: PoolFacts) -> Parsed:
    """Parse the document. Raises InvalidSpec where that leaves nothing to check."""
    try:
        return read_workflow(
            request.text,
            variables=request.variables,
            string_variables=request.string_variables,
            limits=_limits(facts),
            allow_localpath=request.mode is Mode.DRY_RUN,
            rendered_before=request.rendered_before,
        )
    except InvalidSpec as error:
        raise InvalidSpec(summary(error.faults) if error.faults else error.message, error.faults) from error


def _limits(facts: PoolFacts) -> Limits:
    """What a text may cost: tasks as configured over REST, the rest as this installation is set."""
    own = env.environment()
    tasks = facts.limits.max_num_tasks
    return Limits(
        size=own.max_body_bytes,
        depth=own.spec_depth,
        aliases=own.spec_aliases,
        entries=max(tasks, Limits().entries),
        values=own.spec_values,
        tasks=tasks,
        template_cpu_seconds=own.template_cpu_seconds,
        template_seconds=own.template_seconds,
        template_memory=own.template_memory_bytes,
    )


def _open_pool(request: SubmissionRequest) -> Pool:
    """The pool, if it takes workflows of this caller."""
    pool = pool_visible_to(request.user, request.pool_name, action=Action.WORKFLOW_CREATE)
    backend = pool.backend
    if backend.deleted_at is not None or not backend.enabled:
        gone = "was deleted" if backend.deleted_at is not None else "is disabled"
        raise Conflict(f'Pool "{pool.name}" takes no workflows: its backend "{backend.name}" {gone}.')
    keeps = grants_of(request.user).allows(Action.CONFIG_UPDATE, f"pool/{pool.name}")
    if pool.enable_maintenance and not keeps:
        raise Conflict(
            f'Pool "{pool.name}" is in maintenance and takes no workflows but those of its administrators.'
        )
    return pool


def _rendered(groups: Sequence[AdmittedGroup]) -> tuple[GroupObjects, ...]:
    return tuple(render_group(group.values) for group in groups)


def _sizes(groups: Sequence[AdmittedGroup], objects: Sequence[GroupObjects]) -> Iterator[tuple[Path, int]]:
    """Where each rendered object comes from, and how many bytes it has as JSON."""
    for group, made in zip(groups, objects, strict=False):
        for manifest in (*made.secrets, *made.pod_groups):
            yield group.gang.path, len(json.dumps(manifest))
        for task in group.gang.tasks:
            yield task.path, len(json.dumps(made.pods[task.name]))


def _refuse(faults: Sequence[Fault], *, parsed: Parsed, user: AbstractBaseUser) -> None:
    if not faults:
        return
    if any(fault.capability for fault in faults):
        pools = {pool.name: capabilities_of(pool.backend).held for pool in pools_visible_to(user)}
        faults = capability_faults(faults, pools=pools)
    located = parsed.locate_faults(faults)
    raise InvalidSpec(summary(located), located)


def _warnings(parsed: Parsed, admission: Admission, facts: PoolFacts, pool: Pool) -> list[str]:
    said = [notice.message for notice in (*parsed.warnings, *admission.notices)]
    said += coverage_warnings(pool, facts, [group.gang for group in admission.groups])
    if not facts.scheduler_served:
        said.append(
            f'Backend "{facts.backend}" does not serve what its scheduler "{facts.scheduler_type}" needs. '
            "The workflow is accepted and starts when it does."
        )
    if not facts.reachable:
        said.append(
            f'The cluster of backend "{facts.backend}" does not answer at the moment. The workflow is '
            "accepted and starts when it does."
        )
    return list(dict.fromkeys(said))


def _label_warnings(labels: Mapping[str, str]) -> list[str]:
    """Say which labels stay off the pods, instead of leaving them out without a word."""
    kept = listing(key for key in labels if is_reserved(key))
    if not kept:
        return []
    return [f"Kept with the workflow but not put on its pods, where these names are reserved: {kept}."]


def _task_count(admission: Admission) -> int:
    return sum(len(group.values.tasks) for group in admission.groups)


def _next_name(base: str) -> str:
    """The name a workflow would get now; certain only under the lock of ``_take_number``."""
    return f"{base}-{_next_number(base)}"


def _next_number(base: str) -> int:
    last = Workflow.objects.filter(base_name=base).aggregate(last=Max("number"))["last"]
    return int(last or 0) + 1


def _reply(
    accepted: _Accepted, *, name: str, logs: str | None = None, spec: str | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "logs": logs,
        "spec": spec,
        "dashboard_url": accepted.pool.backend.dashboard_url or None,
        "warnings": accepted.warnings,
        "constraints": [
            {"group": group.values.name, "constraints": [one.as_json() for one in made.constraints]}
            for group, made in zip(accepted.admission.groups, accepted.objects, strict=True)
        ],
    }


def _expected_name(accepted: _Accepted) -> str:
    """The name that was frozen while checking; another submission may still take it."""
    return accepted.admission.groups[0].values.placement.workflow_name


def _dry_run_reply(accepted: _Accepted) -> dict[str, Any]:
    reply = _reply(accepted, name=_expected_name(accepted), spec=accepted.parsed.rendered)
    return {**reply, "objects": [one for made in accepted.objects for one in made.in_order()]}


def _write(accepted: _Accepted) -> dict[str, Any]:
    """Write all rows in one transaction and return the reply."""
    base = accepted.parsed.spec.name
    with transaction.atomic():
        _hold_open(accepted.pool)
        _lock_name(base)
        hold_limits(accepted.limits)
        check_limits(accepted.limits, tasks=_task_count(accepted.admission))
        number = _next_number(base)
        workflow = _workflow_row(accepted, number=number)
        workflow.reply = _reply(accepted, name=workflow.name)
        workflow.save(force_insert=True)
        rows = _write_groups(accepted, workflow)
        tell_of_restart(workflow, rows, accepted.request.former)
        Event.objects.create(
            workflow=workflow,
            time=workflow.submit_time,
            source="osmo-topology",
            reason="Submitted",
            message=f"Accepted into pool {workflow.pool_name} for {workflow.submitted_by}.",
            dedupe="submitted",
        )
        nudge_on_commit(row.pk for row in rows if row.status == TaskStatus.PROCESSING)
    reached("after-submission-before-reply")
    log.info("workflow_submitted", workflow=workflow.name, groups=len(rows), pool=workflow.pool_name)
    return dict(workflow.reply)


def tell_of_restart(workflow: Workflow, groups: Sequence[TaskGroup], former: Former | None) -> None:
    """Say in the timeline what is run again and what is carried over."""
    if former is None:
        return
    again = [row.name for row in groups if row.status != TaskStatus.COMPLETED]
    carried = [row.name for row in groups if row.status == TaskStatus.COMPLETED]
    kept = f" Carried over as COMPLETED: {listing(carried)}." if carried else ""
    Event.objects.create(
        workflow=workflow,
        time=workflow.submit_time,
        source="osmo-topology",
        reason="RestartOf",
        message=f"It restarts {former.name}. Run again: {listing(again)}.{kept}",
        dedupe="restart-of",
    )


def _hold_open(pool: Pool) -> None:
    """Keep pool and backend from being deleted or disabled until the commit. Raises Conflict if late."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pools_pool p JOIN pools_backend b ON b.id = p.backend_id"
            " WHERE p.id = %s AND b.id = %s AND b.enabled AND b.deleted_at IS NULL FOR SHARE",
            [pool.pk, pool.backend_id],
        )
        if cursor.fetchone() is None:
            raise Conflict(f'Pool "{pool.name}" has just been taken away or moved: submit again.')


def _lock_name(base: str) -> None:
    """Number workflows of one base name one after the other, until the commit."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [NUMBERING_LOCK, base])


def _workflow_row(accepted: _Accepted, *, number: int) -> Workflow:
    request, parsed, admission = accepted.request, accepted.parsed, accepted.admission
    key = request.idempotency_key
    return Workflow(
        uuid=accepted.workflow,
        name=f"{parsed.spec.name}-{number}",
        base_name=parsed.spec.name,
        number=number,
        pool_name=accepted.pool.name,
        backend_id=accepted.pool.backend_id,
        pool_revision=accepted.pool.revision,
        submitted_by=request.user.get_username(),
        priority=request.priority,
        labels=accepted.labels,
        spec=parsed.rendered,
        template_spec=request.uploaded_template or parsed.template or "",
        env_vars=list(request.env_vars),
        parent_name=request.former.base_name if request.former else "",
        parent_job_id=request.former.number if request.former else None,
        warnings=accepted.warnings,
        exec_timeout=admission.exec_timeout,
        queue_timeout=admission.queue_timeout,
        request_id=request.request_id,
        idempotency_key=key,
        idempotency_digest=request.digest() if key else "",
    )


def _write_groups(accepted: _Accepted, workflow: Workflow) -> list[TaskGroup]:
    admitted = accepted.admission.groups
    carried = accepted.request.former.completed if accepted.request.former else frozenset()
    rows = [
        _group_row(group, made, workflow=workflow, position=position, carried=carried)
        for position, (group, made) in enumerate(zip(admitted, accepted.objects, strict=True))
    ]
    TaskGroup.objects.bulk_create(rows, batch_size=BATCH)
    by_name = {row.name: row.pk for row in rows}
    through = TaskGroup.upstream.through
    through.objects.bulk_create(
        [
            through(from_taskgroup_id=by_name[group.values.name], to_taskgroup_id=by_name[above])
            for group in admitted
            for above in group.upstream
        ],
        batch_size=BATCH,
    )
    Task.objects.bulk_create(
        [task for row, group in zip(rows, admitted, strict=True) for task in _task_rows(row, group)],
        batch_size=BATCH,
    )
    return rows


def _group_row(
    group: AdmittedGroup,
    made: GroupObjects,
    *,
    workflow: Workflow,
    position: int,
    carried: frozenset[str],
) -> TaskGroup:
    """A group's row; one of ``carried`` has completed in the workflow that this one restarts."""
    now = workflow.submit_time
    upstream = [name for name in group.upstream if name not in carried]
    waits = bool(upstream)
    done = group.values.name in carried
    return TaskGroup(
        uuid=group.values.uuid,
        workflow=workflow,
        backend_id=workflow.backend_id,
        position=position,
        name=group.values.name,
        status=TaskStatus.COMPLETED if done else TaskStatus.WAITING if waits else TaskStatus.PROCESSING,
        barrier=group.barrier,
        ignore_nonlead_status=group.ignore_nonlead_status,
        placement=replace(group.values.placement, workflow_name=workflow.name).to_json(),
        constraints=[one.as_json() for one in made.constraints],
        waiting_reason="" if done else starts_after(upstream),
        waiting_since=None if done else now,
        processing_start_time=None if waits or done else now,
        end_time=now if done else None,
        released_at=now if done else None,
        next_reconcile_at=None if done else now,
    )


def _task_rows(row: TaskGroup, group: AdmittedGroup) -> Iterator[Task]:
    for position, task in enumerate(group.values.tasks):
        yield Task(
            group_id=row.pk,
            task_uuid=task.task_uuid,
            position=position,
            name=task.name,
            lead=task.placement.lead,
            status=row.status,
            spec=task.placement.to_json(),
            pod_name=names.pod(task.task_uuid, retry=0),
            processing_start_time=row.processing_start_time,
            end_time=row.end_time,
        )
