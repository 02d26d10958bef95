"""A gang that its scheduler admits before it has pods: no pod without room, no room without a group."""

import json
from datetime import timedelta

import pytest
from django.db.models import F, Q
from django.utils import timezone

from cluster.errors import RequestForbidden
from cluster.kinds import COMPUTE_DOMAIN, NODE, POD
from pools.models import Cluster
from pools.values.recovery import RecoveryPolicy, Response
from scheduling import names
from tests.builders.crashes import Killed, expire_leases
from tests.builders.gangs import CONDITION
from tests.builders.workloads import (
    HOSTNAME,
    PREEMPTED,
    admit,
    binder,
    condition,
    evict_workload,
    hosts,
    kueue_world,
    queued_gang,
    workload,
    write_status,
)
from tests.factories import foreign_usage
from tests.fakes import players
from tests.fakes.kinds import WORKLOAD
from tests.worker.world import fresh, statuses
from web.times import read_instant
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import Attempt, Event, ObservedObject, ObservedPod, TaskGroup
from workflows.services.stop import request_stop
from workflows.values.observation import POD_GROUP


@pytest.fixture
def world(db):
    return kueue_world()


def test_no_pod_exists_before_its_gang_has_room(world):
    group = queued_gang(world)
    assert (group.status, world.pods()) == ("SCHEDULING", [])
    assert statuses(group) == ["SCHEDULING"] * 2
    spec = workload(world)["spec"]
    assert (spec["queueName"], [pod_set["count"] for pod_set in spec["podSets"]]) == ("train", [2])
    (container,) = spec["podSets"][0]["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["nvidia.com/gpu"] == "1"
    assert "claims" not in container["resources"]
    assert group.waiting_reason == "Kueue has not considered it yet."


def test_a_group_that_waits_for_room_costs_no_call(world):
    group = queued_gang(world)
    before = len(world.cluster.calls)
    world.reconcile(group)
    assert world.cluster.calls[before:] == []


@pytest.mark.parametrize(("waited", "pause"), [(1, 3), (40, 40), (900, 120)])
def test_the_longer_a_group_waits_for_room_the_more_rarely_it_is_reconciled(world, waited, pause):
    """Usage of the queue by others stands in its reason, and nobody notifies it when that changes."""
    group = queued_gang(world)
    began = timezone.now()
    times = ("processing_start_time", "scheduling_start_time")
    TaskGroup.objects.filter(pk=group.pk).update(**dict.fromkeys(times, began - timedelta(seconds=waited)))
    world.reconcile(group)
    took = timezone.now() - began
    due = fresh(group).next_reconcile_at - began
    assert timedelta(seconds=pause) <= due <= timedelta(seconds=pause) + 2 * took


def test_pods_are_made_for_the_nodes_that_were_assigned(world):
    group = queued_gang(world)
    admit(world, "n-3", "n-1")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2
    assert hosts() == ["n-1", "n-3"]
    for pod in world.cluster.all(POD):
        assert pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-unconstrained-topology"] == "true"
    world.finish(group)
    world.settle()
    assert (fresh(group).status, fresh(group).released_at is not None) == ("COMPLETED", True)
    assert {kind for kind in world.cluster.kinds() if kind != "Node"} == set()


@pytest.mark.parametrize("with_pods", [False, True])
@pytest.mark.parametrize("has_asked", [False, True])
def test_room_of_an_attempt_that_the_rows_do_not_know_is_given_back_first(world, has_asked, with_pods):
    """The database was put back: the workload of a later attempt holds the nodes, perhaps with pods."""
    group = queued_gang(world)
    own = workload(world)
    later = workload_of_a_later_attempt(world, own)
    if with_pods:
        leave_pod(world, group, own["metadata"]["labels"])
    if not has_asked:
        world.cluster.delete(WORKLOAD, own["metadata"]["name"], namespace="osmo", uid=own["metadata"]["uid"])
        forget_creation(group)
    world.settle()
    assert [obj["metadata"]["name"] for obj in world.cluster.all(WORKLOAD)] == [own["metadata"]["name"]]
    assert later not in ObservedObject.objects.values_list("name", flat=True)
    assert world.pods() == []
    admit(world, "n-1", "n-2")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2


def workload_of_a_later_attempt(world, own):
    labels = own["metadata"]["labels"]
    name = own["metadata"]["name"].removesuffix("-0") + "-1"
    conditions = [condition("QuotaReserved"), condition("Admitted")]
    metadata = {"labels": labels, "namespace": "osmo", "name": name}
    world.cluster.put(WORKLOAD, own | {"metadata": metadata, "status": {"conditions": conditions}})
    return name


def leave_pod(world, group, labels):
    """A pod of the second attempt."""
    name = names.pod(group.tasks.get(position=0).task_uuid, retry=1)
    metadata = {"labels": labels, "namespace": "osmo", "name": name}
    pod = {"metadata": metadata, "spec": {"nodeName": "n-1"}, "status": {"phase": "Running"}}
    world.cluster.put(POD, pod)


def forget_creation(group):
    """The backup is of a moment before the group had any object."""
    TaskGroup.objects.filter(pk=group.pk).update(
        status="PROCESSING", touched_cluster=True, scheduling_start_time=None
    )
    group.tasks.update(status="PROCESSING", scheduling_start_time=None)


def test_a_worker_that_dies_between_room_and_pods_leaves_the_next_to_go_on(world, monkeypatch):
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    create = world.cluster.create_many

    def die(*args, **more):
        raise Killed

    monkeypatch.setattr(world.cluster, "create_many", die)
    with pytest.raises(Killed):
        world.step()
    monkeypatch.setattr(world.cluster, "create_many", create)
    expire_leases()
    world.settle()
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-1", "n-2"])
    assert len(world.cluster.all(WORKLOAD)) == 1


def test_an_evicted_gang_is_tried_again_with_a_workload_of_its_own(world):
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    before = workload(world)["metadata"]["name"]
    evict_workload(world)
    world.settle()
    assert (fresh(group).attempt_number, world.pods()) == (2, [])
    after = workload(world)
    assert (after["metadata"]["name"] != before, after.get("status")) == (True, None)
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.evidence) == ("preempted", "room_taken_back")
    assert "Preempted to accommodate a workload" in attempt.message
    admit(world, "n-3", "n-4")
    world.settle()
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-3", "n-4"])


