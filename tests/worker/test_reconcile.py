"""A task group from its creation to its release."""

from datetime import timedelta

import pytest
from django.db import DataError
from django.db.models import Q
from django.utils import timezone

from cluster.clock import boot_seconds
from cluster.errors import ClusterUnreachable, Invalid, NotServed, RequestForbidden
from cluster.kinds import COMPUTE_DOMAIN, EVENT, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from pools.conditions import status_of
from pools.models import Cluster
from tests.builders.gangs import retried
from tests.factories import LEVELS
from tests.fakes import players
from tests.fakes.kinds import KAI_POD_GROUP
from tests.worker.world import World, chain, fresh, statuses, workflow_of
from workflows.models import Event, ObservedPod, Task, TaskGroup
from workflows.reconcile.assess import unforeseen
from workflows.reconcile.observe import observations
from workflows.reconcile.view.outcomes import RequeueAfter
from workflows.services.stop import cancel_workflow, request_stop
from workflows.values.observation import PINS_ANNOTATION


def stop(group, *, force=False):
    request_stop(Q(pk=group.pk), status="FAILED_CANCELED", message="Cancelled by ann.", force=force)


def released(group):
    row = fresh(group)
    return row.released_at is not None and status_of(row.conditions, "Released") == "True"


def test_a_group_of_an_nvlink_pool_gets_all_its_objects_and_runs(world):
    group = world.group(pods=4)
    world.settle()
    assert world.cluster.kinds() == {"ComputeDomain", "ResourceClaimTemplate", "PodGroup", "Service", "Pod"}
    assert statuses(group) == ["RUNNING"] * 4
    assert (fresh(group).status, workflow_of(group).status) == ("RUNNING", "RUNNING")


def test_stopped_group_leaves_nothing_in_the_cluster(world):
    """Nothing is desired after a stop; returning early on that would leak the ComputeDomain."""
    group = world.group(pods=4)
    world.settle()
    stop(group)
    world.settle()
    assert world.cluster.objects == {}
    assert world.cluster.deleted_before("Pod", "ComputeDomain")
    assert world.cluster.deleted_before("Pod", "PodGroup")
    assert (fresh(group).status, released(group)) == ("FAILED_CANCELED", True)
    assert workflow_of(group).status == "FAILED_CANCELED"


def test_a_group_that_completes_is_taken_down(world):
    group = world.group(pods=2)
    world.settle()
    world.finish(group)
    world.settle()
    assert statuses(group) == ["COMPLETED", "COMPLETED"]
    assert (fresh(group).status, workflow_of(group).status) == ("COMPLETED", "COMPLETED")
    assert world.cluster.objects == {}
    assert released(group)


def test_pods_wait_for_the_claim_template(world):
    controller = world.cluster.players.pop()
    group = world.group(pods=2)
    world.settle()
    assert world.cluster.kinds() == {"ComputeDomain"}
    assert fresh(group).waiting_why == ""  # most come sooner than a person looks
    TaskGroup.objects.filter(pk=group.pk).update(touched_at=timezone.now() - timedelta(seconds=2))
    world.reconcile(group)
    assert "claim template" in fresh(group).waiting_reason
    world.cluster.players.append(controller)
    world.cluster._play()
    world.settle()
    assert len(world.pods()) == 2


def test_a_reason_of_before_does_not_stay_while_a_claim_template_is_waited_for(world):
    world.cluster.players.pop()
    group = world.group(pods=2)
    group.waiting_why, group.waiting_reason = "cluster", "The cluster does not answer."
    group.save()
    world.settle()
    assert "claim template" in fresh(group).waiting_reason


def test_a_group_that_waits_long_for_its_template_looks_seldom_and_is_notified(world):
    """NVIDIA's controller makes two templates a second: a burst must not fill the worker with reconciles."""
    controller = world.cluster.players.pop()
    group = world.group(pods=2)
    world.settle()
    long_ago = timezone.now() - timedelta(seconds=600)
    TaskGroup.objects.filter(pk=group.pk).update(
        processing_start_time=long_ago, attempt_began_at=long_ago, touched_at=long_ago
    )
    world.observe()
    assert world.reconcile(group) == RequeueAfter(seconds=60.0)
    assert fresh(group).next_reconcile_at > timezone.now()
    world.cluster.players.append(controller)
    world.cluster._play()
    world.observe()
    assert fresh(group).next_reconcile_at <= timezone.now()


