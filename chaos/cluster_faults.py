"""Faults in the cluster behind the service's back: objects are deleted, held, evicted and removed."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from chaos.storm import Storm
from localcluster import nodes, scenario
from localcluster.api import ApiError, Json
from localcluster.crds import kai, nvidia
from localcluster.kueue_queues import KUEUE

GROUP_LABEL = "osmo.nvidia.com/task-group"
STRANGER = "chaos.osmo.local/stranger"
OWN = f"{GROUP_LABEL},!{STRANGER}"
"""Selects what the service made; ``chaos.hostile`` makes objects that look like it."""
HELD_DOMAINS = 4
WRITES = 5
CONFLICT = 409
HELD_SECONDS = (6.0, 15.0)
LONGEST_HOLD = 40.0
FOLLOW_SECONDS = 25.0
LOSES = "lose a task of a gang"
REUSES = "hold ComputeDomains"
REUSED = "start on a node whose former domain is ending"
FOLLOW_UP = """workflow:
  name: follow-up
  labels: {{sim.osmo.local/run-for: 8s}}
  tasks: [{{name: t, image: busybox, command: [train], resource: one}}]
  resources:
    one: {{gpu: 4, nodesExcluded: [{others}]}}
"""
LOSING = """workflow:
  name: losing
  labels: {sim.osmo.local/run-for: 30s}
  groups:
  - name: gang
    tasks:
    - {name: lead, lead: true, image: busybox, command: [train], resource: one}
    - {name: one, image: busybox, command: [train], resource: one}
    - {name: two, image: busybox, command: [train], resource: one}
    - {name: three, image: busybox, command: [train], resource: one}
  resources:
    one: {gpu: 1}
"""
HOLD = "chaos.osmo.local/hold"
DOMAINS = "/apis/resource.nvidia.com/v1beta1"
POD_GROUPS = "/apis/scheduling.run.ai/v2alpha2"
VERSIONS = {"resource.nvidia.com": "v1beta1", "scheduling.run.ai": "v2alpha2"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SIM = "sim.osmo.local"


def service_objects(storm: Storm, prefix: str, plural: str) -> list[Json]:
    """All objects of a kind that the service created for groups."""
    objects, _ = storm.site.api.list(f"{prefix}/{plural}", query={"labelSelector": OWN})
    return sorted(objects, key=lambda obj: str(obj["metadata"]["name"]))


def path_of(obj: Json, prefix: str, plural: str) -> str:
    metadata = obj["metadata"]
    return f"{prefix}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"


def delete(prefix: str, plural: str, *, most: int = 2) -> Callable[[Storm], int]:
    """Delete some of the service's objects behind its back."""

    def fault(storm: Storm) -> int:
        objects = service_objects(storm, prefix, plural)
        doomed = storm.generator.sample(objects, min(most, len(objects)))
        for obj in doomed:
            storm.deleted.add(str(obj["metadata"]["uid"]))
            storm.site.api.delete(path_of(obj, prefix, plural))
        return len(doomed)

    return fault


