"""A group that loses its place is tried again as a whole: one attempt after another, nothing left between."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db.models import Q
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, NODE, POD
from pools.models import Cluster
from pools.values.recovery import Loss, RecoveryPolicy, Response
from tests.builders.crashes import death_at
from tests.builders.gangs import REQUEUE, recovering_gang
from tests.builders.losses import delete_pod, disrupt, lose_nodes
from tests.fakes import players
from tests.fakes.kinds import KAI_POD_GROUP
from tests.worker.world import fresh, statuses, workflow_of
from workflows.models import Attempt, Event, ObservedPod, Task, TaskGroup
from workflows.selectors import group_values
from workflows.services import waiting_gangs
from workflows.services.stop import request_stop
from workflows.values.placement import GroupPlacement


def hold(world, group):
    """Keep the pod of the second task in the cluster, whoever deletes it."""
    mark(world, group, ["example.com/held"])


def let_go(world, group):
    mark(world, group, None)


def mark(world, group, finalizers):
    pod = group.tasks.get(position=1, retry_id=0).pod_name
    namespace = group.placement["namespace"]

    def change(obj):
        obj["metadata"]["finalizers"] = finalizers or []

    world.cluster.edit(POD, pod, change, namespace=namespace)


@pytest.mark.parametrize("word", [None, *Response])
def test_a_deletion_that_nothing_explains_has_a_response_of_its_own(world, word):
    group = recovering_gang(world, policy=replace(REQUEUE, unexplained=word))
    delete_pod(world, group)
    world.settle()
    attempts = list(Attempt.objects.filter(group=group).values_list("loss", "evidence", "counted"))
    assert attempts == ([("preempted", "unexplained", False)] if word in (None, "requeue") else [])
    tries = sorted(group.tasks.filter(latest=True).values_list("retry_id", flat=True))
    assert tries == {None: [1, 1, 1], "requeue": [1, 1, 1], "task": [0, 0, 1], "fail": [0, 0, 0]}[word]
    assert (fresh(group).status == "RUNNING") == (word != "fail")


def test_a_preempted_gang_runs_again_with_objects_of_its_own(world):
    group = recovering_gang(world)
    before = {kind: world.uids(kind) for kind in (POD, KAI_POD_GROUP, COMPUTE_DOMAIN)}
    delete_pod(world, group)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    assert [task.retry_id for task in group.tasks.filter(latest=True)] == [1, 1, 1]
    after = {kind: world.uids(kind) for kind in before}
    assert [len(after[kind]) for kind in before] == [3, 1, 1]
    assert not any(after[kind] & before[kind] for kind in before)
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.number, attempt.loss, attempt.evidence) == (1, "preempted", "unexplained")
    assert attempt.cleared_at is not None


def test_a_program_is_told_which_attempt_it_runs_in_and_why_the_last_one_ended(world):
    group = recovering_gang(world)

    def variables():
        names = ("OSMO_ATTEMPT", "OSMO_MAX_ATTEMPTS", "OSMO_LAST_END")
        containers = [obj["spec"]["containers"][0] for obj in world.cluster.all(POD)]
        values = [{entry["name"]: entry.get("value") for entry in each["env"]} for each in containers]
        (of_all,) = {tuple(own[name] for name in names) for own in values}
        return of_all

    assert variables() == ("1", "4", "")
    delete_pod(world, group)
    world.settle()
    assert variables() == ("2", "4", "preempted")


def test_the_tries_of_an_attempt_that_ended_say_why(world):
    group = recovering_gang(world)
    delete_pod(world, group)
    world.settle()
    earlier = group.tasks.filter(latest=False)
    assert {task.status for task in earlier} == {"RESCHEDULED"}
    assert all("vanished" in task.failure_message for task in earlier)


def test_no_pod_of_an_attempt_exists_before_the_last_one_of_the_attempt_before_is_gone(world):
    group = recovering_gang(world)
    hold(world, group)
    delete_pod(world, group)
    for _ in range(5):
        world.step(group)
    assert len(world.cluster.all(POD)) == 1
    assert "Attempt 2 begins when nothing of attempt 1" in fresh(group).waiting_reason
    let_go(world, group)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3


def test_a_task_that_ran_stays_running_for_users_while_the_next_attempt_waits(world):
    group = recovering_gang(world)
    workflow, began = workflow_of(group), group.start_time
    world.cluster.players.remove(players.scheduler)
    delete_pod(world, group)
    world.settle()
    row = fresh(group)
    assert (row.status, row.present_status, row.start_time) == ("RUNNING", "SCHEDULING", began)
    assert workflow_of(group).status == workflow.status
    assert statuses(group) == ["SCHEDULING"] * 3


def test_an_attempt_waits_since_it_began_whatever_the_one_before_waited_for(world):
    """Its node was away long before it was lost: that was the trouble of the attempt that ended."""
    group = recovering_gang(world, policy=replace(REQUEUE, backoff_first=300.0))
    name, pod = "node-that-dies", group.tasks.get(position=1).pod_name

    def stand_on_it(obj):
        obj["spec"]["nodeName"] = name

    world.cluster.edit(POD, pod, stand_on_it, namespace=group.placement["namespace"])
    away = timezone.now() - timedelta(seconds=200)
    world.cluster.put(NODE, a_node(name, since=away, ready="Unknown"))
    world.step(group)
    assert (fresh(group).attempt_number, fresh(group).waiting_why) == (1, "node_away")
    TaskGroup.objects.filter(pk=group.pk).update(waiting_since=away)
    world.cluster.put(NODE, a_node(name, since=timezone.now() - timedelta(seconds=400), ready="Unknown"))
    world.settle()
    row = fresh(group)
    assert (row.attempt_number, row.waiting_why) == (2, "attempt_before")
    assert row.waiting_since >= row.attempt_began_at


def test_the_timeline_never_goes_back(world):
    group = recovering_gang(world)
    delete_pod(world, group)
    world.settle()
    reasons = Event.objects.filter(group=group, task_name="").order_by("id").values_list("reason", flat=True)
    assert [reason for reason in reasons if reason.isupper()] == ["SCHEDULING", "RUNNING"]
    assert Event.objects.filter(group=group, reason="NewAttempt").count() == 1


@pytest.mark.parametrize("point", ["after-attempt-recorded", "before-attempt-cleared"])
def test_a_worker_that_dies_between_two_attempts_is_taken_over_from(world, point):
    group = recovering_gang(world)
    delete_pod(world, group)
    with death_at(point):
        world.settle()
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    assert len(world.cluster.all(POD)) == 3
    assert Attempt.objects.filter(group=group).count() == 1


def test_a_cancel_between_two_attempts_leaves_nothing(world):
    group = recovering_gang(world)
    hold(world, group)
    delete_pod(world, group)
    world.step(group)
    assert fresh(group).clearing
    request_stop(Q(pk=group.pk), status="FAILED_CANCELED", message="Cancelled.", force=False)
    let_go(world, group)
    world.settle()
    assert (fresh(group).status, fresh(group).released_at is not None) == ("FAILED_CANCELED", True)
    assert [world.cluster.all(kind) for kind in (POD, KAI_POD_GROUP, COMPUTE_DOMAIN)] == [[], [], []]


def test_a_group_whose_pods_somebody_deletes_again_and_again_pauses(world):
    group = recovering_gang(world, policy=replace(REQUEUE, backoff_first=300.0))
    delete_pod(world, group)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    delete_pod(world, group)
    world.step(group)
    row = fresh(group)
    assert row.attempt_not_before - row.attempt_began_at == timedelta(seconds=300)


def test_conditions_of_the_nodes_of_an_attempt_end_with_it(world):
    group = recovering_gang(world)
    since = {"lastTransitionTime": "2026-01-01T00:00:00"}
    others = [entry for entry in group.conditions if entry["type"] not in ("NVLinkReady", "NodesHealthy")]
    health = [
        {"type": kind, "status": "True", "reason": "Well", "message": "", "observedRevision": 0, **since}
        for kind in ("NVLinkReady", "NodesHealthy")
    ]
    TaskGroup.objects.filter(pk=group.pk).update(conditions=[*others, *health])
    hold(world, group)
    delete_pod(world, group)
    world.step(group)
    row = fresh(group)
    assert row.attempt_number == 2
    assert {"NVLinkReady", "NodesHealthy"}.isdisjoint(entry["type"] for entry in row.conditions)
    assert Attempt.objects.get(group=group).message.endswith(".")


def test_a_group_that_is_preempted_again_and_again_pauses_and_says_so(world):
    """As two groups do that take the same room from each other: from the eleventh time on."""
    group = recovering_gang(world, policy=replace(REQUEUE, backoff_first=300.0))
    ended_at = timezone.now() - timedelta(hours=1)
    earlier = {
        "status": "FAILED_PREEMPTED",
        "loss": "preempted",
        "evidence": "eviction_event",
        "counted": False,
        "began_at": ended_at,
        "start_time": ended_at - timedelta(hours=1),
        "end_time": ended_at,
    }
    Attempt.objects.bulk_create(Attempt(group=group, number=number, **earlier) for number in range(1, 11))
    TaskGroup.objects.filter(pk=group.pk).update(attempt_number=11)
    delete_pod(world, group)
    world.settle()
    row = fresh(group)
    assert row.attempt_number == 12
    assert row.attempt_not_before - row.attempt_began_at == timedelta(seconds=300)
    assert "Attempt 12 begins at " in row.waiting_reason
    assert " UTC, after a pause." in row.waiting_reason


def test_a_group_that_ran_for_long_before_a_deletion_does_not_pause(world):
    group = recovering_gang(world, policy=replace(REQUEUE, backoff_first=300.0))
    delete_pod(world, group)
    world.settle()
    long_ago = timezone.now() - timedelta(seconds=601)
    group.tasks.filter(latest=True).update(start_time=long_ago)
    delete_pod(world, group)
    world.step(group)
    row = fresh(group)
    assert (row.attempt_number, row.attempt_not_before) == (3, None)


def test_tries_of_tasks_are_lines_of_the_timeline_for_the_first_attempts_alone(world):
    group = recovering_gang(world)
    number = group.tasks.count()
    group.tasks.update(retry_id=8)
    TaskGroup.objects.filter(pk=group.pk).update(attempt_number=9)
    for _ in range(3):
        delete_pod(world, group)
        world.settle()
    assert {task.retry_id for task in group.tasks.filter(latest=True)} == {11}
    lines = Event.objects.filter(group=group).exclude(task_name="")
    assert lines.filter(retry_id=9, reason="RUNNING").count() == number
    assert not lines.filter(retry_id__gte=10).exists()
    assert Event.objects.filter(group=group, task_name="", reason="AttemptRunning").count() == 3


@pytest.mark.parametrize(("ago", "attempts"), [(120, 1), (301, 2)])
def test_a_pod_that_is_missed_while_no_observer_is_at_work_waits_for_one(world, ago, attempts):
    group = recovering_gang(world)
    task = group.tasks.get(position=1)
    world.cluster.remove(POD, task.pod_name, namespace=group.placement["namespace"])
    Cluster.objects.filter(pk=world.uid).update(heartbeat_at=timezone.now() - timedelta(seconds=ago))
    world.reconcile(group)
    assert fresh(group).attempt_number == attempts


def test_a_mark_on_the_pod_group_of_an_earlier_attempt_explains_nothing(world):
    group = recovering_gang(world)
    began_at = timezone.now() - timedelta(seconds=30)
    TaskGroup.objects.filter(pk=group.pk).update(attempt_number=2, attempt_began_at=began_at)
    stale = began_at - timedelta(seconds=60)

    def mark_stale(obj):
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations["kai.scheduler/stale-podgroup-timestamp"] = stale.isoformat()

    (pod_group,) = world.cluster.all(KAI_POD_GROUP)
    namespace = group.placement["namespace"]
    world.cluster.edit(KAI_POD_GROUP, pod_group["metadata"]["name"], mark_stale, namespace=namespace)
    delete_pod(world, group)
    world.settle()
    assert Attempt.objects.get(group=group).evidence == "unexplained"


def test_the_bound_of_its_policy_ends_it_and_says_so(world):
    policy = RecoveryPolicy(preempted=Response.REQUEUE, most_preemptions=1)
    group = recovering_gang(world, policy=policy)
    for _ in range(2):
        delete_pod(world, group)
        world.settle()
    assert fresh(group).status.startswith("FAILED")
    assert "tried again 1 time before" in fresh(group).failure_message


def test_a_failure_ends_it_where_its_policy_says_so(world):
    group = recovering_gang(world)
    world.finish(group, code=7, tasks={group.tasks.get(lead=True).name})
    world.settle()
    assert fresh(group).status == "FAILED"
    assert Attempt.objects.filter(group=group).count() == 0


def test_restart_group_is_an_attempt(world):
    group = recovering_gang(world, default_exit_actions={"RESTART_GROUP": "7"})
    world.finish(group, code=7, tasks={group.tasks.get(lead=True).name})
    world.ends.clear()
    world.settle()
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.counted) == (Loss.FAILED, True)
    assert Task.objects.get(group=group, retry_id=0, lead=True).exit_code == 7
    assert statuses(group) == ["RUNNING"] * 3


def test_restart_group_on_the_code_of_a_preemption_has_its_own_bound_too(world):
    """RESTART_GROUP is bounded by ``max`` whatever ended the task, as its documentation says."""
    policy = RecoveryPolicy(most=2, backoff_first=0.001)
    group = recovering_gang(world, policy=policy, default_exit_actions={"RESTART_GROUP": "3006"})
    for _ in range(3):
        disrupt(world, group)
        world.settle()
    assert [a.counted for a in Attempt.objects.filter(group=group).order_by("number")] == [True, True]
    assert fresh(group).status == "FAILED_PREEMPTED"
    assert "tried again 2 times before" in fresh(group).failure_message


def test_a_reschedule_without_tries_left_leaves_it_to_the_policy(world):
    """As if no action named the code: by default there are no tries at all."""
    policy = replace(REQUEUE, failed=Response.REQUEUE)
    group = recovering_gang(
        world, policy=policy, default_exit_actions={"RESCHEDULE": "7,3006"}, max_retry_per_task=0
    )
    disrupt(world, group)
    world.settle()
    world.finish(group, code=7, tasks={group.tasks.get(lead=True, latest=True).name})
    world.ends.clear()
    world.settle()
    ended = Attempt.objects.filter(group=group).order_by("number").values_list("loss", "counted")
    assert (list(ended), statuses(group)) == ([("preempted", False), ("failed", True)], ["RUNNING"] * 3)


def test_a_reschedule_of_the_lead_takes_its_peers_with_it(world):
    group = recovering_gang(world, default_exit_actions={"RESCHEDULE": "7"}, max_retry_per_task=1)
    lead = group.tasks.get(lead=True).name
    world.finish(group, code=7, tasks={lead})
    world.ends.clear()
    world.settle()
    assert [task.retry_id for task in group.tasks.filter(latest=True)] == [1, 1, 1]
    world.finish(group, code=7, tasks={lead})
    world.settle()
    assert fresh(group).status == "FAILED"


def test_a_gang_that_is_evicted_pod_by_pod_is_tried_again_once(world):
    """A non-lead that is rescheduled is tried again alone, unless its peers are taken a moment later."""
    group = recovering_gang(world, default_exit_actions={"RESCHEDULE": "3006"}, max_retry_per_task=1)
    disrupt(world, group, 1)
    ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now())
    world.step(group)
    disrupt(world, group, 0, 2)
    world.settle()
    assert retries(group) == [1, 1, 1]
    assert statuses(group) == ["RUNNING"] * 3


def test_a_pod_that_is_evicted_beside_one_that_is_being_deleted_waits_for_what_becomes_of_that(world):
    """For 40 seconds since the first of them was gone: its scheduler may evict a gang that is incomplete."""
    group = recovering_gang(world, pods=4, policy=replace(REQUEUE, preempted=Response.TASK))
    hold(world, group)
    delete(world, group, position=1)
    disrupt(world, group, 2)
    gone(world, group, 30, position=2)
    world.step(group)
    assert statuses(group) == ["RUNNING"] * 4
    assert "no pod any more, and the pod of a peer is being deleted" in fresh(group).waiting_reason
    disrupt(world, group, 3)
    gone(world, group, 39, position=2)
    gone(world, group, 20, position=3)
    world.step(group)
    assert statuses(group) == ["RUNNING"] * 4
    gone(world, group, 41, position=2)
    world.step(group)
    assert retries(group) == [0, 0, 1, 1]


def test_a_task_without_peers_waits_for_none(world):
    group = recovering_gang(world, pods=1, policy=replace(REQUEUE, preempted=Response.TASK))
    disrupt(world, group)
    gone(world, group, 0, position=0)
    world.step(group)
    assert retries(group) == [1]


def test_a_pod_that_was_deleted_from_a_node_that_is_away_waits_for_no_peer(world):
    """The node may come back, and nothing would say any more why the pod went."""
    group = recovering_gang(world, policy=replace(REQUEUE, node_lost=Response.TASK, preempted=Response.FAIL))
    world.cluster.players.remove(players.scheduler)
    namespace, node = group.placement["namespace"], "node-away"
    lost = group.tasks.get(position=2).pod_name
    world.cluster.edit(POD, lost, lambda obj: obj["spec"].update(nodeName=node), namespace=namespace)
    world.step(group)
    world.cluster.put(NODE, a_node(node, since=timezone.now() - timedelta(seconds=20), ready="Unknown"))
    hold(world, group)
    delete(world, group, position=1)
    world.cluster.remove(POD, lost, namespace=namespace)
    world.observe()
    gone(world, group, 7, position=2)
    world.step(group)
    assert retries(group) == [0, 0, 1]


def delete(world, group, *, position):
    """Somebody deletes a pod of the first try."""
    pod = group.tasks.get(position=position, retry_id=0).pod_name
    world.cluster.delete(POD, pod, uid=None, namespace=group.placement["namespace"])


def gone(world, group, seconds, *, position):
    """The pod of a task's first try has been gone for so long."""
    pod = group.tasks.get(position=position, retry_id=0).pod_name
    seen_at = timezone.now() - timedelta(seconds=seconds)
    assert ObservedPod.objects.filter(name=pod, absent=True).update(seen_at=seen_at) == 1


