"""Submitting a workflow: every check first, then its rows are written (``rows``).

Nothing here calls a cluster. A dry run and a validation run the same checks and write nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import structlog
from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError
from django.utils import timezone
from pydantic_core import to_json

from pools.clusters.capabilities import capabilities_of
from pools.documents.backend import version_of
from pools.documents.workflow import WorkflowLimits
from pools.models import Pool
from pools.selectors import pool_visible_to, pools_visible_to, workflow_limits
from pools.values.news_targets import target_faults
from scheduling.backends.base import Checked
from scheduling.backends.registry import scheduler_backend
from scheduling.errors import Conflict, Fault, InvalidSpec, Notice, Path
from scheduling.sentences import first, listing
from web import env
from web.access.rights import grants_of
from web.limits.turns import turn
from web.policy import Action
from web.rest.errors import summary
from workflows import metrics
from workflows.admission.admit import admit, capability_faults, oversized_objects
from workflows.admission.default_topology import APPLIED, LEFT_OUT, groups_with
from workflows.admission.final_texts import check_texts, is_plain
from workflows.admission.overrides import with_overrides
from workflows.admission.pool_facts import PoolFacts, coverage_warnings, pool_facts
from workflows.admission.size import oversized_workflow
from workflows.feasibility.verdict.alternatives import advice
from workflows.feasibility.verdict.auto_types import auto_types
from workflows.feasibility.verdict.report import (
    FeasibilityReport,
    as_fits,
    feasibility,
    infeasible,
    nameless_sentence,
)
from workflows.manifests.group import GroupObjects, render_group
from workflows.manifests.labels import is_reserved
from workflows.services.numbers import next_name
from workflows.spec import SpecLimits, WorkflowSpec, is_expensive, read_workflow
from workflows.spec.workflow_spec import last_of_each_entry
from workflows.submission.accepted import AcceptedSubmission
from workflows.submission.avoidance import avoiding_suspects
from workflows.submission.backpressure import BacklogCheck, groups_to_create
from workflows.submission.choice import choose, named_pools, pools_of_document
from workflows.submission.excluded_nodes import by_host_names
from workflows.submission.idempotency import earlier_reply
from workflows.submission.kept_bytes import check_document, take_bytes
from workflows.submission.quotas import check_limits, limits_on
from workflows.submission.request import Mode, SubmissionRequest
from workflows.submission.rows import PoolChanged, write
from workflows.values.placement import GroupValues

log = structlog.get_logger(__name__)


CHANGES_FOLLOWED = 3
"""How often a submission is checked anew because its pool changed while it was checked."""

MOST_WARNINGS = 100
"""Warnings that are kept of a workflow, in which each group can have its own."""

VALIDATED = "Workflow validation succeeded."


def submit(request: SubmissionRequest) -> dict[str, Any]:
    """Check a workflow and, in mode SUBMIT, accept it; returns the reply's values.

    Raises NotFound for an unknown pool, Conflict for a pool that takes no workflows, InvalidSpec with every
    fault of the workflow, LimitReached where the user or the pool has reached a limit, Busy while too many
    accepted groups of the user wait to be created, or too many expensive requests wait for their turn.
    """
    with metrics.submission() as ending:
        ending.outcome, reply = _submit(request)
    return reply


def _submit(request: SubmissionRequest) -> tuple[str, dict[str, Any]]:
    """Submit; returns the outcome that metrics count, and the reply."""
    for _ in range(CHANGES_FOLLOWED):
        try:
            return _in_turn(request)
        except PoolChanged:  # everything is checked anew, against the pool as it is now
            log.info("pool_changed_during_submission", pool=request.pool_name or request.pools)
    return _in_turn(request)


def _in_turn(request: SubmissionRequest) -> tuple[str, dict[str, Any]]:
    """Check and write once, in the user's turn if that may take long. Raises PoolChanged."""
    if earlier := _earlier_reply(request):
        return "repeated", earlier
    costs_once = bool(request.pool_name)
    if costs_once and not is_expensive(request.text, rendered_before=request.rendered_before):
        return _checked_and_written(request)
    with turn(request.user.get_username()):
        return _checked_and_written(request)


