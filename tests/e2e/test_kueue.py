"""Kueue admits a group before it has pods: a real one, on the run's cluster."""

import pytest

from localcluster import nodes
from localcluster.demo.view import BLOCKERS
from localcluster.kueue_queues import HOSTNAME, KUEUE
from localcluster.rest import Refused
from tests.e2e.conftest import CLIQUE, RACK, workflow
from tests.e2e.kueue_gangs import IN_ONE_ZONE, ZONE, of_sets, zoned
from tests.e2e.kueue_queues import assert_pairs_apart, bound, complete, in_rank, places, workloads


def test_four_tasks_share_a_clique_and_a_compute_domain(world, queues):
    pool = world.make_pool(scheduler="kueue", nvlink=True, size=4)
    queues.make(pool, RACK, CLIQUE)
    resources = "one: {gpu: 4, topology: [{key: clique}]}"
    name = world.submit(pool, workflow(("g", list("abcd")), resources=resources))
    world.wait_group(name, "g", "RUNNING")
    pods = bound(world, name)
    assert len(set(places(world, pods, CLIQUE))) == 1
    hosts = [pod["spec"]["nodeName"] for pod in pods]
    assert (hosts, len(set(hosts))) == (sorted(hosts), 4)
    assert [pod["spec"]["nodeSelector"][HOSTNAME] for pod in pods] == hosts
    assert all(pod["status"]["resourceClaimStatuses"] for pod in pods)
    complete(world, name)


def test_a_gang_that_no_rack_can_hold_waits_without_pods_and_says_so(world, queues):
    """Three whole nodes fit into the pool, but not into one of its racks of two."""
    pool = world.make_pool(scheduler="kueue")
    queues.make(pool, RACK)
    resources = "one: {gpu: 4, topology: [{key: rack}]}"
    name = world.submit(pool, workflow(("g", list("abc")), resources=resources))
    reason = world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "", lambda text: "No domain has room" in text
    )
    assert "3 tasks" in reason
    assert (world.groups(name)["g"]["status"], world.pods(name)) == ("SCHEDULING", [])
    world.service.cancel(name)
    world.wait_released(name)
    assert (world.left(name), workloads(world, name)) == ([], [])


def test_work_of_higher_priority_takes_the_room_and_the_lower_one_comes_back(world, queues):
    pool = world.make_pool(scheduler="kueue", racks=1, size=1)
    queues.make(pool, RACK, within="LowerPriority")
    text = workflow(("g", ["a"]))
    low = world.submit(pool, text, priority="LOW")
    world.wait_group(low, "g", "RUNNING")
    high = world.submit(pool, text, priority="HIGH")
    world.wait_group(high, "g", "RUNNING")
    (ended, *_) = world.wait(lambda: world.groups(low)["g"]["attempts"], lambda found: len(found) == 2)
    assert "Preempted" in ended["message"]
    assert world.pods(low) == []
    complete(world, high)
    world.wait(
        lambda: world.pods(low), lambda pods: [pod["status"].get("phase") for pod in pods] == ["Running"]
    )
    complete(world, low)


def test_two_sets_get_a_clique_each(world, queues):
    pool = world.make_pool(scheduler="kueue", nvlink=True, racks=3)
    queues.make(pool, RACK, CLIQUE)
    text = of_sets({"one": "[{key: clique, group: x}]", "two": "[{key: clique, group: y}]"})
    name = world.submit(pool, text)
    world.wait_group(name, "g", "RUNNING")
    assert_pairs_apart(world, bound(world, name), CLIQUE)
    complete(world, name)


def test_two_sets_get_a_rack_each_in_the_one_zone_that_is_large_enough(world, queues):
    pool = zoned(world, r0="b", r1="a", r2="a")
    queues.make(pool, ZONE, RACK)
    name = world.submit(pool, of_sets(IN_ONE_ZONE))
    world.wait_group(name, "g", "RUNNING")
    pods = bound(world, name)
    assert set(places(world, pods, ZONE)) == {"a"}
    assert_pairs_apart(world, pods, RACK)
    (workload,) = workloads(world, name)
    assert [pod_set["count"] for pod_set in workload["spec"]["podSets"]] == [4]
    complete(world, name)


