"""Nodes and other tenants' pods as an API server sends them: JSON of a usual size. Pure.

Only the fields that the observer reads have a meaning; the rest is there because it has to be read, too. A
GPU node with NVIDIA's operator and node feature discovery has about a hundred labels and fifty images, and a
record of who set which field.
"""

import json
from functools import cache
from typing import Any

ZONE, RACK, CLIQUE = "topology.kubernetes.io/zone", "osmo.local/rack", "nvidia.com/gpu.clique"
POOL_LABEL = "osmo.local/pool"
RACK_SIZE, ZONE_SIZE = 18, 1008
GPUS = 8
GANG = 8
"""Pods of a waiting gang."""
CREATED = "2026-11-01T10:00:00Z"

_NAME, _NUMBER, _VERSION, _UID = "@name@", "@number@", "@version@", "@uid@"


def node(number: int, *, version: int, ready: bool = True) -> bytes:
    """A node of pool ``gpu``, as JSON; nodes with neighbouring numbers share racks and zones."""
    text = (
        _node()
        .replace(_NAME, f"node-{number}")
        .replace(_NUMBER, str(number))
        .replace("@zone@", f"z{number // ZONE_SIZE}")
        .replace("@rack@", f"r{number // RACK_SIZE}")
        .replace("@ready@", "True" if ready else "False")
        .replace(_VERSION, str(version))
        .replace(_UID, f"10000000-0000-4000-8000-{number:012d}")
    )
    return text.encode()


def foreign_pod(number: int, *, on: int, version: int) -> bytes:
    """Another tenant's pod that runs on a node."""
    text = (
        _foreign_pod()
        .replace(_NAME, f"agent-{number}")
        .replace(_NUMBER, str(on))
        .replace(_VERSION, str(version))
        .replace(_UID, f"20000000-0000-4000-8000-{number:012d}")
    )
    return text.encode()


def foreign_group(number: int, *, version: int) -> bytes:
    """Another tenant's pod group of KAI, as its podgrouper writes it for a PyTorchJob."""
    text = (
        _foreign_group()
        .replace(_NAME, f"group-{number}")
        .replace(_VERSION, str(version))
        .replace(_UID, f"30000000-0000-4000-8000-{number:012d}")
    )
    return text.encode()


def waiting_pod(number: int, *, version: int) -> bytes:
    """A pod of another tenant's gang that has no node yet."""
    text = (
        _waiting_pod()
        .replace(_NAME, f"worker-{number}")
        .replace("@gang@", f"group-{number // GANG}")
        .replace(_VERSION, str(version))
        .replace(_UID, f"40000000-0000-4000-8000-{number:012d}")
    )
    return text.encode()


@cache
def _foreign_group() -> str:
    job = {"kind": "PyTorchJob", "name": _NAME, "uid": _UID, "controller": True}
    metadata = _metadata("podgrouper", [f"f:label-{n}" for n in range(10)]) | {
        "namespace": "monitoring",
        "ownerReferences": [{**job, "apiVersion": "kubeflow.org/v1"}],
    }
    subgroups = [{"name": name, "minMember": GANG // 2} for name in ("master", "worker")]
    spec = {"minMember": GANG, "queue": "team", "priorityClassName": "train", "subGroups": subgroups}
    allocated = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi"}
    status = {"phase": "Running", "resourcesStatus": {"allocated": allocated, "requested": allocated}}
    api = "scheduling.run.ai/v2alpha2"
    return json.dumps(
        {"kind": "PodGroup", "apiVersion": api, "metadata": metadata, "spec": spec, "status": status}
    )


@cache
def _waiting_pod() -> str:
    pod = json.loads(_foreign_pod())
    pod["metadata"]["annotations"] = {"pod-group-name": "@gang@"}
    del pod["spec"]["nodeName"]
    pod["spec"]["schedulerName"] = "kai-scheduler"
    condition = {"type": "PodScheduled", "status": "False", "message": "No node has 8 GPUs for the gang."}
    pod["status"] = {"phase": "Pending", "conditions": [condition]}
    return json.dumps(pod)


@cache
def _node() -> str:
    features = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{n:03d}": "true" for n in range(80)}
    features |= {f"nvidia.com/gpu.property-{n:02d}": f"value-{n}" for n in range(30)}
    placed = {POOL_LABEL: "gpu", ZONE: "@zone@", RACK: "@rack@", CLIQUE: "@rack@.1"}
    capacity = {"cpu": "224", "memory": "2113405568Ki", "nvidia.com/gpu": str(GPUS), "pods": "110"}
    capacity["ephemeral-storage"] = "3750178624Ki"
    conditions = [
        {
            "type": kind,
            "status": "@ready@" if kind == "Ready" else "False",
            "reason": f"Kubelet{kind}",
            "message": f"kubelet says something about {kind}",
            "lastHeartbeatTime": "2026-11-23T10:00:00Z",
            "lastTransitionTime": CREATED,
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [
        {"names": [f"registry.example.com/team/image-{n}@sha256:{n:064x}"], "sizeBytes": 10**9 + n}
        for n in range(50)
    ]
    metadata = _metadata("kubelet", [f"f:{label}" for label in features]) | {
        "labels": features | placed | {"kubernetes.io/hostname": _NAME},
        "annotations": {"nfd.node.kubernetes.io/feature-labels": ",".join(features)},
    }
    spec = {"podCIDR": "10.0.0.0/24", "providerID": f"metal:///{_NAME}"}
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": conditions,
        "images": images,
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "Ubuntu 24.04", "bootID": _UID},
    }
    return json.dumps(
        {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}
    )


def _metadata(manager: str, fields: list[str]) -> dict[str, Any]:
    """Of any object, with the record of who set which field."""
    set_fields: dict[str, Any] = {"f:metadata": {"f:labels": {field: {} for field in fields}}}
    manages = {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": set_fields}
    identity = {"name": _NAME, "uid": _UID, "resourceVersion": _VERSION, "creationTimestamp": CREATED}
    return identity | {"managedFields": [manages]}


@cache
def _foreign_pod() -> str:
    variables = [{"name": f"VARIABLE_{n}", "value": f"value {n} of an agent"} for n in range(25)]
    mounts = [{"name": f"volume-{n}", "mountPath": f"/var/lib/agent/{n}"} for n in range(10)]
    requests = {"cpu": "100m", "memory": "200Mi"}
    owner = {"kind": "DaemonSet", "name": "agent", "uid": _UID, "apiVersion": "apps/v1"}
    metadata = _metadata("kubelet", [f"f:VARIABLE_{n}" for n in range(25)]) | {
        "namespace": "monitoring",
        "labels": {"app": "agent"},
        "ownerReferences": [owner],
    }
    container = {
        "name": "agent",
        "image": "registry.example.com/agent:1",
        "env": variables,
        "volumeMounts": mounts,
        "resources": {"requests": requests, "limits": requests},
    }
    spec = {
        "nodeName": f"node-{_NUMBER}",
        "containers": [container],
        "volumes": [{"name": mount["name"], "emptyDir": {}} for mount in mounts],
        "tolerations": [{"operator": "Exists", "effect": e} for e in ("NoExecute", "NoSchedule")],
    }
    running = {"ready": True, "restartCount": 0, "state": {"running": {"startedAt": CREATED}}}
    status = {
        "phase": "Running",
        "podIP": "10.0.0.2",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": CREATED}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [{"name": "agent", "image": container["image"], **running}],
    }
    return json.dumps(
        {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}
    )