def _checked_and_written(request: SubmissionRequest) -> tuple[str, dict[str, Any]]:
    """Check and write once. Raises PoolChanged if the pool changed in between."""
    accepted = _accept(request)
    if request.mode is Mode.DRY_RUN:
        return "checked", accepted.dry_run_reply()
    if request.mode in {Mode.VALIDATE, Mode.FEASIBILITY}:
        return "checked", accepted.reply(name=accepted.placement.workflow_name, logs=VALIDATED)
    take_bytes(request.user, texts=accepted.texts, objects=accepted.object_bytes)
    try:
        return "accepted", write(accepted)
    except IntegrityError:
        if earlier := _earlier_reply(request):  # the same request was committed a moment before
            return "repeated", earlier
        raise


def _earlier_reply(request: SubmissionRequest) -> dict[str, Any] | None:
    """The reply to an earlier request with the same key. Raises Conflict for other content."""
    if request.mode is not Mode.SUBMIT:
        return None
    return earlier_reply(
        user=request.user.get_username(), key=request.idempotency_key, digest=request.digest()
    )


def _accept(request: SubmissionRequest) -> AcceptedSubmission:
    """Run every check. Raises InvalidSpec with every fault."""
    check_document(request.text, request.uploaded_template)
    if request.pool_name:
        pool = pool_visible_to(request.user, request.pool_name, action=Action.WORKFLOW_CREATE)
        return _accept_into(pool, request)
    pools = named_pools(request) if request.pools else None
    spec = _read(request, workflow_limits())
    pools = pools_of_document(request, spec) if pools is None else pools
    return choose(pools, lambda pool: _accept_into(pool, request, spec))


def _accept_into(
    pool: Pool, request: SubmissionRequest, spec: WorkflowSpec | None = None
) -> AcceptedSubmission:
    """Run every check in one pool; ``spec`` is the document, if it was read before."""
    _check_open(request, pool)
    backlog = BacklogCheck(request.user, pool) if request.mode is Mode.SUBMIT else None
    if backlog:
        backlog.check(added=1)
    facts = pool_facts(pool)
    spec = spec or _read(request, facts.limits)
    if backlog:
        backlog.check(added=groups_to_create(spec.groups, carried=request.carried))
    spec = with_overrides(spec, labels=request.labels, env_vars=request.env_vars)
    spec = by_host_names(spec, pool)
    user = request.user.get_username()
    groups, checked = _admitted(request, spec, facts, pool)
    check_document(spec.rendered)
    judged = None if request.mode is Mode.DRY_RUN else _one_of_each_entry(spec)
    objects, object_bytes, texts = _rendered(
        spec, groups, checked, facts=facts, user=request.user, pods=judged
    )
    limits = limits_on(user, pool, facts.limits)
    check_limits(limits, tasks=sum(len(group.tasks) for group in groups))
    avoiding, avoided = avoiding_suspects(groups, pool)
    reports = _feasibility(request, facts, pool, spec, avoiding)
    placed = as_fits(avoiding, reports)
    objects = tuple(
        rendered if group is usual else render_group(group, pods=judged)
        for usual, group, rendered in zip(groups, placed, objects, strict=True)
    )
    return AcceptedSubmission(
        request=request,
        pool=pool,
        spec=spec,
        groups=placed,
        objects=objects,
        object_bytes=object_bytes,
        limits=limits,
        feasibility=reports,
        warnings=_shortened(
            [
                *_label_warnings(spec.labels),
                *_warnings((*spec.warnings, *checked.notices, *texts), groups, facts, pool),
                *_infeasible_warnings(pool, reports),
                *_passed_over_warnings(reports),
                *avoided,
            ]
        ),
    )


def _one_of_each_entry(spec: WorkflowSpec) -> frozenset[str]:
    """The tasks whose pods stand for those of all tasks."""
    return frozenset(task.name for group in spec.groups for task in last_of_each_entry(group))


def _admitted(
    request: SubmissionRequest, spec: WorkflowSpec, facts: PoolFacts, pool: Pool
) -> tuple[tuple[GroupValues, ...], Checked]:
    """Admit a workflow; sets that are ``auto`` are decided in between, on the values of a first admission.

    It is admitted once more where a default topology would keep a group from ever being placed.
    """
    admission = partial(
        admit,
        spec,
        facts,
        user=request.user.get_username(),
        priority=request.priority,
        name=next_name(spec.name),
        workflow=uuid4(),
        scheduler=scheduler_backend(facts.terms.scheduler_type),
        new_uuid=uuid4,
    )
    groups, checked = admission()
    types = auto_types(groups, cluster=pool.backend.cluster_id)
    if types.required:
        admission = partial(admission, auto_types=types.required)
        groups, checked = admission()
    if not checked.faults:
        vain = _vain_defaults(request, spec, groups, checked, facts=facts, pool=pool)
        groups, checked = admission(without_default=vain) if vain else (groups, checked)
    left_out = groups_with(LEFT_OUT, spec, checked.notices)
    decisions = (
        notice for name, notices in types.notices.items() if name not in left_out for notice in notices
    )
    return groups, replace(checked, notices=(*checked.notices, *decisions))