def retries(group):
    return [task.retry_id for task in group.tasks.filter(latest=True).order_by("position")]


def test_the_run_clock_counts_only_while_all_tasks_have_nodes(world):
    group = recovering_gang(world)
    TaskGroup.objects.filter(pk=group.pk).update(ran_since=timezone.now() - timedelta(seconds=100))
    world.cluster.players.remove(players.scheduler)
    delete_pod(world, group)
    world.settle()
    row = fresh(group)
    assert row.ran_since is None
    assert 100 <= row.ran_seconds < 130


def test_a_group_accepted_before_there_was_recovery_ends_as_it_did(world):
    group = world.group(pods=2)
    world.settle()
    delete_pod(world, group)
    world.settle()
    assert fresh(group).status.startswith("FAILED")
    assert fresh(group).released_at is not None


def test_a_replacement_that_finds_no_place_beside_its_peers_becomes_an_attempt(world):
    policy = RecoveryPolicy(node_lost=Response.TASK, preempted=Response.TASK, backoff_first=0.001)
    group = recovering_gang(world, policy=policy)
    world.cluster.players.remove(players.scheduler)
    delete_pod(world, group, number=1)
    world.settle()
    assert statuses(group) == ["RUNNING", "SCHEDULING", "RUNNING"]
    assert fresh(group).attempt_number == 1
    Task.objects.filter(group=group, latest=True, position=1).update(
        scheduling_start_time=timezone.now() - timedelta(seconds=601)
    )
    world.settle()
    assert (fresh(group).attempt_number, statuses(group)) == (2, ["SCHEDULING"] * 3)
    assert Attempt.objects.get(group=group).evidence == "no_place_beside_peers"