def test_a_group_whose_domain_hangs_in_deletion_looks_seldom_and_is_notified(world):
    group = world.group(pods=2)
    world.settle()
    controller = world.cluster.players.pop()
    request_stop(Q(pk=group.pk), status="FAILED_CANCELED", message="Cancelled by ann.", force=False)
    for _ in range(3):
        world.step(group)
    assert world.cluster.kinds() == {"ComputeDomain", "ResourceClaimTemplate"}
    TaskGroup.objects.filter(pk=group.pk).update(end_time=timezone.now() - timedelta(seconds=100))
    outcome = world.reconcile(group)
    assert 19 < outcome.seconds < 25
    assert fresh(group).next_reconcile_at > timezone.now()
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    assert world.reconcile(group) == RequeueAfter(seconds=3.0)
    Cluster.objects.update(heartbeat_at=timezone.now())
    assert world.reconcile(group).seconds > 19
    world.cluster.players.append(controller)
    world.cluster._play()
    world.observe()
    assert fresh(group).next_reconcile_at <= timezone.now()
    world.settle()
    assert released(group)


def test_a_template_of_a_former_domain_is_not_taken_for_ours(world):
    controller = world.cluster.players.pop()
    group = world.group(pods=1)
    world.reconcile(group)
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    name = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    labels = {"resource.nvidia.com/computeDomain": "another-uid"}
    world.cluster.put(
        RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": name, "namespace": "osmo", "labels": labels}}
    )
    world.reconcile(group)
    assert world.pods() == []
    assert controller is not None


def test_a_template_of_somebody_elses_does_not_hold_up_the_release(world):
    """It bears the name of ours, but no ComputeDomain made it, so nothing will ever take it away."""
    world.cluster.players.pop()
    group = world.group(pods=1)
    world.reconcile(group)
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    name = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    foreign = {"metadata": {"name": name, "namespace": "osmo"}}
    world.cluster.put(RESOURCE_CLAIM_TEMPLATE, foreign)
    stop(group)
    world.settle()
    assert world.cluster.kinds() == {"ResourceClaimTemplate"}
    assert released(group)


def test_a_waiting_group_that_is_stopped_is_released_without_a_call(world):
    first, second = chain(world)
    stop(second)
    before = len(world.cluster.calls)
    world.reconcile(second)
    assert released(second)
    assert len(world.cluster.calls) == before
    assert fresh(first).status == "PROCESSING"


def test_downstream_groups_start_when_their_upstream_has_completed(world):
    first, second = chain(world)
    world.settle()
    assert fresh(second).status == "WAITING"
    assert fresh(second).waiting_reason == 'It starts when group "group-0" has completed.'
    world.finish(first)
    world.settle()
    assert (fresh(first).status, fresh(second).status) == ("COMPLETED", "RUNNING")
    world.finish(second)
    world.settle()
    assert workflow_of(first).status == "COMPLETED"


def test_downstream_groups_of_a_failed_one_never_start(world):
    first, second = chain(world)
    world.settle()
    world.finish(first, 3)
    world.settle()
    assert (fresh(first).status, fresh(second).status) == ("FAILED", "FAILED_UPSTREAM")
    assert list(second.tasks.values_list("exit_code", flat=True)) == [3000]
    assert workflow_of(first).status == "FAILED"
    assert released(second)
    assert world.cluster.objects == {}


def test_the_lead_ends_its_siblings(world):
    group = world.group(pods=3)
    world.settle()
    world.finish(group, tasks=["task-0"])
    world.settle()
    assert statuses(group) == ["COMPLETED"] * 3
    assert world.cluster.objects == {}


def test_a_sibling_that_fails_is_ignored_and_kept_until_the_group_ends(world):
    group = world.group(pods=3)
    world.settle()
    world.finish(group, 1, tasks=["task-1"])
    world.settle()
    assert statuses(group) == ["RUNNING", "FAILED", "RUNNING"]
    assert fresh(group).status == "RUNNING"
    assert len(world.pods()) == 3
    (pod_group,) = world.cluster.all(KAI_POD_GROUP)
    assert pod_group["spec"]["minMember"] == 2


def test_a_sibling_that_fails_ends_the_group_that_does_not_ignore_it(world):
    group = world.group(pods=3, ignore_nonlead_status=False)
    world.settle()
    world.finish(group, 7, tasks=["task-1"])
    world.settle()
    assert fresh(group).status == "FAILED"
    assert "task-1" in fresh(group).failure_message
    assert list(group.tasks.order_by("position").values_list("exit_code", flat=True)) == [None, 7, None]
    assert world.cluster.objects == {}


RESCHEDULE = retried("1-3")


def test_a_task_is_tried_again_with_the_same_place_in_its_gang(world):
    group = world.group(pods=2, frozen=RESCHEDULE)
    world.settle()
    before = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}
    old = group.tasks.get(name="task-1").pod_name
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    tries = list(group.tasks.filter(name="task-1").order_by("retry_id").values_list("status", "exit_code"))
    assert tries == [("RESCHEDULED", 2), ("RUNNING", None)]
    new = group.tasks.get(name="task-1", latest=True).pod_name
    after = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}
    assert old not in after
    assert after[new]["spec"]["hostname"] == before[old]["spec"]["hostname"]
    place = before[old]["metadata"]["annotations"]
    assert after[new]["metadata"]["annotations"] == {**place, PINS_ANNOTATION: "{}"}
    assert fresh(group).status == "RUNNING"


