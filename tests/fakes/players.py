"""Those who act in a cluster beside us, as small as tests of our own decisions allow.

Give them to ``FakeCluster(players=[...])``. They are no stand-ins: what KAI's scheduler and NVIDIA's
controller really do is tested against the local cluster. Each looks at the whole cluster and changes
what is due, so they may run in any order and any number of times.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping

from cluster.interface import Obj
from cluster.kinds import COMPUTE_DOMAIN, NODE, POD, RESOURCE_CLAIM_TEMPLATE
from pools.clusters.kinds import owned_kinds
from tests.fakes.cluster import FakeCluster
from tests.fakes.kinds import KAI_POD_GROUP, POD_GROUP

COMPUTE_DOMAIN_FINALIZER = "resource.nvidia.com/computeDomain"
KUEUE_FINALIZER = "kueue.x-k8s.io/resource-in-use"


def kubelet(cluster: FakeCluster) -> None:
    """Run pods that have a node, and let go of those that were asked to end."""
    for pod in cluster.all(POD):
        metadata = pod["metadata"]
        if not pod.get("spec", {}).get("nodeName"):
            continue
        if "deletionTimestamp" in metadata:
            if not metadata.get("finalizers"):
                cluster.remove(POD, metadata["name"], namespace=metadata["namespace"])
        elif pod["status"]["phase"] == "Pending":
            pod["status"] = {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "containerStatuses": [
                    {"name": c["name"], "ready": True, "restartCount": 0, "state": {"running": {}}}
                    for c in pod["spec"].get("containers", ())
                ],
            }
            cluster.put(POD, pod)


def scheduler(cluster: FakeCluster) -> None:
    """Give each pod without a node the first one there is, or ``node-0``: pods of a gang from its minimum on.

    As KAI and Kubernetes' own scheduler do, which count the pods of a pod group that have not ended.
    """
    nodes = cluster.names(NODE) or ["node-0"]
    minimums = {group["metadata"]["name"]: _minimum(group["spec"]) for group in _pod_groups(cluster)}
    pods = [pod for pod in cluster.all(POD) if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    live = Counter(_pod_group(pod) for pod in pods)
    for pod in pods:
        name = _pod_group(pod)
        if name and live[name] < minimums.get(name, math.inf):
            continue
        if not pod.get("spec", {}).get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
            pod.setdefault("spec", {})["nodeName"] = nodes[0]
            cluster.put(POD, pod)


def _pod_groups(cluster: FakeCluster) -> list[Obj]:
    return [group for kind in (KAI_POD_GROUP, POD_GROUP) for group in cluster.all(kind)]


def _pod_group(pod: Obj) -> str | None:
    """The pod group that a pod names, if any."""
    annotations = pod["metadata"].get("annotations") or {}
    of_kubernetes = pod.get("spec", {}).get("schedulingGroup", {})
    name: str | None = annotations.get("pod-group-name") or of_kubernetes.get("podGroupName")
    return name


def _minimum(spec: Obj) -> int:
    """How many pods of a pod group the scheduler places together; of KAI's, or of Kubernetes' own."""
    policy = spec.get("schedulingPolicy")
    if policy is not None:
        return int(policy["gang"]["minCount"])
    subgroups = [entry["minMember"] for entry in spec.get("subGroups") or () if "minMember" in entry]
    return sum(subgroups) if subgroups else int(spec["minMember"])


def compute_domain_controller(cluster: FakeCluster) -> None:
    """Put the finalizer on each ComputeDomain, make its claim template, and take both away at its end."""
    for domain in cluster.all(COMPUTE_DOMAIN):
        metadata, namespace = domain["metadata"], domain["metadata"]["namespace"]
        template = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
        made = cluster.all(RESOURCE_CLAIM_TEMPLATE)
        there = any(t["metadata"]["name"] == template for t in made)
        if "deletionTimestamp" in metadata:
            if there:
                cluster.remove(RESOURCE_CLAIM_TEMPLATE, template, namespace=namespace)
            metadata["finalizers"] = [
                f for f in metadata.get("finalizers", ()) if f != COMPUTE_DOMAIN_FINALIZER
            ]
            cluster.put(COMPUTE_DOMAIN, domain)
            continue
        if COMPUTE_DOMAIN_FINALIZER not in metadata.get("finalizers", ()):
            metadata["finalizers"] = [*metadata.get("finalizers", ()), COMPUTE_DOMAIN_FINALIZER]
            cluster.put(COMPUTE_DOMAIN, domain)
        if not there:
            labels = {"resource.nvidia.com/computeDomain": metadata["uid"]}
            cluster.put(
                RESOURCE_CLAIM_TEMPLATE,
                {
                    "metadata": {"name": template, "namespace": namespace, "labels": labels},
                    "spec": {"spec": {}},
                },
            )


def finish(exit_codes: Mapping[str, int]) -> Callable[[FakeCluster], None]:
    """A player that ends running pods by name, with the exit code given for each."""

    def player(cluster: FakeCluster) -> None:
        for pod in cluster.all(POD):
            code = exit_codes.get(pod["metadata"]["name"])
            if code is None or pod["status"]["phase"] != "Running":
                continue
            pod["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
            for status in pod["status"].get("containerStatuses", ()):
                status |= {"ready": False, "state": {"terminated": {"exitCode": code}}}
            cluster.put(POD, pod)

    return player


def kueue_finalizers(cluster: FakeCluster) -> None:
    """Keep flavors and Topologies while something names them; no Workload is in a ClusterQueue."""
    topology, flavor, queue, _ = owned_kinds()
    named = {
        topology: {obj["spec"].get("topologyName") for obj in cluster.all(flavor)},
        flavor: {
            entry["name"]
            for obj in cluster.all(queue)
            for group in obj["spec"].get("resourceGroups") or ()
            for entry in group["flavors"]
        },
        queue: set(),
    }
    for kind, names_in_use in named.items():
        for obj in cluster.all(kind):
            metadata = obj["metadata"]
            is_going, is_kept = "deletionTimestamp" in metadata, bool(metadata.get("finalizers"))
            if not is_going and not is_kept:
                metadata["finalizers"] = [KUEUE_FINALIZER]
            elif is_going and is_kept and metadata["name"] not in names_in_use:
                metadata["finalizers"] = []
            else:
                continue
            cluster.put(kind, obj)
