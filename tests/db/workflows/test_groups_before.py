"""A process keeps the rows of groups that go first as PostgreSQL has them, whoever wrote them and however."""

import random
from datetime import timedelta
from itertools import count

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pools.clusters.capabilities import capabilities_at
from scheduling.topology.requirements import Requirement
from tests.builders.forms import put_form
from tests.factories import (
    CLIQUE,
    RACK,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
    placement_of,
)
from web.recent_values import RecentValues
from workflows.feasibility.queues import queue_order
from workflows.feasibility.queues.queue_order import MOST_PLACED, MOST_PLACED_TASKS, read_groups_before
from workflows.feasibility.queues.waiting_groups import waiting_groups_in
from workflows.models import Task, TaskGroup

pytestmark = pytest.mark.django_db(transaction=True)

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 100))]
STEPS = 30
RACK_R = (Requirement("rack", "r", required=False, wait_seconds=60),)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch):
    monkeypatch.setattr(queue_order, "first_groups", RecentValues())


@pytest.fixture
def pool():
    return PoolFactory(levels=[RACK, CLIQUE])


def wait(pool, *, tasks=2, priority="NORMAL", ago=0, **fields):
    """A group that waits, submitted so many seconds ago. All tasks but the first are in one set."""
    workflow = WorkflowFactory(pool=pool, priority=priority)
    group = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, frozen={"priority": priority}, **fields)
    for number in range(tasks):
        TaskFactory(group=group, placement__requirements=RACK_R if number else ())
    TaskGroup.objects.filter(pk=group.pk).update(submit_time=timezone.now() - timedelta(seconds=ago))
    return group


def question_of(pool, *, priority="NORMAL", since=None, without=()):
    """The arguments by which a group of that priority asks for those before it."""
    backend = pool.backend
    return {
        "placement": placement_of(WorkflowFactory.build(pool=pool, backend=backend, priority=priority), pool),
        "cluster": backend.cluster_id,
        "since": since,
        "without": without,
        "capabilities": capabilities_at(backend.scheduler_type, backend.scheduler_version),
    }


def before(pool, **question):
    return read_groups_before(**question_of(pool, **question))


def names(groups):
    return [group.workflow for group in groups.first]


class Writers:
    """All that may write what counts of a waiting group: each of its steps is one of them, somewhere."""

    def __init__(self, pool, rng):
        self.pool, self.rng, self.names = pool, rng, count()

    def step(self):
        steps = [
            self.submit, self.submit, self.place, self.end, self.stop, self.remove, self.retry, self.relax,
            self.pin, self.pin, self.order, self.ease, self.again, self.lease, self.roll_back, self.queue,
        ]  # fmt: skip
        self.rng.choice(steps)()

    def submit(self):
        wait(
            self.pool,
            tasks=self.rng.randint(0, 3),
            priority=self.rng.choice(["LOW", "NORMAL", "HIGH"]),
            ago=self.rng.randint(0, 1000),
            status=self.rng.choice(["WAITING", "PROCESSING", "SCHEDULING"]),
        )

    def change(self, **fields):
        group = TaskGroup.objects.order_by("?").first()
        if group is not None:
            TaskGroup.objects.filter(pk=group.pk).update(**fields)

    def change_form(self, **values):
        put_form(TaskGroup.objects.order_by("?")[:1], **values)

    def change_several(self, **values):
        """Change the form of a group of several tasks: one of a single task has no set but itself."""
        put_form(TaskGroup.objects.filter(tasks__position=1).order_by("?")[:1], **values)

    def place(self):
        if task := Task.objects.order_by("?").first():
            Task.objects.filter(pk=task.pk).update(node_name=self.rng.choice(["n1", ""]))

    def end(self):
        self.change(status="COMPLETED", released_at=self.rng.choice([None, timezone.now()]))

    def stop(self):
        self.change(stop_status=self.rng.choice(["", "FAILED_CANCELED"]))

    def remove(self):
        if group := TaskGroup.objects.order_by("?").first():
            group.workflow.delete()

    def retry(self):
        if task := Task.objects.filter(latest=True).order_by("?").first():
            Task.objects.filter(pk=task.pk).update(latest=False)
            Task.objects.create(
                group=task.group,
                task_uuid=task.task_uuid,
                position=task.position,
                name=task.name,
                retry_id=task.retry_id + 1,
                status=task.status,
                spec={**task.spec, "gpu": self.rng.randint(1, 4)},
                pod_name=f"pod-{next(self.names)}",
            )

    def relax(self):
        self.change_form(stage=self.rng.randint(0, 1))

    def pin(self):
        set_of_rack = [{"key": "rack", "group": "r"}]
        self.change_several(pins=self.rng.choice([[], [{"set": set_of_rack, "domain": ["r1"]}]]))

    def order(self):
        parts = [[{"key": "rack", "group": "r"}], []]
        self.change_several(order=self.rng.choice([[], [{"set": [], "parts": parts}]]))

    def ease(self):
        self.change_form(preference_levels=self.rng.choice([None, 1]))

    def again(self):
        self.change(progress=self.rng.choice(["", "PROCESSING", "RUNNING"]))

    def lease(self):
        self.change(lease_until=timezone.now(), notifications=5)

    def roll_back(self):
        """A transaction that judges in between leaves nothing."""
        with transaction.atomic():
            self.submit()
            self.retry()
            before(self.pool)
            transaction.set_rollback(True)

    def queue(self):
        self.change(submit_time=timezone.now() - timedelta(seconds=self.rng.randint(0, 2000)))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_kept_rows_equal_those_read_anew_after_every_change(pool, monkeypatch, seed):
    rng = random.Random(seed)
    writers = Writers(pool, rng)
    for _ in range(STEPS):
        writers.step()
        question = {
            "priority": rng.choice(["LOW", "NORMAL", "HIGH"]),
            "since": rng.choice([None, timezone.now() - timedelta(seconds=500)]),
            "without": list(
                TaskGroup.objects.order_by("?").values_list("pk", flat=True)[: rng.randint(0, 1)]
            ),
        }
        kept = before(pool, **question)
        with monkeypatch.context() as patch:
            patch.setattr(queue_order, "first_groups", RecentValues())
            anew = before(pool, **question)
        assert kept == anew


