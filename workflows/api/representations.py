"""Rows as the shapes that OSMO's client reads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any
from urllib.parse import quote_plus
from uuid import UUID

from django.utils import timezone

from pools.api.shapes import DeliveryShape, RecoveryShape
from pools.conditions import aged
from pools.selectors import Caller, freshness_of
from pools.values.freshness import Freshness
from pools.values.recovery_words import document_of
from scheduling import names
from scheduling.gang.nvlink import ChannelClaim
from scheduling.nodes.node_health import NodeHealth
from web.rest.shapes import ZONED, Shape
from workflows.api import shapes
from workflows.api.attempts import attempts_of
from workflows.explain.report import WaitExplanation, WaitRange, explain
from workflows.explain.summary import group_sentence, workflow_sentence
from workflows.feasibility.placement.placed import PlacementResult
from workflows.group_reads import GroupRange, ReadGroup, ReadTask
from workflows.lifecycle import patience
from workflows.lifecycle.domain_health import domain_nodes
from workflows.lifecycle.statuses import TERMINAL
from workflows.models import ObservedObject, TaskGroup, Workflow
from workflows.news.outbox import news_of
from workflows.nodes.health import UnhealthyNodes, unhealthy_nodes_of
from workflows.selectors import compute_domains_of, variables_of
from workflows.services.attempt_rows import OBSERVED

MOST_NODES = 20
"""Nodes and cliques of a ComputeDomain that are named."""

Json = dict[str, Any]


def submitted(reply: Mapping[str, Any], *, base: str) -> shapes.SubmissionShape:
    """A submission's reply, with addresses as its caller reaches them."""
    address = address_of(reply["name"], base=base)
    logs = f"{address}/logs" if reply["logs"] is None and reply["spec"] is None else reply["logs"]
    addresses = {"overview": overview(reply["name"], base=base), "logs": logs}
    return shapes.SubmissionShape.model_validate({**reply, **addresses})


def address_of(name: str, *, base: str) -> str:
    """Where REST shows a workflow."""
    return f"{base}/api/workflow/{name}"


def overview(name: str, *, base: str) -> str:
    """The page of a workflow, for a browser; OSMO's client prints it."""
    return f"{base}/ui/workflows/{name}"


def listed(
    workflow: Workflow, *, waits: str | None, nodes: int | None, base: str, now: datetime
) -> shapes.ListedWorkflowShape:
    """One line of a list."""
    address = address_of(workflow.name, base=base)
    return shapes.ListedWorkflowShape(
        user=workflow.submitted_by,
        name=workflow.name,
        workflow_uuid=workflow.uuid.hex,
        submit_time=workflow.submit_time,
        start_time=workflow.start_time,
        end_time=workflow.end_time,
        queued_time=_queued(workflow, now),
        duration=_duration(workflow, now),
        status=workflow.status,
        waiting_reason=waits,
        overview=overview(workflow.name, base=base),
        logs=f"{address}/logs",
        error_logs=f"{address}/error_logs",
        grafana_url=workflow.backend.grafana_url or None,
        dashboard_url=workflow.backend.dashboard_url or None,
        pool=workflow.pool_name,
        app_owner=None,
        app_name=None,
        app_version=None,
        priority=workflow.priority,
        labels=workflow.labels,
        tasks=workflow.task_count,
        gpus=workflow.gpu_count,
        nodes=nodes,
    )


def detailed(
    workflow: Workflow, *, explanation: str | None, more_entries: bool, base: str, now: datetime
) -> shapes.WorkflowShape:
    """A workflow without its groups; the shape of a query."""
    address = address_of(workflow.name, base=base)
    return shapes.WorkflowShape(
        name=workflow.name,
        uuid=workflow.uuid.hex,
        submitted_by=workflow.submitted_by,
        cancelled_by=workflow.cancelled_by or None,
        spec=f"{address}/spec",
        template_spec=f"{address}/spec?use_template=True" if workflow.template_spec else None,
        logs=f"{address}/logs",
        events=f"{address}/events",
        overview=overview(workflow.name, base=base),
        parent_name=workflow.parent_name or None,
        parent_job_id=workflow.parent_job_id,
        dashboard_url=workflow.backend.dashboard_url or None,
        grafana_url=workflow.backend.grafana_url or None,
        tags=workflow.tags,
        submit_time=workflow.submit_time,
        start_time=workflow.start_time,
        end_time=workflow.end_time,
        exec_timeout=workflow.exec_timeout,
        queue_timeout=workflow.queue_timeout,
        duration=_duration(workflow, now),
        queued_time=_queued(workflow, now),
        status=workflow.status,
        explanation=explanation,
        outputs=None,
        groups=[],
        more_entries=more_entries,
        pool=workflow.pool_name,
        pool_revision=workflow.pool_revision,
        backend=workflow.backend.name,
        app_owner=None,
        app_name=None,
        app_version=None,
        plugins=shapes.WorkflowPluginsShape(rsync=False),
        priority=workflow.priority,
        labels=workflow.labels,
        env_vars=variables_of(workflow),
        warnings=workflow.warnings,
        notifications=[DeliveryShape(**news) for news in news_of(workflow)],
        request_id=workflow.request_id or None,
    )