def test_preferences_inside_a_preference_are_refused_by_capability(world, queues):
    pool = zoned(world, r0="a", r1="a")
    preferred = "requirementType: preferred"
    sets = {name: text.replace("}", f", {preferred}}}") for name, text in IN_ONE_ZONE.items()}
    with pytest.raises(Refused, match=r"topology\.nested"):
        world.submit(pool, of_sets(sets))


def test_a_gang_that_is_switched_off_waits_until_it_is_switched_on(world, queues):
    pool = world.make_pool(scheduler="kueue", nvlink=True, racks=1, size=2)
    queues.make(pool, RACK)
    resources = "one: {gpu: 4, topology: [{key: rack}]}"
    name = world.submit(pool, workflow(("g", list("ab")), resources=resources))
    world.wait_group(name, "g", "RUNNING")

    def switch(*, on):
        (workload,) = workloads(world, name)
        path = f"{KUEUE}/namespaces/{world.namespace}/workloads/{workload['metadata']['name']}"
        world.api.patch(path, {"spec": {"active": on}})

    switch(on=False)
    reason = world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "", lambda text: "switched off" in text
    )
    assert "until somebody sets spec.active" in reason
    assert world.pods(name) == []
    switch(on=True)
    world.wait(
        lambda: world.pods(name),
        lambda pods: [pod["status"].get("phase") for pod in pods] == ["Running", "Running"],
    )
    complete(world, name)


def hide_from_kueue(world, node):
    """Another tenant's pod takes a node, and Kueue takes it for one that a Workload already counts.

    Its priority keeps Kubernetes' scheduler from preempting it.
    """
    gpus = {"nvidia.com/gpu": "4"}
    container = {"name": "busy", "image": "busy", "resources": {"limits": gpus, "requests": gpus}}
    marks = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
    metadata = {"name": f"busy-{node}", "namespace": BLOCKERS, "annotations": marks}
    spec = {
        "nodeName": node,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    world.api.create(f"/api/v1/namespaces/{BLOCKERS}/pods", pod)


def test_a_gang_whose_assigned_node_is_in_use_says_so_and_asks_for_room_again(world, queues):
    """Kubernetes' own scheduler cannot bind one of two pods; nothing is left of the first attempt."""
    recovery = {"preempted": "requeue", "backoff": {"first": "1s", "limit": "2s"}}
    pool = world.make_pool(scheduler="kueue", nvlink=True, racks=1, size=2, recovery=recovery)
    queues.make(pool, RACK)
    node = f"{pool}-r0-1"
    hide_from_kueue(world, node)
    resources = "one: {gpu: 4, topology: [{key: rack}]}"
    name = world.submit(pool, workflow(("g", list("ab")), resources=resources))
    reason = world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "", lambda text: f"bound to node {node}" in text
    )
    assert "Insufficient nvidia.com/gpu" in reason
    world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "",
        lambda text: "1 pod of other tenants uses 4 of its 4 GPUs" in text,
    )
    (before,) = workloads(world, name)
    (first, *_) = world.wait(lambda: world.groups(name)["g"]["attempts"], lambda found: len(found) == 2)
    assert (first["cause"], first["evidence"]) == ("preempted", "assigned_node_busy")
    world.view.unblock(node)
    first_name = before["metadata"]["name"]
    world.wait(  # the pods of the first attempt may still be there, and be bound at last
        lambda: [workload["metadata"]["name"] for workload in workloads(world, name)],
        lambda names: len(names) == 1 and first_name not in names,
    )
    world.wait(
        lambda: [pod["status"].get("phase") for pod in world.pods(name)],
        lambda phases: phases == ["Running", "Running"],
    )
    complete(world, name)


