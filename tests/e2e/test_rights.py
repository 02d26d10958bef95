"""The roles of ``deploy/rbac`` grant what a full run needs, and nothing that it does not."""

from tests.e2e import rights
from tests.e2e.conftest import CLIQUE, RACK, workflow

PAIR = ("g", ["a", "b"], {"exitActions": '{RESCHEDULE: "3"}', "files": "[{path: /x, contents: y}]"})
SAME_RACK = "one: {gpu: 4, topology: [{key: rack}]}"

KEYS = [
    {"key": "rack", "label": RACK},
    {"key": "clique", "label": CLIQUE},
    {"key": "host", "label": "kubernetes.io/hostname"},
]
"""Levels of no other test's pool, so that their Topology goes with this one."""

RARE = {
    ("worker", "get", "pods"): "whose a name is that is taken, and whether a delete met another object",
    ("worker", "get", "services"): "whose a name is that is taken, and whether a delete met another object",
    (
        "worker",
        "patch",
        "pods",
    ): "a waiting gang's sets get another order, or a peer ends before a start barrier saw it",
    ("worker", "list", "bindrequests.scheduling.run.ai"): "a waiting gang's sets get another order",
    ("worker", "get", "podgroups.scheduling.run.ai"): "a task is tried again alone, or a preference relaxed",
    ("worker", "patch", "podgroups.scheduling.run.ai"): "the same",
    ("worker", "get", "secrets"): "the same",
    ("worker", "get", "computedomains.resource.nvidia.com"): "the same",
    ("worker", "get", "podgroups.scheduling.k8s.io"): "the same",
    ("worker", "get", "compositepodgroups.scheduling.k8s.io"): "the same",
    ("worker", "get", "workloads.scheduling.k8s.io"): "the same",
    ("worker", "patch", "workloads.kueue.x-k8s.io"): "a waiting Workload is made to look again",
    ("worker", "get", "resourceclaims.resource.k8s.io"): "whether the claims of a small gang are gone",
    (
        "worker",
        "list",
        "resourceclaims.resource.k8s.io",
    ): "the same of a large gang, or where no names are known",
    ("worker", "list", "resourceclaimtemplates.resource.k8s.io"): "manage.py doctor looks for forgotten ones",
    ("worker", "list", "nodes"): "asked only while no node of the cluster was observed",
    ("worker", "delete", "priorityclasses.scheduling.k8s.io"): "once a cluster's last backend is deleted",
    ("worker", "patch", "priorityclasses.scheduling.k8s.io"): "puts back what a hand has edited",
    ("worker", "patch", "queues.scheduling.run.ai"): "a pool's quota is edited",
    ("worker", "patch", "topologies.kai.scheduler"): "puts back a mark that a hand has taken away",
}
"""Granted and not used by this run: why it is needed all the same."""


def full_run(world, queues):
    """Every scheduler, a ComputeDomain, a file, a second try, logs, an end and a pool that goes."""
    world.service.call("PATCH", "/api/configs/workflow", {"configs_dict": {"max_retry_per_task": 1}})
    kai = world.make_pool("kai", nvlink=True, topology_keys=KEYS)
    name = world.submit(kai, workflow(PAIR, resources=SAME_RACK))
    world.wait_group(name, "g", "RUNNING")
    assert world.service.call("GET", f"/api/workflow/{name}/logs?follow=False")
    pod = next(p for p in world.pods(name) if p["metadata"]["labels"]["osmo.task_name"] == "a")
    world.annotate(pod, exit_code="3", run_for="0s")
    again = f"{pod['metadata']['name'].removesuffix('-0')}-1"
    world.wait(lambda: [p["metadata"]["name"] for p in world.pods(name)], lambda names: again in names)
    own = world.make_pool("own", scheduler="kubernetes")
    other = world.submit(own, workflow(("g", ["a"]), resources=SAME_RACK))
    world.wait_group(other, "g", "RUNNING")
    admitted = world.make_pool("admitted", scheduler="kueue")
    queues.make(admitted, RACK)
    third = world.submit(admitted, workflow(("g", ["a"]), resources=SAME_RACK))
    world.wait_group(third, "g", "RUNNING")
    for each in (name, other, third):
        world.service.cancel(each, force=True)
        world.wait_released(each)
        assert world.left(each) == []
    world.service.call("DELETE", f"/api/configs/pool/{kai}", {})


def test_granted_rights_are_used_and_no_others_are_asked_for(world, queues, plane):
    full_run(world, queues)
    wanted = set(rights.granted()) - RARE.keys()

    def seen():
        used = rights.used(plane.audit_log, {world.namespace})
        return {
            "refused": sorted(key for key, allowed in used.items() if not allowed),
            "unused": sorted(wanted - used.keys()),
        }

    assert world.wait(seen, lambda seen: not seen["unused"])["refused"] == []
    assert RARE.keys() <= set(rights.granted())
