"""Accepting a workflow: every check first, then it is written (``rows``).

Nothing reaches a cluster from here. A dry run and a validation run the very same checks and write nothing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import structlog
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError
from django.utils import timezone

from pools.clusters.capabilities import capabilities_of
from pools.models import Pool
from pools.selectors import pool_visible_to, pools_visible_to
from scheduling.backends.registry import scheduler_backend
from scheduling.errors import Conflict, Fault, InvalidSpec, Path
from scheduling.sentences import listing
from web import env
from web.access import grants_of
from web.errors import summary
from web.policy import Action
from workflows import metrics
from workflows.admission.admit import Admission, AdmittedGroup, Wish, admit, capability_faults, oversized
from workflows.admission.overrides import environment, merged_labels
from workflows.admission.pool_facts import PoolFacts, coverage_warnings, pool_facts
from workflows.admission.size import too_heavy
from workflows.feasibility.report import feasibility, hopeless
from workflows.manifests.group import GroupObjects, render_group
from workflows.manifests.labels import is_reserved
from workflows.spec import Parsed, SpecLimits, read_workflow
from workflows.submission.backpressure import check_room
from workflows.submission.idempotency import earlier_reply
from workflows.submission.quotas import check_limits, limits_on
from workflows.submission.request import (
    Accepted,
    Mode,
    SubmissionRequest,
    dry_run_reply,
    expected_name,
    reply_to,
    task_count,
)
from workflows.submission.rows import next_name, write

log = structlog.get_logger(__name__)


VALIDATED = "Workflow validation succeeded."


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
        return "checked", dry_run_reply(accepted)
    if request.mode in {Mode.VALIDATE, Mode.FEASIBILITY}:
        return "checked", reply_to(accepted, name=expected_name(accepted), logs=VALIDATED)
    try:
        return "accepted", write(accepted)
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


def _accept(request: SubmissionRequest) -> Accepted:
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
        name=next_name(spec.name),
        workflow=workflow,
        scheduler=scheduler_backend(facts.scheduler_type),
        new_uuid=uuid4,
    )
    faults += [*more, *parsed.faults, *admission.faults]
    faults += too_heavy(group.values for group in admission.groups)
    objects = _rendered(admission.groups) if not faults else ()
    faults += oversized(_sizes(admission.groups, objects), most=facts.limits.max_object_bytes)
    _refuse(faults, parsed=parsed, user=request.user)
    limits = limits_on(request.user.get_username(), pool, facts.limits)
    check_limits(limits, tasks=task_count(admission))
    verdicts = _feasibility(request, pool, admission, parsed)
    return Accepted(
        request=request,
        pool=pool,
        parsed=parsed,
        workflow=workflow,
        labels=labels,
        admission=admission,
        objects=objects,
        limits=limits,
        feasibility=verdicts,
        warnings=[
            *_label_warnings(labels),
            *_warnings(parsed, admission, facts, pool),
            *_infeasible_warnings(pool, verdicts),
        ],
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


def _limits(facts: PoolFacts) -> SpecLimits:
    """What a text may cost: tasks as configured over REST, the rest as this installation is set."""
    own = env.environment()
    tasks = facts.limits.max_num_tasks
    return SpecLimits(
        size=own.max_body_bytes,
        depth=own.spec_depth,
        aliases=own.spec_aliases,
        entries=max(tasks, SpecLimits().entries),
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


def _feasibility(
    request: SubmissionRequest, pool: Pool, admission: Admission, parsed: Parsed
) -> list[dict[str, Any]]:
    """The verdict on each group. Raises InvalidSpec where the pool refuses what can never be placed."""
    groups = [group.values for group in admission.groups]
    found = feasibility(groups, cluster=pool.backend.cluster_id, user=request.user, now=timezone.now())
    refuses = pool.infeasible == Pool.Infeasible.REFUSE and request.mode is not Mode.FEASIBILITY
    if refuses and not request.force_infeasible:
        gangs = {group.values.name: group.gang for group in admission.groups}
        faults = [
            Fault(
                gangs[one["group"]].path,
                "infeasible",
                f'Task group "{one["group"]}": {one["sentence"]} Submit it all the same with '
                "force_infeasible=true.",
            )
            for one in hopeless(found)
        ]
        _refuse(faults, parsed=parsed, user=request.user)
    return found


def _infeasible_warnings(pool: Pool, verdicts: Sequence[dict[str, Any]]) -> list[str]:
    if pool.infeasible == Pool.Infeasible.ACCEPT:
        return []
    return [f'Task group "{one["group"]}": {one["sentence"]}' for one in hopeless(verdicts)]


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