def running(storm: Storm) -> list[Json]:
    return [
        pod
        for pod in service_objects(storm, "/api/v1", "pods")
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def fail_pods(storm: Storm) -> int:
    """Let running pods end: some with a code that their tasks are tried again for."""
    pods = running(storm)
    doomed = storm.generator.sample(pods, min(2, len(pods)))
    for pod in doomed:
        code = storm.generator.choice(("1", "137", "137"))
        note = {f"{SIM}/run-for": "0s", f"{SIM}/exit-code": code}
        storm.site.api.patch(path_of(pod, "/api/v1", "pods"), {"metadata": {"annotations": note}})
    return len(doomed)


def lose_a_task(storm: Storm) -> int:
    """Let a task of a gang that lives on fail for good, so that the gang's minimum has to follow.

    Where no such gang runs, one is submitted, for the next time.
    """
    gangs: dict[str, list[Json]] = {}
    pods = [pod for pod in service_objects(storm, "/api/v1", "pods") if _workflow(pod).startswith("losing-")]
    alive = {str(pod["metadata"]["uid"]) for pod in running(storm)}
    for pod in pods:
        if pod["metadata"]["uid"] in alive:
            gangs.setdefault(group_of(pod), []).append(pod)
    full_gangs = [gang for gang in gangs.values() if len(gang) > 2]
    if not full_gangs:
        if all(pod["metadata"]["uid"] in alive for pod in pods):  # none is on its way
            storm.submit("spines", LOSING)
        return 0
    others = [pod for pod in full_gangs[0] if pod["metadata"]["labels"].get("osmo.task_name") != "lead"]
    note = {f"{SIM}/run-for": "0s", f"{SIM}/exit-code": "1"}
    storm.site.api.patch(path_of(others[0], "/api/v1", "pods"), {"metadata": {"annotations": note}})
    return 1


def evict_pods(storm: Storm) -> int:
    """Evict pods as a drain does."""
    pods = running(storm)
    doomed = storm.generator.sample(pods, min(2, len(pods)))
    for pod in doomed:
        metadata = pod["metadata"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        }
        storm.site.api.create(f"{path_of(pod, '/api/v1', 'pods')}/eviction", body)
    return len(doomed)


def remove_node(storm: Storm) -> int:
    """Take a node away with what runs on it; it comes back empty."""
    node = storm.generator.choice(scenario.all_nodes())
    if storm.site.api.delete(f"{nodes.PATH}/{node.name}") is None:
        return 0
    storm.later(storm.pause(4, 10), partial(put_node, storm, node))
    return 1


def put_node(storm: Storm, node: nodes.Node) -> None:
    if storm.site.api.find(f"{nodes.PATH}/{node.name}") is None:
        storm.site.api.create(nodes.PATH, nodes.manifest(node))


def hold_domains(storm: Storm) -> int:
    """Keep ComputeDomains from going, as a driver that hangs does, and start others on their nodes."""
    pods: dict[str, list[Json]] = {}
    for pod in running(storm):
        pods.setdefault(group_of(pod), []).append(pod)
    living = [
        domain
        for domain in service_objects(storm, DOMAINS, "computedomains")
        if "deletionTimestamp" not in domain["metadata"]
    ]
    first = [domain for domain in living if group_of(domain) in pods][:1]
    if not first:
        return 0
    blocked = [*first, *(domain for domain in living if domain not in first)][:HELD_DOMAINS]
    storm.later(storm.pause(*HELD_SECONDS), partial(_release, storm, blocked[1:]))
    storm.later(LONGEST_HOLD, partial(_release, storm, blocked))
    for domain in blocked:
        _set_hold(storm, domain, hold=True)
    _follow_up(storm, blocked[0], pods[group_of(blocked[0])])
    return len(blocked)


def group_of(obj: Json) -> str:
    return str(obj["metadata"]["labels"][GROUP_LABEL])


def _workflow(pod: Json) -> str:
    return str(pod["metadata"]["labels"].get("osmo.workflow_id", ""))


def _follow_up(storm: Storm, domain: Json, pods: list[Json]) -> None:
    """End a group whose ComputeDomain is held, and submit another one that fits on its nodes alone."""
    used = {str(pod["spec"]["nodeName"]) for pod in pods}
    pool = next(n.labels[scenario.POOL_LABEL] for n in scenario.all_nodes() if n.name in used)
    others = [
        node.name
        for node in scenario.all_nodes()
        if node.labels[scenario.POOL_LABEL] == pool and node.name not in used
    ]
    for pod in pods:
        note = {f"{SIM}/run-for": "0s", f"{SIM}/exit-code": "0"}
        storm.site.api.patch(path_of(pod, "/api/v1", "pods"), {"metadata": {"annotations": note}})
    storm.submit(
        pool, FOLLOW_UP.format(others=", ".join(others)), "HIGH"
    )  # before what waits for these nodes
    storm.later(0.5, partial(_count_reused, storm, domain, used, time.monotonic() + FOLLOW_SECONDS))


def _count_reused(storm: Storm, domain: Json, used: set[str], until: float) -> None:
    """Pods of other groups on nodes whose former ComputeDomain is still ending; then let that one go."""
    now = storm.site.api.find(path_of(domain, DOMAINS, "computedomains"))
    ending = now is not None and "deletionTimestamp" in now["metadata"]
    reusing = [
        pod
        for pod in running(storm)
        if pod["spec"].get("nodeName") in used and group_of(pod) != group_of(domain)
    ]
    if ending and reusing:
        storm.counts[REUSED] += len(reusing)
        _release(storm, [domain])
    elif now is None or time.monotonic() > until:
        _release(storm, [domain])
        storm.again.append(REUSES)  # its group was not taken down in time, or not at all
    else:
        storm.later(0.5, partial(_count_reused, storm, domain, used, until))


def _release(storm: Storm, domains: list[Json]) -> None:
    for domain in domains:
        _set_hold(storm, domain, hold=False)


def _set_hold(storm: Storm, domain: Json, *, hold: bool) -> None:
    """Put our finalizer on a ComputeDomain, or take it off; its controller may be writing as well."""
    path = path_of(domain, DOMAINS, "computedomains")
    for left in reversed(range(WRITES)):
        now = storm.site.api.find(path)
        if now is None or now["metadata"]["uid"] != domain["metadata"]["uid"]:
            return
        others = [name for name in now["metadata"].get("finalizers") or [] if name != HOLD]
        version = now["metadata"]["resourceVersion"]
        finalizers = [*others, HOLD] if hold else others
        try:
            storm.site.api.patch(path, {"metadata": {"resourceVersion": version, "finalizers": finalizers}})
        except ApiError as error:
            if error.code != CONFLICT or not left:
                raise
        else:
            return


def remove_definition(definitions: Callable[[], Any], name: str) -> Callable[[Storm], int]:
    """Remove a CustomResourceDefinition with everything of its kind, and put it back.

    Not while ``hold_domains`` holds objects of it: it would not go before them.
    """

    def put_back(storm: Storm) -> None:
        (definition,) = (crd for crd in definitions() if crd["metadata"]["name"] == name)
        served = storm.site.api.find(f"{CRDS}/{name}")
        if served is not None and "deletionTimestamp" in served["metadata"]:
            storm.later(1.0, partial(put_back, storm))
        elif served is None:
            storm.site.api.apply(f"{CRDS}/{name}", definition, manager="localcluster")

    def fault(storm: Storm) -> int:
        plural, _, group = name.partition(".")
        before = service_objects(storm, f"/apis/{group}/{VERSIONS[group]}", plural)
        if any(HOLD in (obj["metadata"].get("finalizers") or ()) for obj in before):
            return 0
        storm.deleted |= {str(obj["metadata"]["uid"]) for obj in before}
        if storm.site.api.delete(f"{CRDS}/{name}") is None:
            return 0
        storm.later(storm.pause(3, 6), partial(put_back, storm))
        return 1

    return fault


FAULTS = {
    "delete pods": (4, delete("/api/v1", "pods")),
    "delete pod groups": (3, delete(POD_GROUPS, "podgroups")),
    "delete ComputeDomains": (3, delete(DOMAINS, "computedomains", most=1)),
    "delete Workloads": (2, delete(KUEUE, "workloads", most=1)),
    "delete services": (2, delete("/api/v1", "services")),
    "fail pods": (6, fail_pods),
    LOSES: (3, lose_a_task),
    "evict pods": (3, evict_pods),
    "remove node": (3, remove_node),
    REUSES: (3, hold_domains),
    "remove CRD of ComputeDomains": (
        1,
        remove_definition(nvidia.definitions, "computedomains.resource.nvidia.com"),
    ),
    "remove CRD of PodGroups": (
        1,
        remove_definition(lambda: kai.definitions("0.13"), "podgroups.scheduling.run.ai"),
    ),
}