@pytest.mark.parametrize(("anew", "want"), [(False, "preempted"), (True, "node_lost")])
def test_a_replacement_after_a_preemption_alone_has_its_patience_too(world, anew, want):
    """``replace_patience`` holds with every word ``task``, not with that of ``node_lost`` alone.

    A replacement that was made ``anew`` for its pins does not say any more what it was for.
    """
    policy = RecoveryPolicy(preempted=Response.TASK, backoff_first=0.001)
    group = recovering_gang(world, policy=policy)
    world.cluster.players.remove(players.scheduler)
    disrupt(world, group, 1)
    world.settle()
    assert statuses(group) == ["RUNNING", "SCHEDULING", "RUNNING"]
    waiting = Task.objects.filter(group=group, latest=True, position=1)
    waiting.update(scheduling_start_time=timezone.now() - timedelta(seconds=601))
    if anew:
        waiting.update(replaced_after="")
    world.settle()
    attempt = Attempt.objects.get(group=group)
    assert (attempt.loss, attempt.evidence, attempt.counted) == (want, "no_place_beside_peers", anew)


def test_replacements_of_a_whole_gang_keep_their_place_in_the_queue(world):
    """No peer holds a node for them, and a new attempt would be the youngest of the queue."""
    group = recovering_gang(world, policy=RecoveryPolicy(preempted=Response.TASK))
    world.cluster.players.remove(players.scheduler)
    disrupt(world, group, 0, 1, 2)
    world.settle()
    Task.objects.filter(group=group, latest=True).update(
        scheduling_start_time=timezone.now() - timedelta(seconds=601)
    )
    world.settle()
    assert (fresh(group).attempt_number, statuses(group)) == (1, ["SCHEDULING"] * 3)