def test_an_evicted_gang_ends_where_its_policy_says_so(world):
    group = queued_gang(world, policy=RecoveryPolicy())
    admit(world, "n-1", "n-2")
    world.settle()
    evict_workload(world)
    world.settle()
    assert (fresh(group).status, world.cluster.all(WORKLOAD)) == ("FAILED_PREEMPTED", [])


REJECTED = {"name": "budget", "state": "Rejected", "message": "the budget of ann is used"}


@pytest.mark.parametrize("with_pods", [False, True])
def test_a_gang_that_a_check_rejects_ends_with_its_name_and_words(world, with_pods):
    """A second attempt would be rejected again."""
    group = queued_gang(world)
    if with_pods:
        admit(world, "n-1", "n-2")
        world.settle()
    write_status(world, {**(workload(world).get("status") or {}), "admissionChecks": [REJECTED]})
    world.settle()
    group = fresh(group)
    assert (group.status, group.attempt_number, world.pods()) == ("FAILED_BACKEND_ERROR", 1, [])
    assert 'admission check "budget" rejected it: the budget of ann is used' in group.failure_message
    assert world.cluster.all(WORKLOAD) == []


def test_a_rejection_is_known_by_the_eviction_once_kueue_has_reset_its_checks(world):
    group = queued_gang(world)
    words = "The workload is deactivated due to Admission check(s): budget, were rejected"
    evict_workload(world, "DeactivatedDueToAdmissionCheck", words)
    world.settle()
    assert fresh(group).status == "FAILED_BACKEND_ERROR"
    assert words in fresh(group).failure_message


def test_room_that_is_taken_back_before_there_are_pods_is_asked_for_by_the_next_attempt(world):
    group = queued_gang(world)
    before = workload(world)["metadata"]["uid"]
    evict_workload(world)
    world.settle()
    assert workload(world)["metadata"]["uid"] != before
    assert (fresh(group).status, fresh(group).attempt_number) == ("SCHEDULING", 2)