def _vain_defaults(
    request: SubmissionRequest,
    spec: WorkflowSpec,
    groups: Sequence[GroupValues],
    checked: Checked,
    *,
    facts: PoolFacts,
    pool: Pool,
) -> dict[str, str]:
    """The groups that could never be placed with the default topology that they got, and why."""
    names = groups_with(APPLIED, spec, checked.notices)
    required = [group for group in groups if group.name in names and group.requires_domain]
    reports = infeasible(_reports(request, facts, pool, required))
    return {report.group: report.sentence for report in reports if not report.freshness.is_old}


def _rendered(
    spec: WorkflowSpec,
    groups: Sequence[GroupValues],
    checked: Checked,
    *,
    facts: PoolFacts,
    user: AbstractBaseUser,
    pods: frozenset[str] | None,
) -> tuple[tuple[GroupObjects, ...], int, tuple[Notice, ...]]:
    """Render every group, count the bytes, and check the texts. Raises InvalidSpec with all faults so far."""
    targets = target_faults(spec.notify, path=("workflow", "notify"), of_user=True)
    faults = [*spec.faults, *checked.faults, *targets, *oversized_workflow(groups)]
    objects: tuple[GroupObjects, ...] = ()
    total = 0
    texts = Checked((), ())
    if not faults:
        objects = tuple(render_group(group, pods=pods) for group in groups)
        sizes, doubtful = [], set[Path]()
        for path, text, number in _documents(spec, objects):
            sizes.append((path, len(text)))
            total += len(text) * number
            if not is_plain(text):
                doubtful.add(path)
        texts = check_texts(spec, objects, paths=doubtful)
        faults += [*oversized_objects(sizes, most=facts.limits.max_object_bytes), *texts.faults]
    _refuse(faults, spec=spec, user=user, pool=facts.terms.pool)
    return objects, total, texts.notices


def _read(request: SubmissionRequest, limits: WorkflowLimits) -> WorkflowSpec:
    """Parse the document. Raises InvalidSpec where that leaves nothing to check."""
    try:
        return read_workflow(
            request.text,
            variables=request.variables,
            string_variables=request.string_variables,
            limits=_limits(limits),
            allow_localpath=request.mode is Mode.DRY_RUN,
            rendered_before=request.rendered_before,
        )
    except InvalidSpec as error:
        raise InvalidSpec(summary(error.faults) if error.faults else error.message, error.faults) from error


def _limits(configured: WorkflowLimits) -> SpecLimits:
    """The limits of a text: its tasks and their order are configuration, the others are settings."""
    own = env.environment()
    tasks = configured.max_num_tasks
    return SpecLimits(
        size=min(own.max_body_bytes, own.document_bytes),  # more is not kept
        entries=max(tasks, SpecLimits().entries),
        tasks=tasks,
        dependencies=configured.max_num_dependencies,
    )


def _check_open(request: SubmissionRequest, pool: Pool) -> None:
    """Raise Conflict for a pool that takes no workflows of this caller."""
    backend = pool.backend
    if backend.deleted_at is not None or not backend.enabled:
        state = "was deleted" if backend.deleted_at is not None else "is disabled"
        raise Conflict(f'Pool "{pool.name}" takes no workflows: its backend "{backend.name}" {state}.')
    administers = grants_of(request.user).allows(Action.CONFIG_UPDATE, f"pool/{pool.name}")
    if pool.enable_maintenance and not administers:
        raise Conflict(
            f'Pool "{pool.name}" is in maintenance and takes workflows of its administrators alone.'
        )