def test_preemptions_of_a_task_alone_count_to_their_own_bound(world):
    """``max`` counts losses by ``failed`` and ``node_lost``, ``max_preemptions`` those by preemption."""
    policy = RecoveryPolicy(
        preempted=Response.TASK, node_lost=Response.TASK, most=1, most_preemptions=2, backoff_first=0.001
    )
    group = recovering_gang(world, policy=policy)
    disrupt(world, group)
    world.settle()
    delete_pod(world, group)
    world.settle()
    lose_nodes(world, group, 0, 1)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    disrupt(world, group)
    world.settle()
    assert fresh(group).status == "FAILED_PREEMPTED"
    assert "tried again 2 times before" in fresh(group).failure_message


def test_tasks_that_are_lost_together_count_as_one_loss(world):
    policy = RecoveryPolicy(node_lost=Response.TASK, most=2)
    group = recovering_gang(world, policy=policy)
    for _ in range(2):
        lose_nodes(world, group, 0, 1)
        world.settle()
        assert statuses(group) == ["RUNNING"] * 3
    lose_nodes(world, group, 0)
    world.settle()
    assert fresh(group).status == "FAILED_BACKEND_ERROR"
    assert "tried again 2 times before" in fresh(group).failure_message


def test_a_replacement_without_a_place_ends_its_group_where_nothing_may_be_tried_again(world):
    policy = RecoveryPolicy(node_lost=Response.TASK, preempted=Response.TASK, most_preemptions=1)
    group = recovering_gang(world, policy=policy)
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=False)
    world.cluster.players.remove(players.scheduler)
    delete_pod(world, group, number=1)
    world.settle()
    assert statuses(group) == ["RUNNING", "SCHEDULING", "RUNNING"]
    Task.objects.filter(group=group, latest=True, position=1).update(
        scheduling_start_time=timezone.now() - timedelta(seconds=601)
    )
    world.settle()
    row = fresh(group)
    assert (row.status, row.released_at is not None) == ("FAILED_BACKEND_ERROR", True)
    assert "got no place beside its peers" in row.failure_message
    assert "the most that its recovery policy allows" in row.failure_message