def test_a_group_that_is_stopped_while_it_waits_leaves_no_workload(world):
    group = queued_gang(world)
    canceled = TaskStatus.FAILED_CANCELED
    request_stop(Q(pk=group.pk), status=canceled, message="cancelled", force=False)
    world.settle()
    assert fresh(group).released_at is not None
    assert {kind for kind in world.cluster.kinds() if kind != "Node"} == set()


@pytest.mark.parametrize("status", ["Unknown", "True"])
def test_nothing_is_said_of_the_scheduler_of_a_group_that_is_gone(world, status):
    group = queued_gang(world)
    disagrees = {"type": "SchedulerDisagrees", "status": status, "reason": "R", "message": ""}
    TaskGroup.objects.filter(pk=group.pk).update(conditions=[CONDITION | disagrees])
    request_stop(Q(pk=group.pk), status=TaskStatus.FAILED_CANCELED, message="cancelled", force=False)
    world.settle()
    assert "SchedulerDisagrees" not in {entry["type"] for entry in fresh(group).conditions}


def test_the_wait_for_room_has_the_queue_timeout(world):
    group = queued_gang(world)
    TaskGroup.objects.filter(pk=group.pk).update(scheduling_start_time=timezone.now() - timedelta(days=1))
    world.settle()
    assert fresh(group).status == "FAILED_QUEUE_TIMEOUT"
    assert world.cluster.all(WORKLOAD) == []


def test_a_task_that_is_tried_again_takes_its_place(world):
    group = queued_gang(world, default_exit_actions={"RESCHEDULE": "3"}, max_retry_per_task=1)
    admit(world, "n-1", "n-2")
    world.settle()
    second = group.tasks.get(position=1).name
    world.finish(group, 3, tasks=[second])
    world.ends.clear()
    world.settle()
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-1", "n-2"])
    assert len(world.cluster.all(WORKLOAD)) == 1


def test_a_task_of_a_lost_node_waits_for_the_node_that_replaces_it(world):
    policy = RecoveryPolicy(node_lost=Response.TASK, backoff_first=0.001)
    group = queued_gang(world, policy=policy)
    admit(world, "n-1", "n-2")
    world.settle()
    lost = group.tasks.get(position=1)
    world.cluster.remove(NODE, "n-2")
    world.cluster.remove(POD, lost.pod_name, namespace="osmo")
    world.observe()
    ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(seconds=30))
    world.settle()
    assert len(world.pods()) == 1
    admit(world, "n-1", "n-4")
    world.settle()
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-1", "n-4"])
    assert fresh(group).attempt_number == 1


def test_a_gang_whose_assigned_node_is_not_there_names_the_node(world):
    group = queued_gang(world)
    admit(world, "n-1", "n-9")
    world.settle()
    assert world.pods() == []
    assert (
        "Its scheduler assigned node n-9, which is not among the cluster's nodes"
        in fresh(group).waiting_reason
    )
    admit(world, "n-1", "n-2")
    world.settle()
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-1", "n-2"])


def test_nodes_that_do_not_hold_the_gang_make_no_pod(world):
    group = queued_gang(world)
    admit(world, "n-1")
    world.settle()
    assert world.pods() == []
    assert "Kueue assigned 1 pod to" in fresh(group).waiting_reason


def delete_workload(world, group):
    world.cluster.remove(WORKLOAD, workload(world)["metadata"]["name"], namespace="osmo")
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(hours=1))


def test_a_running_gang_whose_workload_somebody_deleted_is_tried_again(world):
    """Kueue may give its nodes away at once: no pod goes on without room for long."""
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    before = workload(world)["metadata"]["name"]
    delete_workload(world, group)
    world.settle()
    assert (fresh(group).attempt_number, world.pods()) == (2, [])
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.evidence) == ("preempted", "room_deleted")
    assert "was deleted from outside" in attempt.message
    assert workload(world)["metadata"]["name"] != before
    admit(world, "n-3", "n-4")
    world.settle()
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-3", "n-4"])


