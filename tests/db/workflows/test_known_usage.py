"""The usage that a process keeps is what PostgreSQL has, whoever wrote it and however."""

import random
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pools.clusters.capabilities import capabilities_at
from pools.models import Cluster, ForeignUsage, Node
from pools.values.completeness import OTHERS
from scheduling.topology.levels import Level
from tests.builders.completeness import note_lists
from tests.factories import ClusterFactory, NodeFactory, PoolFactory, TaskFactory, TaskGroupFactory
from web.recent_values import RecentValues
from workflows.feasibility.capacity import known_nodes, known_usage
from workflows.feasibility.capacity.known_usage import cluster_usage
from workflows.feasibility.capacity.node_snapshot import observed_nodes
from workflows.models import Task, TaskGroup

pytestmark = pytest.mark.django_db(transaction=True)

RACK = Level("rack", "example.com/rack")
NODES = [f"n{number}" for number in range(8)]
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 100))]
STEPS = 30


@contextmanager
def nothing_kept():
    """As a process that has just started."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in (
            (known_nodes, ("tables", "snapshots", "counted_places")),
            (known_usage, ("usages_of_groups", "usages_of_others")),
        ):
            for name in names:
                patch.setattr(module, name, RecentValues())
        yield


@pytest.fixture(autouse=True)
def fresh_process():
    with nothing_kept():
        yield


@pytest.fixture
def pool():
    cluster = ClusterFactory(uid="usage")
    note_lists({OTHERS: ""}, cluster=cluster)
    for number, name in enumerate(NODES):
        NodeFactory(cluster=cluster, name=name, labels={RACK.label: f"r{number // 2}"})
    return PoolFactory(backend__cluster=cluster, levels=[RACK])


def running(pool, *nodes, **fields):
    """A group with a running task on each of the nodes."""
    group = TaskGroupFactory(pool=pool, pods=0, status="RUNNING", start_time=timezone.now(), **fields)
    for node in nodes:
        TaskFactory(group=group, node_name=node)
    return group


def usage(pool):
    return cluster_usage(pool.backend.cluster_id, others_known=True)


def observed(pool, *, without=()):
    capabilities = capabilities_at(pool.backend.scheduler_type, pool.backend.scheduler_version)
    return observed_nodes(
        pool.backend.cluster_id, selectors=[{}], levels=[RACK], capabilities=capabilities, without=without
    )


def held(of):
    return sorted(of.of_groups.holdings)


class Writers:
    """All that may write what counts: each of its steps is one of them, somewhere."""

    def __init__(self, pool, rng):
        self.pool, self.rng, self.names = pool, rng, count()

    def step(self):
        steps = [
            self.begin, self.begin, self.place, self.end_task, self.end_group, self.release, self.remove,
            self.retry, self.start, self.others_write, self.others_go, self.cordon, self.label,
            self.roll_back, self.lose_sight_of_others, self.move_backend, self.look_at_groups,
        ]  # fmt: skip
        self.rng.choice(steps)()

    def _node(self):
        return self.rng.choice([*NODES, "unknown", ""])

    def _any(self, rows):
        return rows.order_by("?").first() if rows.exists() else None

    def begin(self):
        running(self.pool, *(self._node() for _ in range(self.rng.randint(1, 5))))

    def place(self):
        if task := self._any(Task.objects.filter(node_name="")):
            Task.objects.filter(pk=task.pk).update(node_name=self._node())

    def end_task(self):
        if task := self._any(Task.objects.filter(status="RUNNING")):
            Task.objects.filter(pk=task.pk).update(status="COMPLETED")

    def end_group(self):
        if group := self._any(TaskGroup.objects.filter(status="RUNNING")):
            group.tasks.update(status="COMPLETED")
            TaskGroup.objects.filter(pk=group.pk).update(status="COMPLETED")

    def release(self):
        rows = TaskGroup.objects.filter(status="COMPLETED", released_at=None)
        if group := self._any(rows):
            TaskGroup.objects.filter(pk=group.pk).update(released_at=timezone.now())

    def remove(self):
        if group := self._any(TaskGroup.objects.all()):
            group.workflow.delete()

    def retry(self):
        if task := self._any(Task.objects.filter(status="COMPLETED", latest=True)):
            Task.objects.filter(pk=task.pk).update(latest=False)
            Task.objects.create(
                group=task.group,
                task_uuid=task.task_uuid,
                position=task.position,
                name=task.name,
                retry_id=task.retry_id + 1,
                status="RUNNING",
                spec=task.spec,
                pod_name=f"pod-{next(self.names)}",
                node_name=self._node(),
            )

    def start(self):
        if group := self._any(TaskGroup.objects.all()):
            later = timezone.now() + timedelta(seconds=self.rng.randint(1, 1000))
            fields = self.rng.choice([{"start_time": later}, {"attempt_number": 2, "ran_since": later}])
            TaskGroup.objects.filter(pk=group.pk).update(**fields)

    def others_write(self):
        ForeignUsage.objects.update_or_create(
            cluster_id=self.pool.backend.cluster_id,
            node=self._node(),
            defaults={
                "gpu": self.rng.randint(0, 2), "cpu": 0, "memory": 0, "storage": 0, "pods": 1,
                "seen_at": timezone.now(),
            },
        )  # fmt: skip

    def others_go(self):
        if row := self._any(ForeignUsage.objects.all()):
            row.delete()

    def cordon(self):
        Node.objects.filter(name=self._node()).update(unschedulable=self.rng.random() < 0.5)

    def label(self):
        Node.objects.filter(name=self._node()).update(labels={RACK.label: f"r{self.rng.randint(0, 3)}"})

    def roll_back(self):
        """A transaction that judges in between leaves nothing."""
        with transaction.atomic():
            self.begin()
            self.end_group()
            self.others_write()
            observed(self.pool)
            transaction.set_rollback(True)

    def lose_sight_of_others(self):
        note_lists({OTHERS: self.rng.choice([None, ""])}, cluster=Cluster.objects.get(pk="usage"))

    def move_backend(self):
        cluster = ClusterFactory(uid=self.rng.choice(["usage", "usage", "elsewhere"]))
        type(self.pool.backend).objects.filter(pk=self.pool.backend_id).update(cluster=cluster)

    def look_at_groups(self):
        TaskGroup.objects.update(notifications=5)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_kept_rows_equal_those_read_anew_after_every_change(pool, seed):
    rng = random.Random(seed)
    writers = Writers(pool, rng)
    groups = TaskGroup.objects.order_by("?").values_list("pk", flat=True)
    for _ in range(STEPS):
        writers.step()
        without = list(groups[:1]) if rng.random() < 0.3 else ()
        kept = observed(pool, without=without)
        with nothing_kept():
            anew = observed(pool, without=without)
        assert kept.freshness.observed_at == anew.freshness.observed_at
        assert replace(kept, freshness=anew.freshness) == anew  # which has the clock of its reading


def test_a_look_at_a_group_changes_nothing(pool):
    running(pool, "n1", "n2")
    before = usage(pool)
    TaskGroup.objects.update(notifications=7)
    assert usage(pool).of_groups is before.of_groups


def test_an_unchanged_node_is_not_read_again(pool):
    for node in NODES:
        running(pool, node)
    first = observed(pool)
    Task.objects.filter(node_name="n3").update(status="COMPLETED")
    second = observed(pool)
    changed = [a.name for a, b in zip(first.snapshot.nodes, second.snapshot.nodes, strict=True) if a is not b]
    assert changed == ["n3"]


def test_the_same_usage_gives_the_same_snapshot(pool):
    running(pool, "n1")
    assert observed(pool).snapshot is observed(pool).snapshot


def test_one_statement_each_reads_what_changed_of_groups_and_of_others(pool):
    running(pool, "n1")
    usage(pool)
    running(pool, "n2")
    with CaptureQueriesContext(connection) as queries:
        assert held(usage(pool)) == ["n1", "n2"]
    assert len(queries) == 2


def test_tasks_that_wait_for_nodes_and_those_that_ended_are_not_read(pool):
    running(pool, "n1", "n2")
    add_tasks(running(pool), 2000, node_name="", status="SCHEDULING")
    add_tasks(running(pool), 4000, node_name="n3", status="COMPLETED")
    with CaptureQueriesContext(connection) as queries:
        assert held(usage(pool)) == ["n1", "n2"]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("ANALYZE workflows_task, workflows_taskgroup")  # as a database does by itself
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {queries[0]['sql']}")
        [plan] = cursor.fetchone()[0]
    assert [part for part in reads_of_tasks(plan["Plan"]) if rows_read(part) > 2] == []


def add_tasks(group, count, **fields):
    tasks = (TaskFactory.build(group=group, position=number, **fields) for number in range(count))
    Task.objects.bulk_create(tasks)


def reads_of_tasks(plan):
    if plan.get("Relation Name") == "workflows_task":
        yield plan
    for part in plan.get("Plans", ()):
        yield from reads_of_tasks(part)


def rows_read(part):
    return part["Actual Rows"] + part.get("Rows Removed by Filter", 0)


def test_the_usage_of_a_group_that_is_judged_itself_counts_as_free_for_that_verdict_alone(pool):
    group = running(pool, "n1")
    running(pool, "n2")
    judged = observed(pool, without=[group.pk])
    assert [node.name for node in judged.snapshot.nodes if node.holdings] == ["n2"]
    assert [node.name for node in observed(pool).snapshot.nodes if node.holdings] == ["n1", "n2"]


def test_a_group_in_its_second_attempt_ran_from_when_all_its_tasks_had_nodes_again(pool):
    again = timezone.now()
    group = running(pool, "n1")
    assert usage(pool).groups[group.pk].started == group.start_time
    TaskGroup.objects.update(attempt_number=2, ran_since=again)
    assert usage(pool).groups[group.pk].started == again


def test_the_sums_of_a_queue_are_those_of_its_groups(pool):
    groups = [running(pool, "n1", "n2"), running(pool, "n2")]
    kind = usage(pool).groups[groups[0].pk].kind
    assert usage(pool).total([kind])[0] == 3
    groups[0].workflow.delete()
    assert usage(pool).total([kind])[0] == 1
    assert usage(pool).without([groups[1].pk]).total([kind])[0] == 0


@pytest.mark.parametrize(("claims", "gpus"), [(True, 5), (False, 1)])
def test_room_beside_a_claim_that_its_scheduler_sets_aside_is_in_use(pool, claims, gpus):
    group = TaskGroupFactory(
        pool=pool,
        pods=0,
        status="RUNNING",
        start_time=timezone.now(),
        frozen={"claim_gpus": {"gpu": 5}},
    )
    TaskFactory(group=group, node_name="n1", placement__claims_channel=claims)
    (holding,), *_ = usage(pool).on("n1")
    assert holding.amounts[0] == gpus
