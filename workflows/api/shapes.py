"""Rows as OSMO's client reads them, with the fields this product adds.

Plain functions, because one answer may hold 10,000 tasks and serializers take longer than the database;
``serializers`` declares the same shapes for the schema, and a test holds the two together. Times are naive
UTC, durations seconds as floats, uuids 32 hex digits. OSMO's fields that have no meaning here are null.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from scheduling import names
from web.times import naive_utc
from workflows.explain.summary import group_sentence, workflow_sentence
from workflows.feasibility.placed import PlacementResult
from workflows.lifecycle import patience
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import ObservedObject, Task, TaskGroup, Workflow

Json = dict[str, Any]


def submitted(reply: Mapping[str, Any], *, base: str) -> Json:
    """A submission's reply, with addresses as its caller reaches them."""
    address = address_of(reply["name"], base=base)
    logs = f"{address}/logs" if reply["logs"] is None and reply["spec"] is None else reply["logs"]
    return {**reply, "overview": overview(reply["name"], base=base), "logs": logs}


def address_of(name: str, *, base: str) -> str:
    """Where REST shows a workflow."""
    return f"{base}/api/workflow/{name}"


def overview(name: str, *, base: str) -> str:
    """The page of a workflow, for a browser; OSMO's client prints it."""
    return f"{base}/ui/workflows/{name}"


def listed(workflow: Workflow, *, base: str, now: datetime) -> Json:
    """One line of a list."""
    address = address_of(workflow.name, base=base)
    return {
        "user": workflow.submitted_by,
        "name": workflow.name,
        "workflow_uuid": workflow.uuid.hex,
        "submit_time": naive_utc(workflow.submit_time),
        "start_time": naive_utc(workflow.start_time),
        "end_time": naive_utc(workflow.end_time),
        "queued_time": _queued(workflow, now),
        "duration": _duration(workflow, now),
        "status": workflow.status,
        "overview": overview(workflow.name, base=base),
        "logs": f"{address}/logs",
        "error_logs": f"{address}/error_logs",
        "grafana_url": workflow.backend.grafana_url or None,
        "dashboard_url": workflow.backend.dashboard_url or None,
        "pool": workflow.pool_name,
        "app_owner": None,
        "app_name": None,
        "app_version": None,
        "priority": workflow.priority,
        "labels": workflow.labels,
    }


def detailed(
    workflow: Workflow,
    *,
    groups: list[TaskGroup],
    domains: Mapping[UUID, ObservedObject],
    base: str,
    now: datetime,
) -> Json:
    """A workflow with its groups; the shape of a query."""
    address = address_of(workflow.name, base=base)
    return {
        "name": workflow.name,
        "uuid": workflow.uuid.hex,
        "submitted_by": workflow.submitted_by,
        "cancelled_by": workflow.cancelled_by or None,
        "spec": f"{address}/spec",
        "template_spec": f"{address}/spec?use_template=True" if workflow.template_spec else None,
        "logs": f"{address}/logs",
        "events": f"{address}/events",
        "overview": overview(workflow.name, base=base),
        "parent_name": workflow.parent_name or None,
        "parent_job_id": workflow.parent_job_id,
        "dashboard_url": workflow.backend.dashboard_url or None,
        "grafana_url": workflow.backend.grafana_url or None,
        "tags": workflow.tags,
        "submit_time": naive_utc(workflow.submit_time),
        "start_time": naive_utc(workflow.start_time),
        "end_time": naive_utc(workflow.end_time),
        "exec_timeout": workflow.exec_timeout,
        "queue_timeout": workflow.queue_timeout,
        "duration": _duration(workflow, now),
        "queued_time": _queued(workflow, now),
        "status": workflow.status,
        "explanation": workflow_sentence(workflow.status, groups, now=now) if groups else None,
        "outputs": None,
        "groups": [_group(group, domains.get(group.pk), address=address, now=now) for group in groups],
        "pool": workflow.pool_name,
        "pool_revision": workflow.pool_revision,
        "backend": workflow.backend.name,
        "app_owner": None,
        "app_name": None,
        "app_version": None,
        "plugins": {"rsync": False},
        "priority": workflow.priority,
        "labels": workflow.labels,
        "warnings": workflow.warnings,
        "request_id": workflow.request_id or None,
    }


