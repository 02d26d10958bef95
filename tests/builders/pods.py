"""Pods as the observer reports them, and how they are read at one moment."""

from datetime import UTC, datetime, timedelta
from functools import partial
from uuid import UUID

from workflows.lifecycle import pod_status
from workflows.values.observation import see_pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
START_TIMEOUT = timedelta(minutes=30)
read_pod = partial(pod_status.read_pod, start_timeout=START_TIMEOUT)
read_gone = partial(pod_status.read_gone, start_timeout=START_TIMEOUT)
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}


def ago(minutes):
    return (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(phase, *, node="n1", conditions=(), state=None, **status):
    containers = [{"name": "main", "state": state}] if state else []
    return see_pod(
        {
            "metadata": {
                "name": "p",
                "namespace": "osmo",
                "uid": "u",
                "labels": {"osmo.nvidia.com/task-group": UUID(int=7).hex},
                "creationTimestamp": ago(60),
            },
            "spec": {"nodeName": node} if node else {},
            "status": {
                "phase": phase,
                "conditions": list(conditions),
                "containerStatuses": containers,
                **status,
            },
        }
    )


def placed(minutes):
    return {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(minutes)}


def ended(code, reason="Error", **more):
    return {"terminated": {"exitCode": code, "reason": reason, **more}}