def test_a_workload_that_is_deleted_at_once_is_looked_for_as_soon_as_it_can_be_missed(world):
    """Until then its row may only not be there yet; nothing else would notify the group for minutes."""
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    world.cluster.remove(WORKLOAD, workload(world)["metadata"]["name"], namespace="osmo")
    world.settle()
    row = fresh(group)
    assert (row.status, row.attempt_number) == ("RUNNING", 1)
    waits = row.next_reconcile_at - row.created_in_cluster_at
    assert timedelta(seconds=10) <= waits < timedelta(seconds=11)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(seconds=10))
    world.settle()
    assert fresh(group).attempt_number == 2


def test_a_running_gang_whose_workload_somebody_deleted_ends_where_its_policy_says_so(world):
    group = queued_gang(world, policy=RecoveryPolicy())
    admit(world, "n-1", "n-2")
    world.settle()
    delete_workload(world, group)
    world.settle()
    assert (fresh(group).status, world.cluster.all(WORKLOAD)) == ("FAILED_PREEMPTED", [])


def test_a_domain_that_somebody_deletes_of_a_gang_that_waits_for_room_is_made_again(world):
    """Admitted without one, it would hold its nodes until the next one has its template."""
    group = queued_gang(world)
    asking, (before,) = workload(world)["metadata"]["uid"], world.cluster.all(COMPUTE_DOMAIN)
    for number in (1, 2):
        world.cluster.delete(COMPUTE_DOMAIN, before["metadata"]["name"], namespace="osmo", uid=None)
        world.settle()
        (domain,) = world.cluster.all(COMPUTE_DOMAIN)
        assert domain["metadata"]["uid"] != before["metadata"]["uid"]
        assert Event.objects.filter(group=group, reason="ComputeDomainMadeAgain").count() == number
        before = domain
    assert (workload(world)["metadata"]["uid"], world.pods()) == (asking, [])
    assert fresh(group).waiting_reason == "Kueue has not considered it yet."
    admit(world, "n-1", "n-2")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2


def test_a_strangers_workload_of_its_name_gives_a_gang_no_room(world):
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    stranger = workload(world)
    delete_workload(world, group)
    metadata = {"name": stranger["metadata"]["name"], "namespace": "osmo"}
    world.cluster.put(WORKLOAD, {**stranger, "metadata": metadata})
    world.settle()
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.evidence, world.pods()) == ("room_deleted", [])
    assert any("labels" not in obj["metadata"] for obj in world.cluster.all(WORKLOAD))


def test_a_gang_that_did_not_run_asks_for_room_again_whatever_its_policy(world):
    """Its pods were made for nodes that the next Workload may not be given."""
    world.cluster.players.remove(binder)
    group = queued_gang(world, policy=RecoveryPolicy())
    admit(world, "n-1", "n-2")
    world.settle()
    before = workload(world)["spec"]
    delete_workload(world, group)
    world.settle()
    assert (fresh(group).status, fresh(group).attempt_number, world.pods()) == ("SCHEDULING", 2, [])
    assert workload(world)["spec"] == before


