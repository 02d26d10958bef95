"""Kueue's queues and flavors as an API server returns them, and what its scheduler backend reads of them."""

from decimal import Decimal

from scheduling.backends.kueue import Kueue
from scheduling.backends.kueue.features import FEATURES, WORKLOAD

GPU = "nvidia.com/gpu"
LOCAL_QUEUE, CLUSTER_QUEUE, FLAVOR = Kueue.joined_kinds


def local_queue(name, queue, *, stop=None):
    """``name`` is ``namespace/name``."""
    namespace, _, name = name.partition("/")
    return _object(LOCAL_QUEUE, name, {"clusterQueue": queue, **_stop(stop)}, namespace=namespace)


def cluster_queue(
    name,
    *quotas,
    stop=None,
    inactive="",
    used=0,
    borrowed=0,
    borrowing=None,
    waiting=0,
    cohort=None,
    strategy=None,
    others=(),
    selector=True,
    uncounted=("cpu", "ephemeral-storage", "memory"),
):
    """``quotas`` are flavors with their GPUs; ``others`` are flavors with resources of further groups.

    ``uncounted`` have so much quota in each flavor that they bound nothing.
    """
    limit = {} if borrowing is None else {"borrowingLimit": borrowing}
    flavors = [
        {
            "name": flavor,
            "resources": [
                {"name": GPU, "nominalQuota": gpus, **limit},
                *({"name": resource, "nominalQuota": 10**15} for resource in uncounted),
            ],
        }
        for flavor, gpus in quotas
    ]
    active = {"type": "Active", "status": "False" if inactive else "True", "reason": "R", "message": inactive}
    status = {
        "pendingWorkloads": waiting,
        "conditions": [active],
        "flavorsReservation": [
            {"name": flavor, "resources": [{"name": GPU, "total": str(used), "borrowed": str(borrowed)}]}
            for flavor, _ in quotas
        ],
    }
    groups = [{"coveredResources": [GPU, *uncounted], "flavors": flavors}]
    for flavor, resources in others:
        quotas_of_all = [{"name": resource, "nominalQuota": 1000} for resource in resources]
        groups.append(
            {"coveredResources": resources, "flavors": [{"name": flavor, "resources": quotas_of_all}]}
        )
    spec = {"resourceGroups": groups, **({"namespaceSelector": {}} if selector else {}), **_stop(stop)}
    spec |= {"cohortName": cohort} if cohort else {}
    spec |= {"queueingStrategy": strategy} if strategy else {}
    return _object(CLUSTER_QUEUE, name, spec, status=status)


def flavor(name, labels, topology=None, *, taints=None, tolerations=None):
    fields = {"topologyName": topology, "nodeTaints": taints, "tolerations": tolerations}
    return _object(FLAVOR, name, {"nodeLabels": labels, **{key: of for key, of in fields.items() if of}})


def readings(*objects):
    """What the backend reads of these objects, as the observer records it."""
    kinds = {kind.kind: kind for kind in Kueue.joined_kinds}
    return {
        (kinds[obj["kind"]].crd, key_of(obj)): Kueue().read_joined(kinds[obj["kind"]], obj, quantity=Decimal)
        for obj in objects
    }


def key_of(obj):
    namespace = obj["metadata"].get("namespace")
    return f"{namespace}/{obj['metadata']['name']}" if namespace else obj["metadata"]["name"]


def workload_crd(*, pod_sets=8):
    """The served Workload: every field that is looked up, and what tells Kueue 0.17."""
    schema = {"properties": {}}
    for feature in (feature for feature in FEATURES if feature.resource == WORKLOAD):
        below = schema["properties"]
        for step in feature.path:
            below = below.setdefault(step, {"properties": {}})["properties"]
    fields = schema["properties"]["spec"]["properties"]["podSets"].pop("properties")
    fields["topologyRequest"]["properties"]["podsetSliceRequiredTopologyConstraints"] = {}
    items = {"maxItems": pod_sets, "items": {"properties": fields}}
    schema["properties"]["spec"]["properties"]["podSets"] |= items
    version = {"name": "v1beta2", "served": True, "schema": {"openAPIV3Schema": schema}}
    return {"metadata": {"name": WORKLOAD.crd}, "spec": {"versions": [version]}}


def _stop(policy):
    return {"stopPolicy": policy} if policy else {}


def _object(kind, name, spec, *, namespace=None, status=None):
    metadata = {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    return body | ({"status": status} if status else {})