def test_a_pod_that_ended_while_it_was_deleted_is_lost_with_its_node(world):
    """Nobody removes it any more: its kubelet is gone. A drained machine is often switched off at once."""
    name = "node-that-dies"
    group = recovering_gang(world)
    world.cluster.players.remove(players.scheduler)
    hold(world, group)
    pod = group.tasks.get(position=1).pod_name
    asked = timezone.now() - timedelta(seconds=400)

    def end(obj):
        obj["spec"]["nodeName"] = name
        obj["metadata"] |= {"deletionTimestamp": text(asked), "deletionGracePeriodSeconds": 30}
        ended = {"exitCode": 0, "finishedAt": text(asked)}
        state = {"name": "user", "state": {"terminated": ended}}
        obj["status"] |= {"phase": "Succeeded", "containerStatuses": [state]}

    world.cluster.edit(POD, pod, end, namespace=group.placement["namespace"])
    world.cluster.put(NODE, a_node(name, since=timezone.now() - timedelta(seconds=390), ready="Unknown"))
    for _ in range(3):
        world.step(group)
    (attempt,) = Attempt.objects.filter(group=group)
    assert (attempt.loss, attempt.evidence) == (Loss.NODE_LOST, "node_away")


@pytest.mark.parametrize(("ago", "attempts"), [(30, 0), (400, 1)])
def test_a_pod_that_a_finalizer_holds_after_its_end_is_waited_for_for_a_while(world, ago, attempts):
    group = recovering_gang(world)
    hold(world, group)
    ended_at = timezone.now() - timedelta(seconds=ago)

    def end(obj):
        obj["metadata"] |= {"deletionTimestamp": text(ended_at), "deletionGracePeriodSeconds": 0}
        state = {"name": "user", "state": {"terminated": {"exitCode": 0, "finishedAt": text(ended_at)}}}
        obj["status"] |= {"phase": "Succeeded", "containerStatuses": [state]}

    pod = group.tasks.get(position=1).pod_name
    world.cluster.edit(POD, pod, end, namespace=group.placement["namespace"])
    for _ in range(3):
        world.step(group)
    ended = Attempt.objects.filter(group=group)
    assert len(ended) == attempts
    assert all("a finalizer holds it" in attempt.message for attempt in ended)


def text(time):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def a_node(name, *, since, ready):
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": text(since)}
    status = {"conditions": [condition], "allocatable": {}}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": {}}, "spec": {}, "status": status}


def test_the_cost_of_an_attempt_does_not_grow_with_those_before(world):
    group = recovering_gang(world)
    for _ in range(3):
        delete_pod(world, group)
        world.settle()
    row = fresh(group)
    assert row.attempt_number == 4
    assert group_values(row, GroupPlacement.from_json(row.placement)).earlier == ()


def test_a_waiting_attempt_is_among_the_gangs_whose_order_is_sought(world):
    group = recovering_gang(world)
    world.cluster.players.remove(players.scheduler)
    delete_pod(world, group)
    world.settle()
    TaskGroup.objects.filter(pk=group.pk).update(constraints=[{"key": "rack"}])
    assert list(waiting_gangs.waiting().values_list("pk", flat=True)) == [group.pk]
