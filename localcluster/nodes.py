"""Nodes of the local cluster: what a machine with GPUs looks like to the API server, played by kwok.

A node gets no address but the InternalIP that kwok writes: with a ``Hostname`` address the API
server would look that name up to read a pod's log, and fail. ``kubernetes.io/hostname`` is set as
every kubelet sets it, since topology keys may name it. So are the labels that Kubernetes' node controller
would add to a node without them: kwok, which hears of a change before it has written that the node is ready,
may write that twice, and the second time undo what a test has written meanwhile, for good.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from localcluster.api import STRATEGIC_PATCH, Api, Json

PATH = "/api/v1/nodes"
THREADS = 8
READY_SECONDS = 150
POLL_SECONDS = 0.05
MACHINE = {"os": "linux", "arch": "amd64"}
MACHINE_DOMAINS = ("kubernetes.io", "beta.kubernetes.io")
KUBELET_LABEL = "osmo.local/kubelet"
"""A node with it has a kubelet of its own (``localcluster.kubelet``) or none; kwok leaves it alone."""


@dataclass(frozen=True, slots=True)
class Taint:
    """As in Kubernetes; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine: its labels say where it stands."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 8
    cpus: int = 64
    memory_gib: int = 512
    pods: int = 110
    taints: Sequence[Taint] = ()
    further: Mapping[str, str] = field(default_factory=dict)
    """What it offers beside these, as Kubernetes writes it."""


def rack(
    prefix: str, *, count: int, labels: Mapping[str, str], gpus: int = 8, taints: Sequence[Taint] = ()
) -> list[Node]:
    """``count`` equal nodes ``<prefix>-0``, ``<prefix>-1``, ... that stand in the same place."""
    return [
        Node(name=f"{prefix}-{number}", labels=labels, gpus=gpus, taints=taints) for number in range(count)
    ]


def create(api: Api, nodes: Iterable[Node]) -> None:
    """Create the nodes, several at a time; kwok makes them Ready within a second."""
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        list(pool.map(lambda node: api.create(PATH, manifest(node)), nodes))


def delete(api: Api, nodes: Iterable[Node]) -> None:
    """Delete the nodes; pods that run on them are not ended by it."""
    with ThreadPoolExecutor(max_workers=THREADS) as pool:
        list(pool.map(lambda node: api.delete(f"{PATH}/{node.name}"), nodes))


def stop_kubelet(api: Api, name: str) -> None:
    """Let a node's kubelet die: no heartbeat, and its pods neither start nor end.

    The status is written here as Kubernetes' node controller writes it after its grace period, which is too
    long for a test; the taints and evictions that follow are that controller's own.
    """
    _label(api, name, {KUBELET_LABEL: "none"})
    _post_ready(api, name, status="Unknown", reason="NodeStatusUnknown")


def start_kubelet(api: Api, name: str) -> None:
    """Let it live again: kwok plays the node as before."""
    _label(api, name, {KUBELET_LABEL: None})
    _post_ready(api, name, status="True", reason="KubeletReady")


def report_not_ready(api: Api, name: str, *, reason: str = "KubeletNotReady") -> None:
    """Let a node's kubelet say that it is not ready, as with a broken network plugin."""
    _post_ready(api, name, status="False", reason=reason)


def _label(api: Api, name: str, labels: Mapping[str, str | None]) -> None:
    body = {"metadata": {"labels": labels}}
    api.call("PATCH", f"{PATH}/{name}", body=body, content_type=STRATEGIC_PATCH)


def _post_ready(api: Api, name: str, *, status: str, reason: str) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": now}
    body = {"status": {"conditions": [condition]}}
    api.call("PATCH", f"{PATH}/{name}/status", body=body, content_type=STRATEGIC_PATCH)


def wait_ready(api: Api, nodes: Iterable[Node]) -> None:
    """Wait until every one of the nodes says that it is Ready; raises TimeoutError naming the others."""
    names = {node.name for node in nodes}
    deadline = time.monotonic() + READY_SECONDS
    while missing := names - {n["metadata"]["name"] for n in api.list(PATH)[0] if _is_ready(n)}:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not Ready after {READY_SECONDS} s: {', '.join(sorted(missing))}")
        time.sleep(POLL_SECONDS)


def manifest(node: Node) -> Json:
    """The Node object as a kubelet would register it, GPUs as the device plugin reports them."""
    amounts = {
        "cpu": str(node.cpus),
        "memory": f"{node.memory_gib}Gi",
        "pods": str(node.pods),
        **node.further,
    }
    if node.gpus:
        amounts["nvidia.com/gpu"] = str(node.gpus)
    machine = {f"{domain}/{key}": value for domain in MACHINE_DOMAINS for key, value in MACHINE.items()}
    labels = {"kubernetes.io/hostname": node.name, **machine}
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels | dict(node.labels)},
        "spec": {"taints": taints} if taints else {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _is_ready(node: Json) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
