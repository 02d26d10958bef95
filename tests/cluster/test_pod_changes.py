"""Pods that a real API server takes: its own defaults are no changes, and a limit range is one."""

import time
from dataclasses import replace
from uuid import UUID

from cluster.kinds import POD, Kind
from tests.builders.placements import GROUP
from workflows.manifests.group import Renderer
from workflows.values.placement import FrozenTemplate, GroupValues, StartBarrier, TaskPlacement, TaskTry
from workflows.values.pod_changes import compare, sent_text

LIMIT_RANGE = Kind("LimitRange", "", "v1", "limitranges")
SIDECAR = {"name": "log", "image": "log", "restartPolicy": "Always"}
TOLERATIONS = (
    {"key": "team", "operator": "Exists"},
    {"key": "team", "value": "x", "effect": "NoExecute", "tolerationSeconds": 5},
)


def rendered(namespace, **more):
    """A pod with a template, a start barrier, tolerations and nodes that it leaves out."""
    placed = TaskPlacement(
        image="ubuntu",
        command=("sleep",),
        cpu=0.5,
        gpu=4,
        node_selector={"example.com/pool": "a"},
        tolerations=TOLERATIONS,
        nodes_excluded=("n1",),
        **more,
    )
    tasks = [
        TaskTry(task_uuid=UUID(int=number), name=f"task-{number}", retry_id=0, placement=placed)
        for number in (1, 2)
    ]
    placement = replace(
        GROUP,
        terms=replace(GROUP.terms, namespace=namespace),
        nvlink=False,
        priority_class="",
        templates={"": FrozenTemplate(pod={"spec": {"initContainers": [SIDECAR]}})},
        start_barrier=StartBarrier(image="example.com/osmo:1", command=("wait",), limit=60.0),
        labels={},
    )
    values = GroupValues(uuid=UUID(int=9), name="g", generation=0, placement=placement, tasks=tuple(tasks))
    pod = Renderer(values).pod(tasks[0])
    pod["spec"].pop("priorityClassName", None)
    return pod


def test_what_an_api_server_fills_in_is_no_change(real, namespace):
    pod = rendered(namespace, memory="1.5Gi")
    made = real.create(POD, pod, dry_run=True)
    assert made["spec"]["tolerations"] != pod["spec"]["tolerations"]
    comparison = compare(sent_text(pod["spec"]), made["spec"])
    assert (comparison.changes, comparison.injected) == ((), frozenset())


def test_a_limit_range_is_a_change(real, namespace):
    limits = {"type": "Container", "default": {"memory": "2Gi"}, "defaultRequest": {"memory": "1Gi"}}
    body = {"metadata": {"name": "l", "namespace": namespace}, "spec": {"limits": [limits]}}
    real.create(LIMIT_RANGE, {"apiVersion": "v1", "kind": "LimitRange", **body})
    pod, changes = rendered(namespace), ()
    until = time.monotonic() + 30
    while not changes and time.monotonic() < until:
        time.sleep(0.2)
        made = real.create(POD, pod, dry_run=True)
        changes = compare(sent_text(pod["spec"]), made["spec"]).changes
    words = {change.words for change in changes}
    assert "added containers[task-1].requests[memory] (1Gi)" in words
    assert "added containers[task-1].limits[memory] (2Gi)" in words
