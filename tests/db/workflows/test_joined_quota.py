"""The quota of somebody else's queue in the verdict on a group that joins it."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from pools.models import Cluster, ObservedQueue, ObservedTopology
from scheduling.backends.kueue import Kueue
from scheduling.topology.levels import HOSTNAME_LABEL
from tests.factories import NodeFactory, PoolFactory, TaskFactory, TaskGroupFactory
from tests.fakes import kueue_objects
from workflows.feasibility.verdict.report import feasibility
from workflows.models import ObservedObject, TaskGroup
from workflows.selectors import group_values
from workflows.values.observation import POD_GROUP
from workflows.values.placement import GroupPlacement

pytestmark = pytest.mark.django_db
KINDS = ["topologies.kueue.x-k8s.io", *(kind.crd for kind in Kueue.joined_kinds)]


@pytest.fixture
def group():
    """A group of one task with 8 GPUs, which waits in a queue of 8 GPUs; all of them are reserved."""
    pool = PoolFactory(backend__scheduler_type="kueue", local_queue="team")
    cluster = pool.backend.cluster
    NodeFactory(cluster=cluster, name="n1")
    Cluster.objects.update(topologies_listed=KINDS, queues_synced_at=timezone.now())
    objects = kueue_objects.readings(
        kueue_objects.local_queue(f"{pool.backend.namespace}/team", "cq"),
        kueue_objects.cluster_queue("cq", ("h100", 8), used=8),
        kueue_objects.flavor("h100", {}, "floor"),
    )
    ObservedTopology.objects.create(
        cluster=cluster, resource=KINDS[0], name="floor", labels=[HOSTNAME_LABEL], seen_at=timezone.now()
    )
    for (resource, name), reading in objects.items():
        ObservedQueue.objects.create(
            cluster=cluster, resource=resource, name=name, reading=reading, seen_at=timezone.now()
        )
    group = TaskGroupFactory(pool=pool, pods=0, status="SCHEDULING")
    TaskFactory(group=group, status="SCHEDULING", placement__gpu=8)
    TaskGroup.objects.update(placement={**group.placement, "queue": "team"})
    return TaskGroup.objects.get()


def answers(group):
    """The verdict and its part on quota."""
    values = group_values(group, GroupPlacement.from_json(group.placement, group.optional_placement))
    root = User.objects.get_or_create(username="root", is_superuser=True)[0]
    (report,) = feasibility([values], cluster=group.backend.cluster_id, user=root, now=timezone.now())
    return str(report.verdict.answer), str(report.verdict.quota.answer)


def put_workload(group, *, namespace, admitted=True):
    conditions = [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")]
    ObservedObject.objects.create(
        cluster=group.backend.cluster,
        kind=POD_GROUP,
        namespace=namespace,
        name="w",
        uid="w",
        group_uuid=group.pk,
        digest={"status": {"conditions": conditions if admitted else []}},
        seen_at=timezone.now(),
    )


def test_reservations_of_others_leave_no_quota(group):
    put_workload(group, namespace=group.placement["namespace"], admitted=False)
    assert answers(group) == ("not_now", "short")


def test_a_reservation_of_the_group_itself_is_not_in_its_way(group):
    put_workload(group, namespace=group.placement["namespace"])
    assert answers(group) == ("now", "admits")


def test_a_workload_in_another_namespace_is_not_the_groups(group):
    put_workload(group, namespace="elsewhere")
    assert answers(group) == ("not_now", "short")


RESERVING = {
    "its admission checks are not done": [{"type": "QuotaReserved", "status": "True"}],
    "it is evicted, and its pods are not gone": [
        *({"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")),
        {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "m"},
    ],
}


@pytest.mark.parametrize("case", RESERVING)
def test_flavors_reservation_holds_the_group_from_its_reservation_on(group, case):
    put_workload(group, namespace=group.placement["namespace"])
    ObservedObject.objects.update(digest={"status": {"conditions": RESERVING[case]}})
    assert answers(group) == ("now", "admits")