def take(world, *nodes):
    """Another tenant's pods take these nodes, and Kubernetes' scheduler says so on pods made for them."""
    world.cluster.players.remove(binder)

    def refuse(cluster):
        for pod in cluster.all(POD):
            if pod["spec"].get("nodeSelector", {}).get(HOSTNAME) in nodes and not pod["spec"].get("nodeName"):
                since = {"lastTransitionTime": timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
                message = "0/4 nodes are available: 1 Insufficient nvidia.com/gpu."
                refused = condition("PodScheduled", "False", "Unschedulable", message) | since
                if not pod.get("status", {}).get("conditions"):
                    cluster.put(POD, {**pod, "status": {"phase": "Pending", "conditions": [refused]}})

    def bind(cluster):
        for pod in cluster.all(POD):
            node = pod["spec"].get("nodeSelector", {}).get(HOSTNAME)
            if node and node not in nodes and not pod["spec"].get("nodeName"):
                cluster.put(POD, {**pod, "spec": {**pod["spec"], "nodeName": node}})

    world.cluster.players += [refuse, bind]
    for node in nodes:
        foreign_usage(Cluster.objects.get(), node=node, gpu=4)


def pass_time(world, seconds):
    """Let the conditions of pods, and the group's own times, be older by so much."""
    for pod in world.cluster.all(POD):
        for entry in pod.get("status", {}).get("conditions", ()):
            if since := entry.get("lastTransitionTime"):
                earlier = read_instant(since) - timedelta(seconds=seconds)
                entry["lastTransitionTime"] = earlier.strftime("%Y-%m-%dT%H:%M:%SZ")
        world.cluster.put(POD, pod)
    TaskGroup.objects.update(created_in_cluster_at=F("created_in_cluster_at") - timedelta(seconds=seconds))


def test_a_pod_that_cannot_be_bound_to_its_node_is_reported_with_who_uses_the_node(world):
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    take(world, "n-2")
    world.settle()
    assert statuses(group) == ["RUNNING", "SCHEDULING"]
    reason = fresh(group).waiting_reason
    assert "cannot be bound to node n-2" in reason
    assert "of other tenants uses 4 of its" in reason
    assert "1 Insufficient nvidia.com/gpu" in reason
    assert fresh(group).waiting_why == "assigned_node_busy"


def test_a_node_that_takes_no_new_pods_is_reported_as_that(world):
    """Somebody cordons it between admission and pods."""
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    take(world, "n-2")
    world.cluster.edit(NODE, "n-2", lambda node: node.update(spec={"unschedulable": True}))
    world.settle()
    assert "It is cordoned." in fresh(group).waiting_reason


@pytest.mark.parametrize("policy", [PREEMPTED, RecoveryPolicy()], ids=["requeue", "fail"])
def test_room_that_cannot_be_used_is_given_back_and_asked_for_again(world, policy):
    """The gang was never whole, so nothing of it counts as a run, whatever its policy says."""
    group = queued_gang(world, policy=policy)
    admit(world, "n-1", "n-2")
    take(world, "n-2")
    world.settle()
    pass_time(world, 61)
    world.settle()
    assert (fresh(group).attempt_number, world.pods()) == (2, [])
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.evidence) == ("preempted", "assigned_node_busy")
    assert "cannot be bound to node n-2" in attempt.message
    assert fresh(group).avoided_nodes == ["n-2"]
    TaskGroup.objects.filter(pk=group.pk).update(attempt_not_before=timezone.now())
    world.settle()
    assert "n-2" in json.dumps(workload(world)["spec"]["podSets"][0]["template"]["spec"]["affinity"])
    admit(world, "n-1", "n-3")
    world.settle()
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-1", "n-3"])


def test_nodes_on_which_pods_could_not_be_bound_stay_left_out_while_others_are_busy_too(world):
    """Kueue takes the best fit, and would go back and forth between two nodes that it does not see in use."""
    group = queued_gang(world)
    for assigned, busy in (("n-2", ["n-2"]), ("n-3", ["n-3", "n-2"])):
        admit(world, "n-1", assigned)
        if assigned == "n-2":
            take(world, "n-2", "n-3")
        world.settle()
        pass_time(world, 61)
        world.settle()
        assert fresh(group).avoided_nodes == busy
        TaskGroup.objects.filter(pk=group.pk).update(attempt_not_before=timezone.now())
        world.settle()


def test_a_task_that_cannot_get_its_node_again_ends_by_the_policy_of_a_gang_that_has_run(world):
    """It is tried again alone on its node, which another tenant took meanwhile."""
    again = {"default_exit_actions": {"RESCHEDULE": "7"}, "max_retry_per_task": 1}
    group = queued_gang(world, policy=RecoveryPolicy(), **again)
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=True)
    admit(world, "n-1", "n-2")
    world.settle()
    take(world, "n-2")
    follower = group.tasks.get(lead=False)
    world.finish(group, 7, tasks={follower.name})
    world.settle()
    assert (hosts(), statuses(group)) == (["n-1", ""], ["RUNNING", "SCHEDULING"])
    pass_time(world, 61)
    world.settle()
    assert (fresh(group).attempt_number, statuses(group)) == (1, ["FAILED", "FAILED_PREEMPTED"])
    assert "preempted: fail" in fresh(group).failure_message


def test_a_row_that_is_missing_ends_no_gang(world):
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    ObservedObject.objects.filter(kind=POD_GROUP).delete()
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(hours=1))
    world.reconcile(group)
    assert (fresh(group).attempt_number, statuses(group)) == (1, ["RUNNING"] * 2)