def test_a_lost_node_is_replaced_and_only_its_task_moves_in_the_same_compute_domain(world, queues):
    recovery = {"preempted": "requeue", "node_lost": "task"}
    pool = world.make_pool(scheduler="kueue", nvlink=True, racks=2, size=3, recovery=recovery)
    queues.make(pool, RACK, CLIQUE)
    resources = "one: {gpu: 4, topology: [{key: clique}]}"
    name = world.submit(pool, workflow(("g", list("ab")), resources=resources))
    world.wait_group(name, "g", "RUNNING")
    world.wait(lambda: in_rank(world.pods(name)), both_run)
    first, lost = in_rank(world.pods(name))
    (domain,) = domains(world, name)
    world.api.delete(f"{nodes.PATH}/{lost['spec']['nodeName']}")
    stayed, moved = world.wait(
        lambda: in_rank(world.pods(name)),
        lambda pods: both_run(pods) and pods[1]["metadata"]["uid"] != lost["metadata"]["uid"],
    )
    assert stayed["metadata"]["uid"] == first["metadata"]["uid"]
    assert moved["spec"]["nodeName"] not in {lost["spec"]["nodeName"], stayed["spec"]["nodeName"]}
    assert len(set(places(world, [stayed, moved], CLIQUE))) == 1
    assert domains(world, name) == [domain]
    group = world.groups(name)["g"]
    assert (group["status"], len(group["attempts"])) == ("RUNNING", 1)
    complete(world, name)


def test_a_claim_gets_a_node_whose_channel_is_free_beside_gpus_that_are(world, queues):
    """By GPUs alone all three would fit, and Kueue would fill the node first that is in use already."""
    pool = world.make_pool(scheduler="kueue", nvlink=True, racks=1, size=2)
    queues.make(pool, RACK)
    text = workflow(("g", ["a"], {"nvlink": "true"}), resources="one: {gpu: 1}")
    running = []
    for _ in range(2):
        running.append(world.submit(pool, text))
        world.wait_group(running[-1], "g", "RUNNING")
    used = {pod["spec"]["nodeName"] for name in running for pod in world.pods(name)}
    assert len(used) == 2
    name = world.submit(pool, text)
    world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "",
        lambda reason: "2 nodes are left out, because other work holds their NVLink channel" in reason,
    )
    assert (world.groups(name)["g"]["status"], world.pods(name)) == ("SCHEDULING", [])
    complete(world, running[0])
    world.wait_group(name, "g", "RUNNING")
    complete(world, running[1])
    complete(world, name)


def test_claims_for_one_gpu_each_get_a_node_each(world, queues):
    """By GPUs alone all of them would stand on one node, where a single one could start."""
    pool = world.make_pool(scheduler="kueue", nvlink=True, racks=1, size=3)
    queues.make(pool, RACK)
    text = workflow(("g", list("abc")), resources="one: {gpu: 1}")

    def warnings():
        """The size of half a node follows from nodes, which the observer reports after the pool was made."""
        return world.service.submit(pool, text, dry_run=True)["warnings"]

    world.wait(warnings, lambda told: any("more than half of a node" in warning for warning in told))
    name = world.submit(pool, text)
    world.wait_group(name, "g", "RUNNING")
    assert len({pod["spec"]["nodeName"] for pod in world.bound_pods(name)}) == 3
    complete(world, name)


def both_run(pods):
    return [pod["status"].get("phase") for pod in pods] == ["Running", "Running"]


def domains(world, name):
    """The uids of the workflow's ComputeDomains."""
    (group,) = world.service.workflow(name)["groups"]
    return [
        item["metadata"]["uid"]
        for item in world.view.of_group(world.namespace, "ComputeDomain", group["uuid"])
    ]


def of_pool(world, pool, kind):
    config = world.service.call("GET", f"/api/configs/pool/{pool}")
    nothing = {"status": "", "reason": ""}
    return next((entry for entry in config["conditions"] if entry["type"] == kind), nothing)


