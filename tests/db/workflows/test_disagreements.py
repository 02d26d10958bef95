"""A scheduler that leaves a gang waiting although it fits is found, and nothing else is called so."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pools import conditions
from pools.models import Backend, Cluster, Node
from pools.values.completeness import OTHERS
from scheduling.gang.gang_form import USUAL_FORM
from tests.builders.completeness import note_lists
from tests.builders.gangs import NATIVE, set_frozen, waiting_gang
from tests.builders.joined_queues import put_workload, queued_gang
from tests.builders.nodes import racked_pool
from tests.builders.observed_queues import observe_queues
from tests.factories import BackendFactory
from workflows.models import Event, Task, TaskGroup
from workflows.services import disagreements

pytestmark = pytest.mark.django_db

SIZES = {"left": 2}
HOURS_AGO = timezone.now() - timedelta(hours=3)


@pytest.fixture
def pool():
    """Two racks of eight nodes, all of which is known of."""
    made = racked_pool(8, 8, backend=BackendFactory(**NATIVE))
    note_lists({OTHERS: ""})
    return made


def gang(pool, *, age=60, **more):
    """A gang that waits for its scheduler, all objects of which were made a while ago."""
    group = waiting_gang(pool, age=age, sizes=SIZES)
    values = {"waiting_why": "topology", "waiting_reason": "No rack has room."}
    values["created_in_cluster_at"] = timezone.now() - timedelta(seconds=age)
    TaskGroup.objects.filter(pk=group.pk).update(**values | more)
    return group


def judge(pool, *, after=0.0):
    """A turn, as if so many seconds had gone by since the one before."""
    cluster = pool.backend.cluster_id
    for group in TaskGroup.objects.all():
        for entry in group.conditions:
            since = timezone.datetime.fromisoformat(entry["lastTransitionTime"])
            entry["lastTransitionTime"] = (since - timedelta(seconds=after)).isoformat()
        group.save(update_fields=["conditions"])
    if cluster in disagreements.clusters_judged():
        disagreements.judge(cluster)


def status(group):
    entries = TaskGroup.objects.get(pk=group.pk).conditions
    return conditions.status_of(entries, "SchedulerDisagrees")


def backend_says(pool):
    found = conditions.find(Backend.objects.get(pk=pool.backend_id).conditions, "SchedulerDisagrees")
    return found and (found["status"], found["message"])


def test_a_gang_that_has_fitted_for_long_enough_says_that_its_scheduler_disagrees(pool):
    group = gang(pool)
    judge(pool)
    assert (status(group), backend_says(pool)) == ("Unknown", None)
    judge(pool, after=200)
    assert status(group) == "Unknown"
    before = TaskGroup.objects.get(pk=group.pk).notifications
    judge(pool, after=101)
    assert status(group) == "True"
    assert backend_says(pool) == ("True", "1 task group fits and is not placed.")
    assert TaskGroup.objects.get(pk=group.pk).notifications > before
    (event,) = Event.objects.filter(reason="SchedulerDisagrees")
    assert "It has fitted since " in event.message


def test_a_gang_is_reconciled_once_it_fits_for_its_scheduler_may_have_to_be_woken(pool):
    group = gang(pool)
    before = TaskGroup.objects.get(pk=group.pk).notifications
    judge(pool)
    assert TaskGroup.objects.get(pk=group.pk).notifications > before


def test_it_is_over_when_the_gang_is_placed(pool):
    group = gang(pool)
    for after in (0, 301):
        judge(pool, after=after)
    Task.objects.filter(group=group).update(node_name="n0")
    judge(pool)
    assert (status(group), backend_says(pool)) == (
        "False",
        ("False", "No task group is known that certainly fits and is not placed."),
    )
    assert Event.objects.filter(reason="SchedulerDisagreesNoMore").count() == 1


def test_a_backend_says_that_it_is_over_although_its_gang_is_gone(pool):
    group = gang(pool)
    for after in (0, 301):
        judge(pool, after=after)
    TaskGroup.objects.filter(pk=group.pk).update(status="FAILED_CANCELED", released_at=timezone.now())
    judge(pool)
    assert backend_says(pool) == ("False", "No task group is known that certainly fits and is not placed.")


def test_a_turn_in_which_it_does_not_fit_begins_the_time_anew(pool):
    group = gang(pool)
    judge(pool)
    Node.objects.update(unschedulable=True)
    judge(pool, after=200)
    assert status(group) == "False"
    Node.objects.update(unschedulable=False)
    judge(pool)
    judge(pool, after=200)
    assert status(group) == "Unknown"


def test_turns_that_were_missed_begin_the_time_anew(pool):
    group = gang(pool)
    judge(pool)
    Cluster.objects.update(schedulers_judged_at=timezone.now() - timedelta(seconds=100))
    judge(pool, after=400)
    assert status(group) == "False"


def test_turns_that_were_missed_take_nothing_back(pool):
    group = gang(pool)
    for after in (0, 301):
        judge(pool, after=after)
    Cluster.objects.update(schedulers_judged_at=timezone.now() - timedelta(seconds=100))
    judge(pool)
    assert status(group) == "True"


def test_a_gang_that_had_no_turn_stays_as_it_is(pool):
    group = gang(pool)
    judge(pool)
    disagreements.judge(pool.backend.cluster_id, seconds=0.0)
    assert status(group) == "Unknown"


@pytest.mark.parametrize(
    "held_back",
    [
        {"other_form": USUAL_FORM.to_json()},
        {"form_state": "order"},
        {"clearing": True},
        {"stop_status": "FAILED_CANCELED"},
        {"waiting_why": "claim_template"},
        {"created_in_cluster_at": None},
        {"waiting_evidence": {"pod_changes": ["cpu"]}},
    ],
    ids=lambda values: next(iter(values)),
)
def test_nothing_is_said_of_a_gang_that_waits_for_something_else(pool, held_back):
    group = gang(pool, **held_back)
    for after in (0, 301):
        judge(pool, after=after)
    assert status(group) is None


@pytest.mark.parametrize(
    "unknown",
    [lambda: note_lists({OTHERS: None}), lambda: Cluster.objects.update(heartbeat_at=HOURS_AGO)],
    ids=["others", "observer"],
)
def test_nothing_is_said_of_a_cluster_that_is_not_known_in_full(pool, unknown):
    group = gang(pool)
    unknown()
    for after in (0, 301):
        judge(pool, after=after)
    assert status(group) is None


def in_a_queue_of_kueue(*, why="topology"):
    """A gang that waits for room, and so has no pods."""
    group = queued_gang(used=0)
    note_lists({OTHERS: ""})
    minute_ago = timezone.now() - timedelta(minutes=1)
    TaskGroup.objects.update(waiting_why=why, scheduling_start_time=minute_ago, submit_time=minute_ago)
    return group


def test_a_gang_that_kueue_does_not_admit_although_it_fits_is_called_so():
    group = in_a_queue_of_kueue()
    put_workload(group)
    for after in (0, 301):
        judge(group, after=after)
    assert status(group) == "True"


@pytest.mark.parametrize(
    "answer",
    [["QuotaReserved"], ["QuotaReserved", "Admitted"], ["QuotaReserved", "Admitted", "Evicted"], ["Evicted"]],
    ids=["its checks are not done", "admitted", "its room was taken back", "evicted"],
)
def test_nothing_is_said_of_a_gang_that_kueue_has_answered(answer):
    group = in_a_queue_of_kueue(why="scheduler")
    put_workload(group, *answer)
    for after in (0, 301):
        judge(group, after=after)
    assert status(group) is None


def test_nothing_is_said_of_a_gang_that_kueue_was_not_asked_about():
    group = in_a_queue_of_kueue()
    for after in (0, 301):
        judge(group, after=after)
    assert status(group) is None


def test_of_a_queue_of_kai_only_the_gang_that_others_do_not_go_before_is_called_so():
    pool = racked_pool(8, 8)
    observe_queues(pool, own=(-1, 0), above=(-1, 0))
    note_lists({OTHERS: ""})
    older, younger = gang(pool, age=100), gang(pool, age=60)
    for after in (0, 301):
        judge(pool, after=after)
    assert (status(older), status(younger)) == ("True", None)


def test_nothing_is_said_of_a_gang_whose_queue_is_not_known():
    pool = racked_pool(8, 8)
    note_lists({OTHERS: ""})
    group = gang(pool)
    for after in (0, 301):
        judge(pool, after=after)
    assert status(group) is None


def test_a_gang_of_a_newer_release_is_left_to_it(pool):
    group = gang(pool)
    set_frozen(group, of_tomorrow=True)
    judge(pool)
    assert status(group) is None