CAUSES = {
    "Preempted": ("preempted", "room_taken_back", "FAILED_PREEMPTED"),
    "ClusterQueueStopped": ("preempted", "room_taken_back", "FAILED_PREEMPTED"),
    "AdmissionCheck": ("preempted", "room_taken_back", "FAILED_PREEMPTED"),
    "NodeFailures": ("node_lost", "room_node_failed", "FAILED_BACKEND_ERROR"),
    "PodsReadyTimeout": ("failed", "room_not_ready", "FAILED_START_TIMEOUT"),
    "DeactivatedDueToRequeuingLimitExceeded": ("preempted", "room_switched_off", "FAILED_PREEMPTED"),
}
AGAIN = RecoveryPolicy(
    preempted=Response.REQUEUE,
    node_lost=Response.TASK,
    failed=Response.REQUEUE,
    backoff_first=0.001,
)


@pytest.mark.parametrize("reason", CAUSES)
def test_why_its_room_was_taken_decides_what_follows(world, reason):
    """A lost room is never made good by one task alone, whatever the policy says of a lost node."""
    group = queued_gang(world, policy=AGAIN)
    admit(world, "n-1", "n-2")
    world.settle()
    evict_workload(world, reason, "words of Kueue")
    world.settle()
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.evidence, attempt.status) == CAUSES[reason]
    assert f"{reason}: words of Kueue" in attempt.message
    assert (fresh(group).attempt_number, world.pods()) == (2, [])


@pytest.mark.parametrize("reason", CAUSES)
def test_a_group_ends_by_the_cause_where_its_policy_says_so(world, reason):
    group = queued_gang(world, policy=RecoveryPolicy())
    admit(world, "n-1", "n-2")
    world.settle()
    evict_workload(world, reason)
    world.settle()
    assert (fresh(group).status, world.cluster.all(WORKLOAD)) == (CAUSES[reason][2], [])


def finished(status):
    return {**status, "conditions": [*status["conditions"], condition("Finished", reason="Failed")]}


def unadmitted(status):
    return {"conditions": [condition("QuotaReserved", "False"), condition("Admitted", "False")]}


@pytest.mark.parametrize("edit", [finished, unadmitted])
def test_a_running_gang_that_its_scheduler_counts_no_more_gives_its_nodes_up(world, edit):
    """Somebody edited the status of its Workload, so Kueue may admit others to its nodes."""
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    write_status(world, edit(workload(world)["status"]))
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(hours=1))
    world.settle()
    assert (fresh(group).attempt_number, world.pods()) == (2, [])
    (attempt,) = Attempt.objects.filter(group=group)
    assert attempt.loss == "preempted"


def test_a_workload_that_has_finished_before_there_are_pods_is_made_again(world):
    """Kueue never looks at it again."""
    queued_gang(world)
    before = workload(world)["metadata"]["uid"]
    admit(world, "n-1", "n-2")
    write_status(world, finished(workload(world)["status"]))
    world.settle()
    assert (workload(world)["metadata"]["uid"] != before, world.pods()) == (True, [])


def test_a_row_that_does_not_show_the_admission_yet_ends_no_gang(world):
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    ObservedObject.objects.filter(kind=POD_GROUP).update(digest={})
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(hours=1))
    world.reconcile(group)
    assert (fresh(group).attempt_number, statuses(group)) == (1, ["RUNNING"] * 2)


def test_an_exit_action_tries_no_task_again_in_room_that_was_taken_back(world):
    group = queued_gang(world, pods=1, default_exit_actions={"RESCHEDULE": "3006"}, max_retry_per_task=3)
    admit(world, "n-1")
    world.settle()
    evict_workload(world)
    world.settle()
    assert fresh(group).attempt_number == 2


@pytest.mark.parametrize("with_pods", [True, False])
def test_a_workload_that_is_switched_off_stays_so_in_the_next_attempt(world, with_pods):
    """An attempt that asked for room again would undo what an administrator did."""
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    if with_pods:
        world.settle()
    evict_workload(world, "Deactivated", "The workload is deactivated")
    world.settle()
    assert (fresh(group).attempt_number, world.pods()) == (2, [])
    assert workload(world)["spec"]["active"] is False
    write_status(world, {"conditions": [condition("Evicted", reason="Deactivated", message="off")]})
    before = workload(world)["metadata"]["uid"]
    world.settle()
    assert workload(world)["metadata"]["uid"] == before
    reason = fresh(group).waiting_reason
    assert f"Its Workload {workload(world)['metadata']['name']} is switched off (Deactivated)" in reason
    assert "until somebody sets spec.active" in reason
    admit(world, "n-3", "n-4")
    world.settle()
    assert (statuses(group), hosts()) == (["RUNNING"] * 2, ["n-3", "n-4"])