def test_a_retry_keeps_its_sub_group_and_claims_from_the_same_domain(world):
    group = world.group(pods=4, pool=world.pool(nvlink=True, levels=LEVELS), frozen=RESCHEDULE)
    for task in group.tasks.order_by("position"):
        rack = {"key": "rack", "group": f"r{task.position // 2}", "required": True}
        task.spec = {**task.spec, "requirements": [rack], "claims_channel": True}
        task.save()
    world.settle()
    before = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}
    old = before[group.tasks.get(name="task-2").pod_name]
    world.finish(group, 3, tasks=["task-2"])
    world.settle()
    after = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}
    new = after[group.tasks.get(name="task-2", latest=True).pod_name]
    subgroup = "kai.scheduler/subgroup-name"
    assert old["metadata"]["labels"][subgroup]
    assert new["metadata"]["labels"][subgroup] == old["metadata"]["labels"][subgroup]
    assert old["spec"]["resourceClaims"]
    assert new["spec"]["resourceClaims"] == old["spec"]["resourceClaims"]
    assert len(world.cluster.all(COMPUTE_DOMAIN)) == 1


ACTIONS = {
    "COMPLETE makes a failure good": ({"COMPLETE": "5-7,9"}, 9, "COMPLETED"),
    "FAIL makes a success bad": ({"FAIL": "0"}, 0, "FAILED"),
    "RESCHEDULE without tries left fails": ({"RESCHEDULE": "9"}, 9, "FAILED"),
    "a code that no range holds stays as it is": ({"COMPLETE": "5-7,9"}, 8, "FAILED"),
}


@pytest.mark.parametrize("whose", ["task", "pool"])
@pytest.mark.parametrize(("actions", "code", "want"), ACTIONS.values(), ids=ACTIONS)
def test_an_exit_code_ends_its_task_as_the_actions_say(world, whose, actions, code, want):
    group = world.group(pods=1, frozen={"default_exit_actions": actions} if whose == "pool" else {})
    if whose == "task":
        task = group.tasks.get()
        task.spec = {**task.spec, "exit_actions": actions}
        task.save()
    world.settle()
    world.finish(group, code)
    world.settle()
    assert (statuses(group), fresh(group).status) == ([want], want)
    assert group.tasks.get().exit_code == code


def test_a_task_is_tried_again_no_more_often_than_allowed(world):
    group = world.group(pods=1, frozen=RESCHEDULE)
    world.settle()
    for _ in range(2):
        world.finish(group, 2)
        world.settle()
    assert list(group.tasks.order_by("retry_id").values_list("status", flat=True)) == [
        "RESCHEDULED",
        "FAILED",
    ]
    assert fresh(group).status == "FAILED"
    assert world.cluster.objects == {}


def test_on_a_scheduler_with_fixed_pod_groups_a_retry_after_its_peers_finished_gets_a_new_one(world):
    pool = world.pool(backend={"scheduler_type": "kubernetes", "scheduler_name": "default-scheduler"})
    group = world.group(pods=3, pool=pool, frozen=RESCHEDULE, ignore_nonlead_status=False)
    Task.objects.filter(group=group, name="task-0").update(lead=False)
    world.settle()
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(minutes=1))
    world.finish(group, 0, tasks=["task-0", "task-2"])
    world.settle()
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    again = group.tasks.get(name="task-1", latest=True)
    (pod,) = [p for p in world.cluster.all(POD) if p["metadata"]["name"] == again.pod_name]
    assert pod["spec"]["schedulingGroup"]["podGroupName"] == f"{group.uuid.hex}-1"
    sizes = {
        g["metadata"]["name"]: g["spec"]["schedulingPolicy"]["gang"]["minCount"]
        for g in world.cluster.objects.values()
        if g["kind"] == "PodGroup"
    }
    assert sizes == {f"{group.uuid.hex}-0": 3, f"{group.uuid.hex}-1": 1}
    assert not Event.objects.filter(reason="PodGroupMadeAgain").exists()
    world.finish(group, 0, tasks=["task-1"])
    world.settle()
    assert fresh(group).status == "COMPLETED"
    assert world.cluster.objects == {}


def test_a_group_that_is_not_placed_in_time_ends(db):
    world = World(scheduled=False)
    group = world.group(pods=2, frozen={"queue_timeout": 0.0})
    world.settle()
    assert fresh(group).status == "FAILED_QUEUE_TIMEOUT"
    assert workflow_of(group).status == "FAILED_QUEUE_TIMEOUT"
    assert world.cluster.objects == {}


def test_a_group_that_runs_too_long_ends(world):
    group = world.group(pods=2, frozen={"exec_timeout": 0.0})
    world.settle()
    assert fresh(group).status == "FAILED_EXEC_TIMEOUT"
    assert statuses(group) == ["FAILED_EXEC_TIMEOUT"] * 2
    assert world.cluster.objects == {}


