"""Objects in the shapes that others write, and their readings."""

from tests.builders.others_gangs import gang_kept, pod_kept, read
from tests.fakes.kueue_objects import cluster_queue, flavor, local_queue, readings
from tests.unit.scheduling.fit.worlds import RACK, ZONE

HOST = "kubernetes.io/hostname"
TOPOLOGIES = {"floor": (ZONE, RACK, HOST)}
QUEUES = readings(local_queue("ns/lq", "cq"), cluster_queue("cq", ("f", 64)), flavor("f", {"gpus": "y"}, "t"))


def pod_group(*, name="pg", labels=None, owner=None, status=None, **spec):
    references = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "ns", "labels": labels or {}, "ownerReferences": references}
    return {"metadata": metadata, "spec": {"queue": "team", **spec}, "status": status or {}}


def kai_pods(count, part="", *, gpus=8, group="pg", **fields):
    metadata = {
        "annotations": {"pod-group-name": group},
        "labels": {"kai.scheduler/subgroup-name": part} if part else {},
    }
    return [({"metadata": metadata, "spec": {}}, pod_kept(gpus=gpus, **fields))] * count


def on_kai(obj, *pods, version="0.17"):
    return read(
        "kai",
        gang_kept("kai", obj, [each for some in pods for each in some]),
        topologies=TOPOLOGIES,
        version=version,
    )


def constraint(required="", preferred="", topology="floor"):
    entry = {"topology": topology, "requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    return {key: value for key, value in entry.items() if value}


def group_of(name, minimum, *, key="", parent="", field="minCount", created="2026-01-01T00:00:00Z", **spec):
    topology = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
    above = {"parentCompositePodGroupName": parent} if parent else {}
    spec = {"schedulingPolicy": {"gang": {field: minimum}}, **topology, **above, **spec}
    return {"metadata": {"name": name, "namespace": "ns", "creationTimestamp": created}, "spec": spec}


def native_pods(count, group, **fields):
    return [({"spec": {"schedulingGroup": {"podGroupName": group}}}, pod_kept(gpus=8, **fields))] * count


def pod_set(name, count, *, gpus=8, selector=None, **request):
    resources = {"requests": {"nvidia.com/gpu": str(gpus)}}
    spec = {
        "containers": [
            {"name": "c", "image": "i", "env": [{"name": "TOKEN", "value": "t"}], "resources": resources}
        ]
    }
    spec |= {"nodeSelector": selector} if selector else {}
    entry = {"name": name, "count": count, "template": {"spec": spec}}
    return {**entry, **({"topologyRequest": request} if request else {})}


def workload(*pod_sets, owner=("Job", "train"), conditions=(), **spec):
    references = [{"kind": owner[0], "name": owner[1], "controller": True}]
    return {
        "metadata": {"name": "w", "namespace": "ns", "ownerReferences": references},
        "spec": {"queueName": "lq", "podSets": list(pod_sets), **spec},
        "status": {"conditions": list(conditions)},
    }


def on_kueue(obj, *, topology=(ZONE, RACK, HOST), queues=QUEUES):
    return read("kueue", gang_kept("kueue", obj), topologies={"t": topology}, queues=queues)