def test_a_workload_that_is_switched_off_while_it_waits_is_left_alone(world):
    group = queued_gang(world)
    before = workload(world)["metadata"]["uid"]
    evict_workload(world, "Deactivated", "The workload is deactivated")
    world.settle()
    assert (workload(world)["metadata"]["uid"], fresh(group).attempt_number) == (before, 1)
    calls = len(world.cluster.calls)
    world.reconcile(group)
    assert world.cluster.calls[calls:] == []


def test_a_loss_after_it_was_switched_on_again_asks_for_room_at_once(world):
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    evict_workload(world, "Deactivated")
    world.settle()
    admit(world, "n-1", "n-2")
    world.settle()
    evict_workload(world)
    world.settle()
    assert fresh(group).attempt_number == 3
    assert workload(world)["spec"].get("active", True) is True


def test_room_that_is_lost_before_there_are_pods_does_not_switch_it_off_again(world):
    """Somebody switched it on, so the next attempt must not wait for that once more."""
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    evict_workload(world, "Deactivated")
    world.settle()
    assert workload(world)["spec"]["active"] is False
    admit(world, "n-1", "n-2")
    evict_workload(world)
    world.settle()
    assert workload(world)["spec"].get("active", True) is True
    assert fresh(group).attempt_number == 3


def ready(world):
    conditions = (workload(world).get("status") or {}).get("conditions", ())
    return [c["status"] for c in conditions if c["type"] == "PodsReady"]


def test_a_gang_is_called_ready_once_all_its_pods_run(world):
    """Kueue's waitForPodsReady evicts a gang that nobody calls ready."""
    group = queued_gang(world)
    world.cluster.players[:] = [player for player in world.cluster.players if player != players.kubelet]
    admit(world, "n-1", "n-2")
    world.settle()
    assert (set(statuses(group)) <= {"SCHEDULING", "INITIALIZING"}, ready(world)) == (True, [])
    world.cluster.players.append(players.kubelet)
    world.cluster.get(NODE, "n-1")  # players act after a call
    world.settle()
    assert (statuses(group), ready(world)) == (["RUNNING"] * 2, ["True"])
    kinds = [c["type"] for c in workload(world)["status"]["conditions"]]
    assert kinds == ["QuotaReserved", "Admitted", "PodsReady"]


@pytest.mark.parametrize(("type_", "due"), [("PodsReady", 0), ("Admitted", 1)])
def test_a_condition_that_the_service_writes_itself_makes_no_group_due(world, type_, due):
    group = queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    before = fresh(group).notifications
    status = workload(world)["status"]
    again = {"message": "Written again."}
    conditions = [c | again if c["type"] == type_ else c for c in status["conditions"]]
    write_status(world, {**status, "conditions": conditions})
    world.observe()
    assert "Written again." in str(ObservedObject.objects.get(kind=POD_GROUP).digest)
    assert fresh(group).notifications - before == due


def test_a_gang_that_somebody_calls_unready_is_called_ready_again(world):
    queued_gang(world)
    admit(world, "n-1", "n-2")
    world.settle()
    status = workload(world)["status"]
    conditions = [c | {"status": "False"} if c["type"] == "PodsReady" else c for c in status["conditions"]]
    write_status(world, {**status, "conditions": conditions})
    world.settle()
    assert ready(world) == ["True"]


def test_a_worker_that_may_not_call_it_ready_says_so_once_and_the_gang_runs(world):
    group = queued_gang(world)
    world.cluster.fail(RequestForbidden("no status for you"), verb="patch", kind=WORKLOAD, times=9)
    admit(world, "n-1", "n-2")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2
    (event,) = Event.objects.filter(reason="ReadyForbidden")
    assert "no status for you" in event.message