def test_a_pod_that_somebody_deletes_ends_its_task(world):
    group = world.group(pods=1)
    world.settle()
    world.cluster.remove(POD, group.tasks.get().pod_name, namespace="osmo")
    world.observe()

    ObservedPod.objects.update(seen_at=timezone.now() - timedelta(seconds=5))
    world.settle()
    assert statuses(group) == ["FAILED_BACKEND_ERROR"]
    assert fresh(group).status == "FAILED_BACKEND_ERROR"
    assert group.tasks.get().exit_code == 3001


def test_the_schedulers_reason_for_evicting_is_told(world):
    group = world.group(pods=1)
    world.settle()
    world.cluster.put(
        EVENT,
        {
            "metadata": {"name": "e", "namespace": "osmo", "annotations": {"evictor-action-type": "reclaim"}},
            "involvedObject": {"kind": "PodGroup", "name": group.uuid.hex, "namespace": "osmo"},
            "reason": "Evict",
            "message": "for a fairer share",
            "type": "Normal",
        },
    )
    world.cluster.remove(POD, group.tasks.get().pod_name, namespace="osmo")
    world.settle()
    assert fresh(group).status == "FAILED_PREEMPTED"
    assert "fairer share (action: reclaim)" in group.tasks.get().failure_message


def test_an_object_that_the_cluster_refuses_for_good_ends_the_group_and_is_cleaned_up(world):
    group = world.group(pods=2)
    world.cluster.fail(Invalid("spec.x is not valid", status=422), verb="create", kind=POD)
    world.settle()
    assert fresh(group).status == "FAILED_BACKEND_ERROR"
    assert "spec.x is not valid" in fresh(group).failure_message
    assert world.cluster.objects == {}


def test_a_quota_is_waited_for_and_told(world):
    group = world.group(pods=2)
    world.cluster.fail(RequestForbidden("exceeded quota", status=403), verb="create", kind=POD, times=50)
    world.reconcile(group)
    assert fresh(group).status == "PROCESSING"
    assert "exceeded quota" in fresh(group).waiting_reason
    assert fresh(group).failures == 1


def test_a_gang_that_cannot_be_completed_is_taken_down_at_its_queue_timeout(world):
    """It ends as one that found no room."""
    group = world.group(pods=3, frozen={"queue_timeout": 600.0})
    world.cluster.fail(
        RequestForbidden("exceeded quota: pods"), verb="create", kind=POD, after=1, times=10**6
    )
    world.step()
    assert (fresh(group).status, len(world.pods())) == ("PROCESSING", 1)
    TaskGroup.objects.filter(pk=group.pk).update(touched_at=timezone.now() - timedelta(seconds=601))
    world.settle()
    row = fresh(group)
    assert (row.status, row.released_at is not None) == ("FAILED_QUEUE_TIMEOUT", True)
    assert "exceeded quota" in row.failure_message
    assert world.cluster.objects == {}


def test_a_group_is_released_only_when_its_pod_group_is_gone(world):
    """Its deletion is answered while a finalizer still holds it."""
    group = world.group(pods=2, pool=world.pool(nvlink=False))
    world.settle()
    (name,) = world.cluster.names(KAI_POD_GROUP)
    held = {"finalizers": ["example.com/held"]}
    world.cluster.edit(KAI_POD_GROUP, name, lambda obj: obj["metadata"].update(held), namespace="osmo")
    world.finish(group)
    for _ in range(6):
        world.step()
    assert (world.cluster.kinds(), released(group)) == ({"PodGroup"}, False)
    world.cluster.remove(KAI_POD_GROUP, name, namespace="osmo")
    world.settle()
    assert released(group)


def test_a_group_is_released_only_when_a_pod_group_that_a_late_create_made_again_is_gone(world, monkeypatch):
    """A worker without its lease creates it after the list that the teardown plans from."""
    group = world.group(pods=2, pool=world.pool(nvlink=False))
    world.settle()
    (listed,) = world.cluster.all(KAI_POD_GROUP)
    late = [{**listed, "metadata": {**listed["metadata"], "uid": "made-late"}}]
    delete = world.cluster.delete

    def delete_after_the_create(kind, name, **more):
        if kind == KAI_POD_GROUP and late:
            world.cluster.remove(kind, name, namespace="osmo")
            world.cluster.put(kind, late.pop())
        return delete(kind, name, **more)

    monkeypatch.setattr(world.cluster, "delete", delete_after_the_create)
    world.finish(group)
    world.settle()
    assert (world.cluster.kinds(), released(group), late) == (set(), True, [])