def detailed_texts(selection: GroupRange, *, base: str) -> Iterator[str]:
    """The JSON of a workflow with its groups, in parts that are read one after the other."""
    workflow, now = selection.workflow, timezone.now()
    explanation = workflow_sentence(workflow, now=now)
    reply = detailed(workflow, explanation=explanation, more_entries=selection.has_more, base=base, now=now)
    begin, end = _opened(reply, "groups")
    yield begin
    between, freshness = "", cache(partial(freshness_of, workflow.backend.cluster_id))
    for groups in selection.batches():
        for text in _group_texts(selection, groups, freshness, base=base):
            yield between + text
            between = ""
        between = ","
    yield end


def _group_texts(
    selection: GroupRange, groups: Sequence[ReadGroup], freshness: Callable[[], Freshness], *, base: str
) -> Iterator[str]:
    """The JSON of a batch of groups, with a comma between two."""
    now = timezone.now()
    domains = compute_domains_of(groups)
    tasks = _task_texts(selection, groups, base=base)
    group_key, task_text = next(tasks, _NO_TASK)
    for place, group in enumerate(groups):
        begin, end = _opened(_group(group, domains.get(group.pk), freshness, now=now), "tasks")
        yield f",{begin}" if place else begin
        comma = ""
        while group_key == group.pk:
            yield comma + task_text
            comma = ","
            group_key, task_text = next(tasks, _NO_TASK)
        yield end


def _task_texts(
    selection: GroupRange, groups: Sequence[TaskGroup], *, base: str
) -> Iterator[tuple[UUID | None, str]]:
    """The JSON of each task of these groups, with its group's key."""
    workflow = selection.workflow
    address = address_of(workflow.name, base=base)
    for tasks in selection.task_batches(groups):
        live = {task.node_name for task in tasks if task.node_name and task.status not in TERMINAL}
        nodes = _node_conditions(unhealthy_nodes_of(workflow, live))
        for task in tasks:
            yield task.group_id, _task(task, nodes=nodes, address=address).model_dump_json()


_NO_TASK: tuple[UUID | None, str] = (None, "")


def _opened(shape: Shape, field: str) -> tuple[str, str]:
    """The JSON of a shape before and after what an empty list of it is to hold."""
    begin, _, end = shape.model_dump_json().rpartition(f'"{field}":[]')
    return f'{begin}"{field}":[', f"]{end}"


def _group(
    group: ReadGroup, domain: ObservedObject | None, freshness: Callable[[], Freshness], *, now: datetime
) -> shapes.GroupShape:
    """A group without its tasks."""
    return shapes.GroupShape(
        name=group.name,
        uuid=group.uuid.hex,
        status=group.status,
        attempt=group.attempt_number,
        attempts=attempts_of(group),
        start_time=group.start_time,
        end_time=group.end_time,
        processing_start_time=group.processing_start_time,
        scheduling_start_time=group.scheduling_start_time,
        initializing_start_time=group.initializing_start_time,
        remaining_upstream_groups=group.remaining,
        downstream_groups=group.downstream_names,
        failure_message=group.failure_message or None,
        waiting_reason=group_sentence(group, now=now) or None,
        waiting_since=group.waiting_since,
        constraints=group.constraints,
        patience=_patience(group),
        order=group.form["order"],
        got=placement_outcome(group.placement_result),
        conditions=_conditions(group, freshness),
        compute_domain=_compute_domain(group, domain),
        recovery=RecoveryShape.model_validate(document_of(group.recovery)),
        avoided_nodes=group.avoided_nodes,
        template_revisions=group.placement.get("template_revisions", {}),
        created_in_cluster_at=group.created_in_cluster_at,
        released_at=group.released_at,
        tasks=[],
    )


def _conditions(group: ReadGroup, freshness: Callable[[], Freshness]) -> list[dict[str, Any]]:
    """Its conditions; Unknown where they tell how a group that has not ended stands by old observations."""
    if group.status in TERMINAL or not any(row["type"] in OBSERVED for row in group.conditions):
        return list(group.conditions)
    return aged.rows(freshness(), group.conditions, types=OBSERVED)


def explained_texts(selection: WaitRange, *, user: Caller) -> Iterator[str]:
    """The JSON of why a workflow's groups wait, in parts that are read one after the other."""
    explanation = explain(selection, user=user, now=timezone.now())
    shape = shapes.ExplanationShape(
        name=selection.workflow.name,
        status=selection.workflow.status,
        sentence=explanation.sentence,
        groups=[],
        more_entries=explanation.more_waits,
    )
    begin, end = _opened(shape, "groups")
    yield begin
    for place, wait in enumerate(explanation.waits):
        text = _wait(wait).model_dump_json(context=ZONED)
        yield f",{text}" if place else text
    yield end


