"""A database and a cluster in memory, and the processes between them played one after the other."""

from dataclasses import replace

from django.db import connection
from django.db.models.functions import Least

from cluster.kinds import COMPUTE_DOMAIN, EVENT, NODE, POD, RESOURCE_CLAIM_TEMPLATE
from pools.clusters.kinds import pod_group_kind
from scheduling import names
from scheduling.backends.registry import installed
from tests.factories import BackendFactory, PoolFactory, TaskGroupFactory
from tests.fakes import players
from tests.fakes.cluster import FakeCluster
from workflows.logs.archive import keep_before_delete
from workflows.models import Task, TaskGroup, Workflow
from workflows.observer.inbox import Batch
from workflows.observer.sources import event_reducer, pod_group_reducer
from workflows.observer.streams import Memory
from workflows.observer.writer import write
from workflows.reconcile.batches import advance
from workflows.reconcile.run import run
from workflows.services.lease import take_lease
from workflows.services.record import BATCHED
from workflows.values.observation import see_claim_template, see_compute_domain, see_node, see_pod

REDUCERS = {
    POD: see_pod,
    COMPUTE_DOMAIN: see_compute_domain,
    RESOURCE_CLAIM_TEMPLATE: see_claim_template,
    NODE: see_node,
}
ROUNDS = 60
FROZEN = ("placement", "spec")
OF_EACH_RECONCILE = ("next_reconcile_at", "lease_token", "lease_worker", "lease_until", "failures")
MAKE_DUE = f"""
    UPDATE workflows_taskgroup AS g SET next_reconcile_at = clock_timestamp()
     WHERE uuid = %s AND released_at IS NULL RETURNING {BATCHED}
"""
TRIES = 6  # of a reconcile that fails; after as many, more of them tell nothing new


class World:
    """``ends`` maps pod names to the exit codes they end with once they run."""

    def __init__(self, *, scheduled=True, further=()):
        self.ends = {}
        self.running = [players.kubelet, self._finish, players.compute_domain_controller]
        acting = [players.scheduler, *self.running] if scheduled else self.running
        self.cluster = FakeCluster(players=acting, further=further)
        self.uid = self.cluster.kube_system_uid()
        pod_groups = {
            pod_group_kind(scheduler): pod_group_reducer(scheduler)
            for scheduler in installed().values()
            if scheduler.pod_group
        }
        self._reducers = REDUCERS | {EVENT: event_reducer(installed().values())} | pod_groups
        self._watched_by_label = {POD, COMPUTE_DOMAIN, *pod_groups}
        self._memory = {kind: Memory(()) for kind in self._reducers}

    def _finish(self, cluster):
        players.finish(self.ends)(cluster)

    def pool(self, **changes):
        backend = changes.pop("backend", {})
        return PoolFactory(backend=BackendFactory(cluster__uid=self.uid, **backend), **changes)

    def group(self, *, pods=2, pool=None, **changes):
        return TaskGroupFactory(pool=pool or self.pool(nvlink=True), pods=pods, **changes)

    def observe(self):
        """What the observer would have written by now."""
        batch = Batch(is_reachable=True)
        for kind, see in self._reducers.items():
            objs = [
                obj for obj in self.cluster.all(kind) if kind not in self._watched_by_label or _is_ours(obj)
            ]
            items = [seen for obj in objs if (seen := see(obj)) is not None]
            memory = self._memory[kind]
            for gone in memory.vanished(items):
                if kind != EVENT:
                    batch.add(_gone(gone))
            for item in items:
                if memory.changed(item):
                    batch.add(item)
        write(self.uid, batch)

    def reconcile(self, group):
        """Reconcile a group once, due or not."""
        with connection.cursor() as cursor:
            cursor.execute(MAKE_DUE, [group.pk])
            row = cursor.fetchone()
        if row and row[0]:
            advance(group.workflow_id)
        lease = take_lease(group.pk)
        return run(lease, cluster=self.cluster, archive=keep_before_delete) if lease else None

    def step(self, *groups):
        """Let the observer write, and reconcile each unreleased group once."""
        self.observe()
        chosen = {group.pk for group in groups}
        rows = TaskGroup.objects.filter(released_at=None).order_by("workflow_id", "position")
        for group in rows:
            if not chosen or group.pk in chosen:
                self.reconcile(group)

    def settle(self, *groups):
        """Go on until nothing changes any more."""
        after = self._state()
        for _ in range(ROUNDS):
            before = after
            self.step(*groups)
            after = self._state()
            if after == before:
                return
        raise AssertionError(f"not settled in {ROUNDS} rounds: {after}")

    def _state(self):
        """What a round reads and writes of groups: if one left it as it was, the next one does, too."""
        failures = Least("failures", TRIES)
        groups = TaskGroup.objects.order_by("pk").values_list(*_columns(TaskGroup), failures)
        tasks = Task.objects.order_by("pk").values_list(*_columns(Task))
        return self.cluster._version, list(groups), list(tasks)

    def pods(self):
        return self.cluster.names(POD)

    def uids(self, kind):
        return {obj["metadata"]["uid"] for obj in self.cluster.all(kind)}

    def finish(self, group, code=0, *, tasks=None):
        """End the running pods of a group (or of its tasks by name) with an exit code."""
        for task in group.tasks.filter(latest=True):
            if tasks is None or task.name in tasks:
                self.ends[task.pod_name] = code
        self.cluster._play()


def _columns(model):
    return [
        field.attname for field in model._meta.concrete_fields if field.name not in FROZEN + OF_EACH_RECONCILE
    ]


def _is_ours(obj):
    return names.INSTALLATION_LABEL in (obj["metadata"].get("labels") or {})


def _gone(change):
    return replace(change, absent=True)


def fresh(group):
    return TaskGroup.objects.get(pk=group.pk)


def statuses(group):
    """Statuses of the latest tries, in order."""
    return list(group.tasks.filter(latest=True).order_by("position").values_list("status", flat=True))


def workflow_of(group):
    return Workflow.objects.get(pk=group.workflow_id)


def chain(world, *, pods=1, **changes):
    """A group and one that waits for it."""
    first = world.group(pods=pods, **changes)
    second = TaskGroupFactory(
        workflow=first.workflow, pool=None, pods=pods, status="WAITING", placement=first.placement
    )
    second.upstream.add(first)
    return first, second