def _documents(spec: WorkflowSpec, objects: Sequence[GroupObjects]) -> Iterator[tuple[Path, bytes, int]]:
    """The path of each object in the spec, the object as JSON, and how many there are of it.

    The pods of an entry count as so many of its last.
    """
    for group, rendered in zip(spec.groups, objects, strict=True):
        for manifest in (*rendered.secrets, *rendered.pod_groups):
            yield group.path, to_json(manifest), 1
        tasks = Counter(task.path for task in group.tasks)
        for task in last_of_each_entry(group):
            yield task.path, to_json(rendered.pods[task.name]), tasks[task.path]


def _refuse(faults: Sequence[Fault], *, spec: WorkflowSpec, user: AbstractBaseUser, pool: str) -> None:
    if not faults:
        return
    if any(fault.capability for fault in faults):
        others = pools_visible_to(user).exclude(name=pool)  # it may have got the capability since
        capabilities = {other.name: capabilities_of(other.backend).held for other in others}
        unknown = [other.name for other in others if not version_of(other.backend)]
        faults = capability_faults(faults, pools=capabilities, unknown=unknown)
    located = spec.locate_faults(faults)
    raise InvalidSpec(summary(located), located)


def _feasibility(
    request: SubmissionRequest,
    facts: PoolFacts,
    pool: Pool,
    spec: WorkflowSpec,
    groups: Sequence[GroupValues],
) -> list[FeasibilityReport]:
    """The verdict on each group. Raises InvalidSpec where the pool refuses what can never be placed."""
    reports = _reports(request, facts, pool, groups)
    refuses = pool.infeasible == Pool.Infeasible.REFUSE and request.mode is not Mode.FEASIBILITY
    if refuses and not request.force_infeasible:
        paths = {group.name: group.path for group in spec.groups}
        faults = [
            Fault(
                paths[report.group],
                "infeasible",
                f'Task group "{report.group}": {report.sentence} To submit it nevertheless, set '
                "force_infeasible=true.",
            )
            for report in infeasible(reports)
            if not report.freshness.is_old
        ]
        _refuse(faults, spec=spec, user=request.user, pool=pool.name)
    return reports


def _reports(
    request: SubmissionRequest, facts: PoolFacts, pool: Pool, groups: Sequence[GroupValues]
) -> list[FeasibilityReport]:
    return feasibility(
        groups,
        cluster=pool.backend.cluster_id,
        user=request.user,
        now=timezone.now(),
        submitted_to=pool,
        table=facts.nodes,
    )


def _shortened(warnings: Sequence[str]) -> list[str]:
    lines, others = first(warnings, MOST_WARNINGS)
    rest = f"{others.capitalize()}: only {MOST_WARNINGS} warnings of a workflow are kept."
    return [*lines, rest] if others else [*lines]


def _infeasible_warnings(pool: Pool, reports: Sequence[FeasibilityReport]) -> list[str]:
    if pool.infeasible == Pool.Infeasible.ACCEPT:
        return []
    return [f'Task group "{report.group}": {report.sentence}' for report in infeasible(reports)]


def _passed_over_warnings(reports: Sequence[FeasibilityReport]) -> list[str]:
    """The groups that their scheduler passes over as they are written, with what would work.

    Everybody reads them who may read the workflow, so they name nobody who holds the place.
    """
    return [
        f'Task group "{report.group}": {nameless_sentence(report)} {advice(report.workable_spec)}'
        for report in reports
        if report.workable_spec is not None
    ]


def _warnings(
    notices: Iterable[Notice], groups: Sequence[GroupValues], facts: PoolFacts, pool: Pool
) -> list[str]:
    warnings = [notice.message for notice in notices]
    warnings += coverage_warnings(pool, facts, [group.gang for group in groups])
    if not facts.scheduler_served:
        warnings.append(
            f'Backend "{facts.terms.backend}" does not serve what its scheduler '
            f'"{facts.terms.scheduler_type}" needs. The workflow is accepted and starts when it does.'
        )
    if not facts.reachable:
        warnings.append(
            f'The cluster of backend "{facts.terms.backend}" does not answer now. The workflow is accepted '
            "and starts when it does."
        )
    return list(dict.fromkeys(warnings))


def _label_warnings(labels: Mapping[str, str]) -> list[str]:
    """Warn of labels that pods do not get."""
    reserved = listing(key for key in labels if is_reserved(key))
    if not reserved:
        return []
    message = (
        f"Labels {reserved} are kept with the workflow but not set on pods: their names are reserved, or "
        "OSMO_POD_LABEL_DOMAINS does not list their domains."
    )
    return [message]