def test_a_pool_on_somebodys_queue_says_what_of_it_does_not_fit(world, queues):
    """The queue comes late, its Topology lacks a key, its ClusterQueue is stopped."""
    team = f"{world.prefix}team"
    pool = world.make_pool(scheduler="kueue", local_queue=team)
    missing = world.wait(lambda: of_pool(world, pool, "QueueReady"), lambda entry: entry["status"] == "False")
    assert (missing["reason"], f'LocalQueue "{team}"' in missing["message"]) == ("LocalQueueNotFound", True)
    queues.make(pool, ZONE, queue=team)
    drift = world.wait(
        lambda: of_pool(world, pool, "TopologyDrift"), lambda entry: entry["reason"] == "Drift"
    )
    assert f"Topology {pool} lists {ZONE}, {HOSTNAME} where" in drift["message"]

    name = world.submit(pool, workflow(("g", ["a"]), resources="one: {gpu: 4, topology: [{key: rack}]}"))
    reason = world.wait(
        lambda: world.groups(name)["g"]["waiting_reason"] or "", lambda text: "does not list" in text
    )
    assert f'Topology "{pool}" does not list label {RACK}' in reason
    (workload,) = workloads(world, name)
    assert workload["spec"]["queueName"] == team
    world.service.cancel(name)
    world.wait_released(name)

    world.api.patch(f"{KUEUE}/clusterqueues/{pool}", {"spec": {"stopPolicy": "Hold"}})
    stopped = world.wait(
        lambda: of_pool(world, pool, "QueueReady"), lambda entry: entry["reason"] == "ClusterQueueStopped"
    )
    assert "stopPolicy Hold" in stopped["message"]


def test_a_gang_joins_the_queue_that_its_pool_names(world, queues):
    team = f"{world.prefix}team"
    pool = world.make_pool(scheduler="kueue", local_queue=team)
    queues.make(pool, RACK, queue=team)
    world.wait(lambda: of_pool(world, pool, "QueueReady"), lambda entry: entry["status"] == "True")
    name = world.submit(pool, workflow(("g", ["a"]), resources="one: {gpu: 4, topology: [{key: rack}]}"))
    world.wait_group(name, "g", "RUNNING")
    complete(world, name)


def test_a_group_that_waits_for_quota_says_how_full_its_queue_is(world, queues):
    pool = world.make_pool(scheduler="kueue")
    queues.make(pool, RACK, gpus=4)
    first = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(first, "g", "RUNNING")
    second = world.submit(pool, workflow(("g", ["a"])))
    reason = world.wait(
        lambda: world.groups(second)["g"]["waiting_reason"] or "", lambda text: "uses 4 of its 4" in text
    )
    assert f'ClusterQueue "{pool}" uses 4 of its 4 nvidia.com/gpu' in reason


def test_groups_that_wait_in_a_queue_say_their_number_in_it(world, queues):
    pool = world.make_pool(scheduler="kueue")
    queues.make(pool, RACK, gpus=4)
    running = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(running, "g", "RUNNING")
    low = world.submit(pool, workflow(("g", ["a"])), priority="LOW")
    world.wait(lambda: world.groups(low)["g"]["waiting_reason"] or "", lambda text: "uses 4 of its 4" in text)
    normal = world.submit(pool, workflow(("g", ["a"])))
    world.wait(
        lambda: world.groups(normal)["g"]["waiting_reason"] or "", lambda text: "number 1 of 2." in text
    )


def test_a_verdict_names_the_nodes_that_kueue_assigns_and_knows_its_quota(world, queues):
    pool = world.make_pool(scheduler="kueue", racks=2, size=2)
    queues.make(pool, RACK, gpus=8)
    resources = "one: {gpu: 4, topology: [{key: rack}]}"
    text = workflow(("g", list("ab")), resources=resources)

    def verdict():
        path = f"/api/pool/{pool}/workflow?feasibility=only"
        return world.service.call("POST", path, {"file": text})["feasibility"][0]

    fits = world.wait(verdict, lambda found: found["quota"]["answer"] == "admits")
    assert (fits["verdict"], fits["proven"]) == ("now", True)
    name = world.submit(pool, text)
    world.wait_group(name, "g", "RUNNING")
    assert {pod["spec"]["nodeName"] for pod in bound(world, name)} == set(fits["places"].values())
    full = world.wait(verdict, lambda found: found["quota"]["answer"] == "short")
    assert (full["verdict"], full["obstacle"]) == ("not_now", "quota")
    assert f'queue "{pool}" never allows more than 8 GPUs, 8 GPUs of them are in use' in full["sentence"]