def test_claims_are_read_by_name_and_their_namespace_is_not_listed(world):
    group = world.group(pods=2)
    for task in group.tasks.all():
        task.spec = {**task.spec, "claims_channel": True}
        task.save()
    world.settle()
    for pod in world.cluster.all(POD):
        name = pod["metadata"]["name"]
        claims = [{"name": "channel", "resourceClaimName": f"{name}-channel-x"}]
        world.cluster.put(POD, pod | {"status": pod["status"] | {"resourceClaimStatuses": claims}})
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "gone", "controller": True}
        held = {"name": f"{name}-channel-x", "namespace": "osmo", "ownerReferences": [owner]}
        world.cluster.put(RESOURCE_CLAIM, {"metadata": held})
    world.observe()
    world.cluster.calls.clear()
    world.finish(group)
    for _ in range(6):
        world.step()
    assert fresh(group).released_at is None
    for name in world.cluster.names(RESOURCE_CLAIM):
        world.cluster.remove(RESOURCE_CLAIM, name, namespace="osmo")
    world.settle()
    assert fresh(group).released_at is not None
    assert {call.verb for call in world.cluster.calls if call.kind == RESOURCE_CLAIM} == {"get"}


def test_a_missing_right_is_not_a_missing_definition(world):
    group = world.group(pods=2)
    refusal = RequestForbidden('computedomains.resource.nvidia.com is forbidden: cannot get "computedomains"')
    world.cluster.fail(refusal, kind=COMPUTE_DOMAIN)
    world.reconcile(group)
    assert "not serve" not in fresh(group).waiting_reason
    assert "cannot get" in fresh(group).waiting_reason