def _wait(wait: WaitExplanation) -> shapes.GroupExplanationShape:
    feasibility = wait.report.as_json() if wait.report else None
    return shapes.GroupExplanationShape(
        group=wait.group,
        status=wait.status,
        why=wait.why.value,
        sentence=wait.sentence,
        since=wait.since,
        help=wait.help,
        recovery=wait.recovery,
        avoided_nodes=list(wait.avoided_nodes),
        evidence=wait.all_evidence,
        feasibility=shapes.GroupFeasibilityShape(**feasibility) if feasibility else None,
        conditions=list(wait.conditions),
    )


def placement_outcome(stored: Json | None) -> shapes.GroupOutcomeShape | None:
    result = PlacementResult.from_row(stored) if stored else None
    return shapes.GroupOutcomeShape.model_validate(result.as_json()) if result else None


def _patience(group: TaskGroup) -> shapes.PatienceShape | None:
    """How far a group's preferences that wait are relaxed; null for a group without any."""
    if not patience.has_patience(group.constraints):
        return None
    return shapes.PatienceShape(
        stage=group.form["stage"],
        unplaced_since=group.unplaced_since,
        next_relaxation_at=patience.next_relaxation(group.constraints, group.unplaced_since),
    )


def _compute_domain(group: TaskGroup, observed: ObservedObject | None) -> shapes.ComputeDomainShape | None:
    """The group's ComputeDomain, if it is one that gets one; ``present`` as last observed."""
    if not group.placement.get("nvlink"):
        return None
    nodes = domain_nodes(observed.digest.get("status")) if observed else ()
    return shapes.ComputeDomainShape(
        name=names.compute_domain(group.uuid),
        namespace=group.placement["namespace"],
        claim_template=names.claim_template(group.uuid),
        present=observed is not None,
        deleting=observed.deleting if observed else False,
        seen_at=observed.seen_at if observed else None,
        nodes_joined=len(nodes),
        not_ready=[node.name for node in nodes if not node.is_ready][:MOST_NODES],
        cliques=sorted({node.clique for node in nodes if node.clique})[:MOST_NODES],
        claims=[
            _claim(ChannelClaim(claim), tasks) for claim, tasks in group.placement.get("claims", {}).items()
        ],
    )


def _claim(claim: ChannelClaim, tasks: int) -> shapes.ChannelClaimShape:
    return shapes.ChannelClaimShape(
        claim=claim.value, is_made=claim.is_made, tasks=tasks, sentence=claim.sentence
    )


def _node_conditions(nodes: UnhealthyNodes) -> dict[str, shapes.NodeConditionShape]:
    return {name: node_condition(name, node, nodes.lost_after) for name, node in nodes.by_name.items()}


def node_condition(name: str, node: NodeHealth, lost_after: timedelta | None) -> shapes.NodeConditionShape:
    """What is wrong with a node that is not healthy."""
    return shapes.NodeConditionShape(
        state=node.state.value,
        reason=node.reason,
        since=node.since,
        lost_at=node.lost_at(lost_after),
        sentence=node.sentence(name),
    )


def _task(
    task: ReadTask, *, nodes: Mapping[str, shapes.NodeConditionShape], address: str
) -> shapes.TaskShape:
    tail = f"task_name={quote_plus(task.name)}&retry_id={task.retry_id}"
    return shapes.TaskShape(
        name=task.name,
        retry_id=task.retry_id,
        status=task.status,
        failure_message=task.failure_message or None,
        exit_code=task.exit_code,
        logs=f"{address}/logs?{tail}",
        error_logs=f"{address}/error_logs?{tail}",
        processing_start_time=task.processing_start_time,
        scheduling_start_time=task.scheduling_start_time,
        initializing_start_time=task.initializing_start_time,
        events=f"{address}/events?{tail}",
        start_time=task.start_time,
        end_time=task.end_time,
        input_download_start_time=None,
        input_download_end_time=None,
        output_upload_start_time=None,
        dashboard_url=None,
        pod_name=task.pod_name,
        pod_ip=task.pod_ip or None,
        task_uuid=task.task_uuid.hex,
        node_name=task.node_name or None,
        node_condition=nodes.get(task.node_name) if task.status not in TERMINAL else None,
        lead=task.lead,
    )


def _queued(workflow: Workflow, now: datetime) -> float:
    """Seconds until its first task ran, or until it ended or now without one."""
    until = workflow.start_time or workflow.end_time or now
    return max(0.0, (until - workflow.submit_time).total_seconds())


def _duration(workflow: Workflow, now: datetime) -> float | None:
    if workflow.start_time is None:
        return None
    return max(0.0, ((workflow.end_time or now) - workflow.start_time).total_seconds())