def _group(group: TaskGroup, domain: ObservedObject | None, *, address: str, now: datetime) -> Json:
    return {
        "name": group.name,
        "uuid": group.uuid.hex,
        "status": group.status,
        "start_time": naive_utc(group.start_time),
        "end_time": naive_utc(group.end_time),
        "processing_start_time": naive_utc(group.processing_start_time),
        "scheduling_start_time": naive_utc(group.scheduling_start_time),
        "initializing_start_time": naive_utc(group.initializing_start_time),
        "remaining_upstream_groups": [
            one.name for one in group.upstream.all() if one.status != TaskStatus.COMPLETED
        ],
        "downstream_groups": [one.name for one in group.downstream.all()],
        "failure_message": group.failure_message or None,
        "waiting_reason": group_sentence(group, now=now) or None,
        "waiting_since": naive_utc(group.waiting_since),
        "constraints": group.constraints,
        "patience": _patience(group),
        "got": PlacementResult.from_row(group.placement_result).as_json() if group.placement_result else None,
        "conditions": group.conditions,
        "compute_domain": _compute_domain(group, domain),
        "template_revisions": group.placement.get("template_revisions", {}),
        "created_in_cluster_at": naive_utc(group.created_in_cluster_at),
        "released_at": naive_utc(group.released_at),
        "tasks": [_task(task, address=address) for task in group.tasks.all()],
    }


def _patience(group: TaskGroup) -> Json | None:
    """How far a group's preferences that wait are relaxed; null for a group without any."""
    if not patience.has_patience(group.constraints):
        return None
    return {
        "stage": group.stage,
        "unplaced_since": naive_utc(group.unplaced_since),
        "next_relaxation_at": naive_utc(patience.next_relaxation(group.constraints, group.unplaced_since)),
    }


def _compute_domain(group: TaskGroup, seen: ObservedObject | None) -> Json | None:
    """The group's ComputeDomain, if it is one that gets one; ``present`` as last observed."""
    if not group.placement.get("nvlink"):
        return None
    return {
        "name": names.compute_domain(group.uuid),
        "namespace": group.placement["namespace"],
        "claim_template": names.claim_template(group.uuid),
        "present": seen is not None,
        "deleting": seen.deleting if seen else False,
        "seen_at": naive_utc(seen.seen_at) if seen else None,
    }


def _task(task: Task, *, address: str) -> Json:
    tail = urlencode({"task_name": task.name, "retry_id": task.retry_id})
    return {
        "name": task.name,
        "retry_id": task.retry_id,
        "status": task.status,
        "failure_message": task.failure_message or None,
        "exit_code": task.exit_code,
        "logs": f"{address}/logs?{tail}",
        "error_logs": f"{address}/error_logs?{tail}",
        "processing_start_time": naive_utc(task.processing_start_time),
        "scheduling_start_time": naive_utc(task.scheduling_start_time),
        "initializing_start_time": naive_utc(task.initializing_start_time),
        "events": f"{address}/events?{tail}",
        "start_time": naive_utc(task.start_time),
        "end_time": naive_utc(task.end_time),
        "input_download_start_time": None,
        "input_download_end_time": None,
        "output_upload_start_time": None,
        "dashboard_url": None,
        "pod_name": task.pod_name,
        "pod_ip": task.pod_ip or None,
        "task_uuid": task.task_uuid.hex,
        "node_name": task.node_name or None,
        "lead": task.lead,
    }


def _queued(workflow: Workflow, now: datetime) -> float:
    """Seconds until its first task ran, or until it ended or now without one."""
    until = workflow.start_time or workflow.end_time or now
    return max(0.0, (until - workflow.submit_time).total_seconds())


def _duration(workflow: Workflow, now: datetime) -> float | None:
    if workflow.start_time is None:
        return None
    return max(0.0, ((workflow.end_time or now) - workflow.start_time).total_seconds())