def test_a_worker_that_slept_within_its_creates_makes_no_pod_after_its_lease(world, monkeypatch):
    """Meanwhile the group was cancelled, taken down and released by another worker."""
    group = world.group(pods=600)
    slept = [0.0]
    monkeypatch.setattr("tests.fakes.cluster.boot_seconds", lambda: boot_seconds() + slept[0])
    monkeypatch.setattr("workflows.reconcile.view.leased.boot_seconds", lambda: boot_seconds() + slept[0])
    create = world.cluster.create_many

    def suspended(kind, objs, *, deadline):
        monkeypatch.setattr(world.cluster, "create_many", create)
        outcomes = list(create(kind, objs[:10], deadline=deadline))
        slept[0] = 60.0
        TaskGroup.objects.filter(pk=group.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
        cancel_workflow(group.workflow, by="ann", message="", force=True)
        world.settle()
        assert (fresh(group).released_at is not None, world.pods()) == (True, [])
        return [*outcomes, *create(kind, objs[10:], deadline=deadline)]

    monkeypatch.setattr(world.cluster, "create_many", suspended)
    world.reconcile(group)
    world.reconcile(group)
    assert slept == [60.0]
    assert world.pods() == []


def test_a_missing_definition_is_told_and_asked_for_slowly(world):
    group = world.group(pods=2)
    world.cluster.unserved.add(COMPUTE_DOMAIN)
    outcome = world.reconcile(group)
    assert outcome.slow
    assert "does not serve ComputeDomain" in fresh(group).waiting_reason
    world.cluster.unserved.clear()
    world.settle()
    assert fresh(group).status == "RUNNING"


def test_a_group_ends_while_the_definition_of_its_domain_is_gone(world):
    group = world.group(pods=1)
    world.settle()
    (domain,) = world.cluster.names(COMPUTE_DOMAIN)
    world.cluster.remove(COMPUTE_DOMAIN, domain, namespace="osmo")
    world.cluster.remove(
        RESOURCE_CLAIM_TEMPLATE, world.cluster.names(RESOURCE_CLAIM_TEMPLATE)[0], namespace="osmo"
    )
    world.cluster.players = world.cluster.players[:-1]
    world.cluster.unserved.add(COMPUTE_DOMAIN)
    stop(group)
    world.settle()
    assert released(group)


def test_a_cluster_that_does_not_answer_is_told_and_gone_on_with(world):
    group = world.group(pods=2)
    with world.cluster.unreachable():
        world.reconcile(group)
        assert 'backend "backend-' in fresh(group).waiting_reason
        assert "has not answered since" in fresh(group).waiting_reason
    world.settle()
    assert fresh(group).status == "RUNNING"


def test_a_domain_that_does_not_go_is_waited_for_and_shown(world):
    group = world.group(pods=1)
    world.settle()
    world.cluster.players.remove(world.cluster.players[-1])  # its controller is gone
    stop(group)
    world.settle()
    assert not released(group)
    assert fresh(group).status == "FAILED_CANCELED"

    row = fresh(group)
    row.end_time -= timedelta(seconds=200)
    row.save(update_fields=["end_time"])
    world.reconcile(group)
    assert status_of(fresh(group).conditions, "ReleaseStuck") == "True"
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    assert domain["metadata"]["finalizers"]  # never stripped
    assert "ComputeDomain" in str(fresh(group).conditions)

    world.cluster.players.append(players.compute_domain_controller)
    world.settle()
    assert released(group)
    assert status_of(fresh(group).conditions, "ReleaseStuck") == "False"


def test_a_group_that_cannot_be_taken_down_since_its_cluster_is_away_says_so(world):
    group = world.group(pods=1)
    world.settle()
    stop(group)
    with world.cluster.unreachable():
        world.reconcile(group)
        assert status_of(fresh(group).conditions, "ReleaseStuck") is None
        TaskGroup.objects.filter(pk=group.pk).update(end_time=timezone.now() - timedelta(seconds=200))
        world.reconcile(group)
    assert status_of(fresh(group).conditions, "ReleaseStuck") == "True"
    assert "does not answer" in str(fresh(group).conditions)
    world.settle()
    assert released(group)


def test_a_pod_group_that_somebody_deletes_of_a_waiting_gang_is_made_again(db):
    world = World(scheduled=False)
    group = world.group(pods=2)
    world.settle()
    world.cluster.remove(KAI_POD_GROUP, group.uuid.hex, namespace="osmo")
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    assert world.cluster.names(KAI_POD_GROUP) == [group.uuid.hex]
    assert fresh(group).status == "SCHEDULING"


def test_a_pod_group_that_somebody_deletes_is_made_again_for_a_task_that_waits_to_be_tried_again(db):
    """KAI counts running pods at once; without a pod group the task would wait until its gang ends."""
    world = World()
    again = retried("2")
    group = world.group(pods=3, frozen=again)
    world.settle()
    world.cluster.players.pop(0)  # nothing is placed any more
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    world.cluster.remove(KAI_POD_GROUP, group.uuid.hex, namespace="osmo")
    world.settle()
    assert world.cluster.names(KAI_POD_GROUP) == []  # it might only not be observed yet
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    (pod_group,) = world.cluster.all(KAI_POD_GROUP)
    assert pod_group["spec"]["minMember"] == 2
    assert Event.objects.filter(reason="PodGroupMadeAgain").count() == 1

    pod = Task.objects.get(group=group, name="task-1", latest=True).pod_name
    world.cluster.edit(POD, pod, lambda obj: obj["spec"].update(nodeName="node-0"), namespace="osmo")
    world.settle()
    assert (statuses(group), len(world.cluster.names(KAI_POD_GROUP))) == (["RUNNING"] * 3, 1)


def test_a_pod_group_that_somebody_deletes_is_made_again_for_a_pod_whose_peers_were_placed_first(db):
    """A scheduler binds pod by pod: one may still be without a node when another one's work is done."""
    world = World(scheduled=False)
    group = world.group(pods=2)
    world.settle()
    first, last = [task.pod_name for task in group.tasks.order_by("position")]
    world.cluster.edit(POD, first, lambda obj: obj["spec"].update(nodeName="node-0"), namespace="osmo")
    world.settle()
    world.cluster.remove(KAI_POD_GROUP, group.uuid.hex, namespace="osmo")
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    assert world.cluster.names(KAI_POD_GROUP) == [group.uuid.hex]
    world.cluster.edit(POD, last, lambda obj: obj["spec"].update(nodeName="node-1"), namespace="osmo")
    world.settle()
    assert (statuses(group), len(world.cluster.names(KAI_POD_GROUP))) == (["RUNNING"] * 2, 1)


def test_a_pod_that_vanished_while_nobody_looked_says_what_the_scheduler_may_have_done(world):
    group = world.group(pods=2)
    world.settle()
    now, hour = timezone.now(), timedelta(hours=1)
    Cluster.objects.filter(pk=world.uid).update(heartbeat_at=now - hour)
    for pod in world.pods():
        world.cluster.remove(POD, pod, namespace="osmo")
    world.observe()
    cluster = Cluster.objects.get(pk=world.uid)
    assert cluster.unobserved_from == now - hour
    assert cluster.unobserved_until >= now

    a_moment_ago = now - timedelta(seconds=20)
    Cluster.objects.filter(pk=world.uid).update(unobserved_until=a_moment_ago)
    ObservedPod.objects.update(seen_at=a_moment_ago)
    world.settle()
    assert "The service did not follow the cluster from" in fresh(group).failure_message
    assert "Its scheduler may have evicted the gang meanwhile" in fresh(group).failure_message
    assert Cluster.objects.get(pk=world.uid).unobserved_until == a_moment_ago


def lose(world, group, *names, seconds=60):
    """Somebody deletes pods and whatever else is named, long ago as far as the rows know."""
    for name in names:
        kind = KAI_POD_GROUP if name == group.uuid.hex else POD
        world.cluster.remove(kind, name, namespace="osmo")
    world.observe()
    long_ago = timezone.now() - timedelta(seconds=seconds)
    ObservedPod.objects.filter(name__in=names).update(seen_at=long_ago)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=long_ago)


