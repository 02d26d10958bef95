"""Whether a workflow would ever fit, fits now, and where: told at submission, asked without one."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from pools.models import ObservedResource
from scheduling.topology.requirements import Requirement
from tests.api.workflows.specs import gang, text
from tests.builders.completeness import note_lists
from tests.builders.observed_queues import observe_queues
from tests.error_shape import assert_error_shape
from tests.factories import (
    RACK,
    ZONE,
    BackendFactory,
    ClusterFactory,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
    foreign_usage,
)
from web.models import Role
from workflows.feasibility.verdict.sentences import ANOTHER_WORKFLOW
from workflows.models import Workflow
from workflows.submission.submit import MOST_WARNINGS

pytestmark = pytest.mark.django_db
RACKED = [{"key": "rack", "group": "r"}]


@pytest.fixture
def pool():
    """Two racks of three and two nodes of eight GPUs each."""
    made = PoolFactory(name="train", levels=[ZONE, RACK])
    for number, rack in enumerate(["r1", "r1", "r1", "r2", "r2"]):
        labels = {ZONE.label: "a", RACK.label: rack}
        NodeFactory(cluster=made.backend.cluster, name=f"n{number}", labels=labels)
    return made


def asked(tasks):
    return {"file": text(gang(tasks, gpu=8, topology=RACKED))}


def post(api, pool, tasks, query=""):
    return api.post(f"/api/pool/{pool.name}/workflow{query}", asked(tasks), format="json")


def verdict(answer):
    assert answer.status_code == 200, answer.json()
    (feasibility,) = answer.json()["feasibility"]
    return feasibility


def hold(pool, *nodes, workflow="night"):
    group = TaskGroupFactory(
        pool=pool, workflow=WorkflowFactory(pool=pool, base_name=workflow), pods=0, status="RUNNING"
    )
    for node in nodes:
        TaskFactory(group=group, node_name=node, placement__gpu=8)
    return group.workflow


def test_a_submission_says_where_it_would_go(api, pool):
    feasibility = verdict(post(api, pool, 3))
    assert feasibility["verdict"] == "now"
    assert sorted(feasibility["places"].values()) == ["n0", "n1", "n2"]
    assert feasibility["sentence"] == "It fits now: there is room for all 3 tasks."
    assert (feasibility["scheduler"], feasibility["nodes"]) == ("kai", 5)
    assert feasibility["age_seconds"] >= 0


def test_asking_makes_nothing(api, pool):
    feasibility = verdict(post(api, pool, 3, "?feasibility=only"))
    assert feasibility["verdict"] == "now"
    assert not Workflow.objects.exists()


def test_not_now_names_the_nearest_domain_and_who_holds_it(api, pool):
    holder = hold(pool, "n1")

    feasibility = verdict(post(api, pool, 3))

    nearest = feasibility["sets"][-1]["nearest"][0]
    assert feasibility["verdict"] == "not_now"
    assert (nearest["path"], nearest["missing"]) == (["a", "r1"], 1)
    assert [entry["name"] for entry in nearest["holders"]] == [holder.name]
    assert (
        f'the nearest rack, "a/r1", has room for 2 of 3 tasks and lacks 1, held by "{holder.name}"'
        in feasibility["sentence"]
    )


def test_a_gang_that_can_never_be_placed_is_accepted_with_a_warning(api, pool):
    answer = post(api, pool, 4)
    assert verdict(answer)["verdict"] == "never"
    assert any(
        '4 tasks must share one rack, and the largest, "a/r1", has room for 3 when empty.' in warning
        for warning in answer.json()["warnings"]
    )


def test_a_workflow_keeps_a_bounded_number_of_warnings(api, pool):
    spec = gang(1, gpu=999)
    only = spec["groups"].pop()["tasks"][0]
    spec["groups"] = [{"name": f"g{i}", "tasks": [only | {"name": f"t{i}"}]} for i in range(103)]
    answer = api.post(f"/api/pool/{pool.name}/workflow", {"file": text(spec)}, format="json")
    warnings = answer.json()["warnings"]
    assert Workflow.objects.get().warnings == warnings
    assert len(warnings) == MOST_WARNINGS + 1
    assert warnings[-1] == f"And 4 more: only {MOST_WARNINGS} warnings of a workflow are kept."


def test_a_pool_may_refuse_it_and_leave_nothing_behind(api, pool):
    pool.infeasible = "refuse"
    pool.save()

    answer = post(api, pool, 4)

    body = assert_error_shape(answer, 400, code="infeasible")
    assert body["error_code"] == "USAGE"
    assert "force_infeasible=true" in body["message"]
    assert not Workflow.objects.exists()
    assert post(api, pool, 4, "?force_infeasible=true").status_code == 200


def test_a_question_is_answered_also_where_the_pool_refuses(api, pool):
    pool.infeasible = "refuse"
    pool.save()
    assert verdict(post(api, pool, 4, "?feasibility=only"))["verdict"] == "never"


def test_a_pool_may_accept_it_without_a_word(api, pool):
    pool.infeasible = "accept"
    pool.save()
    assert post(api, pool, 4).json()["warnings"] == []


def test_nodes_of_other_pools_do_not_count(api, pool):
    pool.node_selector = {RACK.label: "r2"}
    pool.save()
    feasibility = verdict(post(api, pool, 3))
    assert (feasibility["verdict"], feasibility["nodes"]) == ("never", 2)


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (None, "the pool's cluster was never reached, so none of its nodes is known."),
        ({"completeness": {}}, "the nodes of the pool's cluster have not been listed yet."),
        ({}, "these tasks may use none of the nodes that are known at the moment."),
    ],
    ids=["never reached", "never listed", "no nodes"],
)
def test_without_a_node_there_is_no_verdict_and_it_says_why(api, cluster, said):
    """A pool that refuses what can never fit accepts it: nothing is proven."""
    uid = cluster if cluster is None else ClusterFactory(**cluster)
    backend = BackendFactory(cluster=uid)
    pool = PoolFactory(name="train", levels=[ZONE, RACK], backend=backend, infeasible="refuse")
    feasibility = verdict(post(api, pool, 3))
    assert (feasibility["verdict"], feasibility["sentence"]) == ("unknown", f"No verdict: {said}")
    rest = [feasibility[key] for key in ("proven", "places", "sets", "tasks")]
    assert rest == [False, None, [], 3]


def test_a_pool_that_none_of_the_known_nodes_belongs_to_is_told_of(api, pool):
    none = PoolFactory(name="none", backend=pool.backend, node_selector={"example.com/part": "nowhere"})
    said = api.post(f"/api/pool/{none.name}/workflow?dry_run=True", {"file": text(gang(1))}, format="json")
    assert 'No node of platform "gpu" is known now' in " ".join(said.json()["warnings"])


def test_room_that_pods_of_others_hold_is_not_free(api, pool):
    assert verdict(post(api, pool, 3, "?feasibility=only"))["others_known"] is False
    foreign_usage(pool.backend.cluster, "n1", gpu=1, cpu=250)

    feasibility = verdict(post(api, pool, 3, "?feasibility=only"))

    assert (feasibility["verdict"], feasibility["others_known"]) == ("not_now", True)
    assert feasibility["sentence"] == (
        'It does not fit now: the nearest rack, "a/r1", has room for 2 of 3 tasks and lacks 1, held by '
        "other tenants' pods. The pool has room for 4 such tasks in all, but not in one place."
    )
    assert feasibility["sets"][0]["nearest"][0]["free_at"] is None


def bound(pool, **gpu):
    type(pool).objects.filter(pk=pool.pk).update(resources={"gpu": gpu})


def test_the_pools_limit_is_in_the_way_before_its_nodes(api, pool):
    bound(pool, maximum=32)
    hold(pool, "n3", "n4")

    entry = verdict(post(api, pool, 3, "?feasibility=only"))

    assert (entry["verdict"], entry["obstacle"]) == ("not_now", "quota")
    assert entry["quota"]["answer"] == "short"
    (shortage,) = entry["quota"]["shortages"]
    assert {key: shortage[key] for key in ("resource", "bound", "amount", "used", "requested")} == {
        "resource": "gpu",
        "bound": "limit",
        "amount": 32,
        "used": 16,
        "requested": 24,
    }
    assert "The nodes have room for all 3 tasks." in entry["sentence"]


def test_preemptible_work_is_not_bounded_by_the_guarantee(api, pool):
    bound(pool, guarantee=16)
    assert verdict(post(api, pool, 3, "?feasibility=only&priority=LOW"))["verdict"] == "now"
    entry = verdict(post(api, pool, 3, "?feasibility=only&priority=NORMAL"))
    assert (entry["verdict"], entry["obstacle"]) == ("never", "quota")
    assert "guarantees 16 GPUs" in entry["sentence"]


def test_the_verdict_lists_what_it_did_not_look_at(api, pool):
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["verdict"], entry["quota"]["answer"]) == ("now", "unknown")
    codes = {line["code"] for line in entry["not_examined"]}
    assert {"quota", "fair_share", "run_times", "other_tenants", "claims"} <= codes
    assert codes.isdisjoint({"priority", "preemption"})  # nothing waits, and nothing has to go


def test_room_that_only_preferences_hide_is_said_with_the_time_after_which_they_give_way(api, pool):
    for number in range(5, 8):
        NodeFactory(cluster=pool.backend.cluster, name=f"n{number}", labels={})
    preferred = [{**RACKED[0], "requirementType": "preferred"}]
    body = {"file": text(gang(8, gpu=8, topology=preferred))}

    answer = api.post(f"/api/pool/{pool.name}/workflow?feasibility=only", body, format="json")

    entry = verdict(answer)
    assert entry["verdict"] == "not_now"
    assert entry["sentence"].endswith(
        "There is room that only its preferences hide: they give way after 60 seconds."
    )


def test_queues_that_are_followed_admit_a_group_or_name_the_one_that_does_not(api, pool):
    observe_queues(pool, own=(-1, 0), above=(64, 30))
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["verdict"], entry["quota"]["answer"]) == ("now", "admits")
    assert "quota" not in {line["code"] for line in entry["not_examined"]}

    ObservedResource.objects.all().delete()
    observe_queues(pool, own=(-1, 0), above=(64, 48))
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["verdict"], entry["obstacle"]) == ("not_now", "quota")
    (shortage,) = entry["quota"]["shortages"]
    assert (shortage["queue"], shortage["amount"], shortage["used"]) == ("above", 64, 48)


def test_our_own_usage_counts_as_it_is_known_here_and_not_as_the_status_has_it(api, pool):
    """The status of a queue lags behind: 16 GPUs are in use by us, of which it knows none yet."""
    observe_queues(pool, own=(-1, 0), above=(32, 0))
    hold(pool, "n3", "n4")
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert entry["obstacle"] == "quota"
    assert entry["quota"]["shortages"][0]["used"] == 16


def test_queues_that_may_not_be_followed_leave_quota_unknown(api, pool):
    observe_queues(pool, own=(-1, 0), above=(8, 8))
    note_lists({"queues.scheduling.run.ai": None})
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["verdict"], entry["quota"]["answer"]) == ("now", "unknown")


# Other work of the queue


def wait(pool, tasks, *, workflow, priority="NORMAL", gpu=8):
    group = TaskGroupFactory(
        pool=pool,
        workflow=WorkflowFactory(pool=pool, base_name=workflow, priority=priority),
        pods=0,
        status="SCHEDULING",
        frozen={"priority": priority},
    )
    for position in range(tasks):
        TaskFactory(
            group=group,
            position=position,
            status="SCHEDULING",
            placement__gpu=gpu,
            placement__requirements=(Requirement("rack", "r"),),
        )
    return group.workflow


def test_a_group_that_goes_first_takes_the_room(api, pool):
    first = wait(pool, 3, workflow="early")

    entry = verdict(post(api, pool, 3, "?feasibility=only"))

    assert (entry["verdict"], entry["obstacle"]) == ("not_now", "priority")
    assert entry["before"] == {"groups": 1, "younger": 0, "workflows": [first.name]}
    assert f'1 group of its queue goes first ("{first.name}").' in entry["sentence"]


def test_a_group_that_goes_first_and_leaves_room_is_no_obstacle(api, pool):
    wait(pool, 2, workflow="early")
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["verdict"], entry["before"]["groups"]) == ("now", 1)
    assert {line["code"] for line in entry["not_examined"]}.isdisjoint({"priority"})


def test_work_of_lower_priority_does_not_go_first(api, pool):
    wait(pool, 3, workflow="cheap", priority="LOW")
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["verdict"], entry["before"]["groups"]) == ("now", 0)


def test_a_group_that_its_queue_does_not_admit_takes_no_room(api, pool):
    bound(pool, maximum=24)
    wait(pool, 4, workflow="large")
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["verdict"], entry["before"]["groups"]) == ("now", 1)


def hold_cheaply(pool, *nodes):
    group = TaskGroupFactory(
        pool=pool,
        workflow=WorkflowFactory(pool=pool, base_name="cheap", priority="LOW"),
        pods=0,
        status="RUNNING",
        frozen={"priority": "LOW"},
    )
    for node in nodes:
        TaskFactory(group=group, node_name=node, placement__gpu=8)
    return group.workflow


def test_work_that_may_be_preempted_is_named(api, pool):
    observe_queues(pool, own=(-1, 0))
    cheap = hold_cheaply(pool, "n0")

    entry = verdict(post(api, pool, 3, "?feasibility=only"))

    assert (entry["preemption"]["answer"], entry["preemption"]["workflows"]) == ("helps", [cheap.name])
    assert entry["consolidation"] == {"answer": "none", "workflows": []}
    assert f'The scheduler may preempt work of lower priority for it: "{cheap.name}".' in entry["sentence"]
    low = verdict(post(api, pool, 3, "?feasibility=only&priority=LOW"))
    assert low["preemption"]["answer"] == "none"


@pytest.mark.parametrize(
    ("queue", "priority", "answer"),
    [("own", 50, "helps"), ("own", 100, "none"), ("another", 50, "none")],
    ids=["below it in its queue", "as high", "in another queue"],
)
def test_pods_of_others_may_be_preempted_by_the_queue_and_priority(api, pool, queue, priority, answer):
    own = observe_queues(pool, own=(-1, 0))
    queue = own if queue == "own" else queue
    foreign_usage(pool.backend.cluster, "n1", gpu=8, pods=2, namespace="ml", evictable=[queue, priority])
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["verdict"], entry["preemption"]["answer"]) == ("not_now", answer)
    if answer == "helps":
        assert (entry["preemption"]["others"], entry["preemption"]["namespaces"]) == (2, [])
        assert "lower priority for it: 2 pods of others." in entry["sentence"]


def test_work_that_may_be_moved_is_named_for_a_group_that_may_be_moved_too(api, pool):
    """KAI consolidates before it preempts, and only for and with groups of priority LOW."""
    observe_queues(pool, own=(-1, 0))
    cheap = hold_cheaply(pool, "n0")
    low = verdict(post(api, pool, 3, "?feasibility=only&priority=LOW"))
    assert low["consolidation"] == {"answer": "possible", "workflows": [cheap.name]}
    assert f'if those find another place: "{cheap.name}".' in low["sentence"]
    assert "consolidation" in {line["code"] for line in low["not_examined"]}


@pytest.mark.parametrize(("guarantee", "answer"), [(24, "possible"), (23, "none"), (-1, "none")])
def test_work_of_another_queue_may_be_reclaimed_for_a_group_within_its_guarantee(
    api, pool, guarantee, answer
):
    observe_queues(pool, guarantee=guarantee, own=(-1, 0))
    cheap = hold_cheaply(pool, "n0")
    for group in cheap.groups.all():
        group.placement |= {"queue": "other"}
        group.save()
    entry = verdict(post(api, pool, 3, "?feasibility=only&priority=LOW"))
    assert entry["verdict"] == "not_now"
    named = [cheap.name] if answer == "possible" else []
    assert entry["reclaim"] == {"answer": answer, "workflows": named}
    assert ("may reclaim room for it" in entry["sentence"]) == bool(named)


@pytest.mark.parametrize(("seconds", "answer"), [(3600.0, "later"), (60.0, "helps")])
def test_work_that_has_not_run_for_its_minimum_time_is_spared(api, pool, seconds, answer):
    own = observe_queues(pool, own=(-1, 0), above=(-1, 0))
    cheap = hold_cheaply(pool, "n0")
    cheap.groups.update(start_time=timezone.now() - timedelta(minutes=10))
    queue = ObservedResource.objects.get(name="above")
    queue.reading |= {"preempt_min_runtime": seconds}
    queue.save()
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert own != "above"
    assert entry["preemption"]["answer"] == answer
    assert (entry["preemption"]["spared_until"] is not None) == (answer == "later")
    assert ("minimum time" in entry["sentence"]) == (answer == "later")


def test_the_minimum_time_counts_from_the_start_of_the_present_attempt(api, pool):
    observe_queues(pool, own=(-1, 0), above=(-1, 0))
    now = timezone.now()
    changes = {"attempt_number": 2, "start_time": now - timedelta(days=1), "ran_since": now}
    hold_cheaply(pool, "n0").groups.update(**changes)
    queue = ObservedResource.objects.get(name="above")
    queue.reading |= {"preempt_min_runtime": 3600.0}
    queue.save()
    assert verdict(post(api, pool, 3, "?feasibility=only"))["preemption"]["answer"] == "later"


def test_preemption_does_not_help_where_other_work_stands_in_the_way_too(api, pool):
    observe_queues(pool, own=(-1, 0))
    hold_cheaply(pool, "n0")
    hold(pool, "n1")
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert entry["preemption"]["answer"] == "does_not_help"


def test_preemption_makes_room_below_a_limit(api, pool):
    observe_queues(pool, own=(32, 0))
    hold_cheaply(pool, "n3", "n4")
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["obstacle"], entry["preemption"]["answer"]) == ("quota", "helps")


def test_without_the_queues_preemption_is_unknown(api, pool):
    hold_cheaply(pool, "n0")
    entry = verdict(post(api, pool, 3, "?feasibility=only"))
    assert (entry["preemption"]["answer"], entry["consolidation"]["answer"]) == ("unknown", "none")


def test_work_that_the_caller_may_not_list_is_not_named(as_user, pool):
    """The caller submits to the pool, and may list nothing there."""
    observe_queues(pool, own=(-1, 0))
    cheap = hold_cheaply(pool, "n0")
    bob = as_user("bob")
    creates = [{"actions": ["workflow:Create"], "resources": [f"pool/{pool.name}"]}]
    Role.objects.create(name="creator", policies=creates)
    User.objects.get(username="bob").role_assignments.create(role="creator")

    answer = post(bob, pool, 3, "?feasibility=only")

    assert cheap.name not in answer.content.decode()
    assert verdict(answer)["preemption"]["workflows"] == [ANOTHER_WORKFLOW]