def test_higher_priority_goes_first_then_who_came_first(pool):
    late, early = wait(pool, ago=1), wait(pool, ago=5)
    high = wait(pool, priority="HIGH")
    wait(pool, priority="LOW", ago=9)
    groups = before(pool)
    assert (groups.groups, groups.younger) == (3, 0)
    assert names(groups) == [group.workflow.name for group in (high, early, late)]


def test_a_group_that_waits_has_only_older_ones_and_those_of_higher_priority_before_it(pool):
    early, own = wait(pool, ago=9), wait(pool, ago=5)
    wait(pool, ago=1)
    high = wait(pool, priority="HIGH")
    since = TaskGroup.objects.get(pk=own.pk).submit_time
    groups = before(pool, since=since, without=[own.pk])
    assert (groups.groups, groups.younger) == (2, 1)
    assert names(groups) == [high.workflow.name, early.workflow.name]


def test_of_many_groups_only_the_first_are_read(pool):
    for ago in range(MOST_PLACED + 3):
        wait(pool, ago=ago)
    groups = before(pool)
    assert (groups.groups, len(groups.first)) == (MOST_PLACED + 3, MOST_PLACED)


def test_a_group_that_is_too_large_beside_the_first_is_not_read(pool, monkeypatch):
    monkeypatch.setattr(queue_order, "MOST_PLACED_TASKS", 5)
    first = wait(pool, tasks=6, ago=9)
    wait(pool, tasks=1, ago=5)
    assert MOST_PLACED_TASKS > 5
    assert names(before(pool)) == [first.workflow.name]


def test_a_group_of_a_version_that_this_release_cannot_read_counts_and_is_left_out(pool):
    newer = wait(pool, ago=9)
    older = wait(pool, ago=5)
    TaskGroup.objects.filter(pk=newer.pk).update(placement={**newer.placement, "version": 99})
    groups = before(pool)
    assert (groups.groups, names(groups)) == (2, [older.workflow.name])
    waiting = waiting_groups_in(pool.name)
    assert (waiting.count, [group.workflow for group in waiting.groups]) == (2, [older.workflow.name])


def test_an_unchanged_list_is_not_made_again_and_costs_one_statement(pool):
    first, second = wait(pool, ago=9), wait(pool, ago=5)
    kept = before(pool)
    TaskGroup.objects.filter(pk=first.pk).update(lease_until=timezone.now())
    put_form(TaskGroup.objects.filter(pk=second.pk), stage=1)
    question = question_of(pool)
    with CaptureQueriesContext(connection) as queries:
        now = read_groups_before(**question)
    assert len(queries) == 1
    assert now.first[0] is kept.first[0]
    assert now.first[1] is not kept.first[1]