def test_a_pod_that_has_run_is_not_made_again_by_rows_from_an_old_list(db):
    """Both pods got a node and one went; a list of before they existed says that both are gone."""
    world = World(scheduled=False)
    group = world.group(pods=2)
    world.settle()
    running, ended = (Task.objects.get(group=group, position=position).pod_name for position in (0, 1))
    pod = next(pod for pod in world.cluster.all(POD) if pod["metadata"]["name"] == running)
    world.cluster.put(POD, {**pod, "spec": {**pod["spec"], "nodeName": "node-1"}})
    world.cluster.remove(POD, ended, namespace="osmo")
    long_ago = timezone.now() - timedelta(minutes=1)
    ObservedPod.objects.filter(name__in=[running, ended]).update(absent=True, seen_at=long_ago)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=long_ago)
    world.reconcile(group)
    assert world.pods() == [running]


@pytest.mark.parametrize("nvlink", [False, True])
def test_a_gang_that_loses_a_pod_and_its_pod_group_while_it_waits_is_made_whole_again(db, nvlink):
    world = World(scheduled=False)
    group = world.group(pods=3, pool=world.pool(nvlink=nvlink))
    world.settle()
    name = Task.objects.get(group=group, position=2).pod_name
    before = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}[name]
    lose(world, group, name, group.uuid.hex)
    world.settle()
    assert statuses(group) == ["SCHEDULING"] * 3
    assert (len(world.pods()), fresh(group).status) == (3, "SCHEDULING")
    (pod_group,) = world.cluster.all(KAI_POD_GROUP)
    assert pod_group["spec"]["minMember"] == 3
    after = {pod["metadata"]["name"]: pod for pod in world.cluster.all(POD)}[name]
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
    assert Event.objects.filter(reason="PodsMadeAgain", message__contains="task-2").count() == 1


def test_a_gang_that_waits_is_reconciled_again_once_what_is_missing_can_be_told(db):
    world = World(scheduled=False)
    group = world.group(pods=2)
    world.settle()
    world.observe()
    assert 5 < world.reconcile(group).seconds <= 10
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(minutes=1))
    assert world.reconcile(group).seconds > 60


def test_a_pod_that_vanishes_beside_placed_ones_is_not_made_again(db):
    """It may have run; and a gang that has places counts without it."""
    world = World(scheduled=False)
    group = world.group(pods=3)
    world.settle()
    first, _, last = [task.pod_name for task in group.tasks.order_by("position")]
    world.cluster.edit(POD, first, lambda obj: obj["spec"].update(nodeName="node-0"), namespace="osmo")
    lose(world, group, last)
    world.settle()
    assert statuses(group) == ["RUNNING", "SCHEDULING", "FAILED_BACKEND_ERROR"]


def test_a_domain_that_somebody_deletes_of_a_waiting_gang_is_made_again(db):
    """Without it there is no template for the pods' claims, and claims made before name the former one."""
    world = World(scheduled=False)
    group = world.group(pods=2)
    world.settle()
    (before,) = world.cluster.all(COMPUTE_DOMAIN)
    pods = {pod["metadata"]["uid"] for pod in world.cluster.all(POD)}
    world.cluster.delete(COMPUTE_DOMAIN, before["metadata"]["name"], uid=None, namespace="osmo")
    assert world.cluster.names(COMPUTE_DOMAIN) == world.cluster.names(RESOURCE_CLAIM_TEMPLATE) == []
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    (after,) = world.cluster.all(COMPUTE_DOMAIN)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert len(world.cluster.names(RESOURCE_CLAIM_TEMPLATE)) == 1
    ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    again = {pod["metadata"]["uid"] for pod in world.cluster.all(POD)}
    assert (len(again), again & pods, statuses(group)) == (2, set(), ["SCHEDULING"] * 2)


def test_a_pod_group_that_somebody_deletes_of_a_running_gang_is_made_again(world):
    """Its scheduler evicts the gang as a whole by it, or not at all."""
    group = world.group(pods=2)
    world.settle()
    world.cluster.remove(KAI_POD_GROUP, group.uuid.hex, namespace="osmo")
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    assert (statuses(group), world.cluster.names(KAI_POD_GROUP)) == (["RUNNING"] * 2, [group.uuid.hex])
    (event,) = Event.objects.filter(reason="PodGroupMadeAgain")
    assert f"PodGroup {group.uuid.hex}" in event.message


def test_a_pod_group_that_cannot_be_made_again_ends_no_running_gang(world):
    group = world.group(pods=2)
    world.settle()
    world.cluster.remove(KAI_POD_GROUP, group.uuid.hex, namespace="osmo")
    world.cluster.fail(Invalid("the queue is gone", status=422), verb="create", kind=KAI_POD_GROUP, times=9)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2
    (event,) = Event.objects.filter(reason="PodGroupRefused")
    assert "the queue is gone" in event.message


def test_pods_that_do_not_go_keep_the_domain_alive(world):
    group = world.group(pods=2)
    world.settle()
    for pod in world.pods():
        world.cluster.edit(POD, pod, lambda obj: obj["metadata"].update(finalizers=["x/y"]), namespace="osmo")
    stop(group)
    world.settle()
    assert {"Pod", "ComputeDomain"} <= world.cluster.kinds()
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    assert "deletionTimestamp" not in domain["metadata"]


def test_a_group_is_taken_down_after_its_pool_and_backend_were_edited_and_deleted(world):
    group = world.group(pods=2)
    world.settle()
    backend = fresh(group).backend
    backend.pools.all().delete()
    backend.namespace, backend.scheduler_type = "elsewhere", "default"
    backend.deleted_at = fresh(group).created_in_cluster_at
    backend.save()
    world.finish(group)
    world.settle()
    assert fresh(group).status == "COMPLETED"
    assert world.cluster.objects == {}


def test_nothing_is_believed_of_another_cluster_behind_the_same_address(world):
    group = world.group(pods=1)
    world.settle()
    stop(group)
    other = World()
    other.cluster.kube_system_uid = lambda **_: "another"
    other.reconcile(group)
    assert not released(group)
    assert "point it back" in str(fresh(group).conditions)
    world.settle()
    assert released(group)


def test_empty_lists_release_nothing_where_the_address_led_to_the_right_cluster_a_moment_ago(world):
    group = world.group(pods=1)
    world.settle()
    stop(group)
    other = World()
    other.cluster.kube_system_uid = lambda *, within=0.0: world.uid if within else "another"
    other.reconcile(group)
    assert not released(group)
    assert "point it back" in str(fresh(group).conditions)


def test_a_crowd_of_steps_makes_a_timeline(world):
    group = world.group(pods=2)
    world.settle()
    world.finish(group)
    world.settle()
    reasons = list(
        Event.objects.filter(workflow=group.workflow, task_name="").values_list("reason", flat=True)
    )
    assert [r for r in reasons if r in ("SCHEDULING", "Created", "RUNNING", "COMPLETED", "Released")] == [
        "SCHEDULING",
        "Created",
        "RUNNING",
        "COMPLETED",
        "Released",
    ]


def test_a_group_says_why_it_waits_for_its_scheduler(db):
    world = World(scheduled=False)
    group = world.group(pods=2, pool=world.pool(levels=LEVELS))
    world.settle()
    world.cluster.edit(
        KAI_POD_GROUP,
        group.uuid.hex,
        lambda obj: obj.update(
            status={
                "schedulingConditions": [
                    {"reasons": [{"message": "Queue 'q' does not exist"}], "transitionID": "1"}
                ]
            }
        ),
        namespace="osmo",
    )
    world.settle()
    assert "Queue q does not exist" in fresh(group).waiting_reason
    assert fresh(group).waiting_since is not None


@pytest.mark.parametrize("error", [ClusterUnreachable("cut"), NotServed("no such kind", status=404)])
def test_an_end_is_never_concluded_from_an_error(world, error):
    group = world.group(pods=1)
    world.settle()
    stop(group)
    world.cluster.fail(error, verb="list", times=30)
    for _ in range(3):
        world.reconcile(group)
    assert not released(group)
    assert "Pod" in world.cluster.kinds()


def test_an_error_that_nobody_foresaw_makes_its_group_back_off_and_say_so(world, monkeypatch):
    group, other = world.group(pods=1), world.group(pods=1)
    world.reconcile(group)
    followed = observations.observed_pods

    def fail(view):
        if view.uuid == group.uuid:
            raise KeyError("a\0b")
        return followed(view)

    monkeypatch.setattr(observations, "observed_pods", fail)
    pauses = []
    for _ in range(12):
        world.reconcile(group)
        row = fresh(group)
        assert (row.lease_token, row.lease_until) == (None, None)
        pauses.append((row.next_reconcile_at - timezone.now()).total_seconds())
    assert max(pauses[:2]) < 5
    assert 290 < max(pauses[-2:]) <= 600
    assert row.failures == 12
    assert status_of(row.conditions, "ReconcileFailed") == "True"
    assert row.waiting_why == "unforeseen_error"
    assert Event.objects.get(group=group, reason="ReconcileFailed").warning
    assert "a\0b" not in str(row.conditions)
    world.settle(other)
    assert fresh(other).status == "RUNNING"
    monkeypatch.undo()
    world.settle()
    assert fresh(group).status == "RUNNING"
    assert status_of(fresh(group).conditions, "ReconcileFailed") == "False"
    assert fresh(group).waiting_why == ""


def test_an_error_that_cannot_be_recorded_either_still_gives_the_lease_back(world, monkeypatch):
    group = world.group(pods=1)
    world.reconcile(group)

    def fail(view):
        raise RuntimeError

    def refuse(lease, changes):
        raise DataError("value too long")

    monkeypatch.setattr(observations, "observed_pods", fail)
    monkeypatch.setattr(unforeseen, "record", refuse)
    world.reconcile(group)
    assert (fresh(group).lease_token, fresh(group).failures) == (None, 1)
