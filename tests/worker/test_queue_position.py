"""Where a group stands in a queue of somebody else's, by the Workloads of this service and of others."""

from functools import partial

import pytest
from django.utils import timezone

from pools.models import Cluster
from scheduling.backends.kueue import KUEUE
from scheduling.foreign.gang import GangKept, PodKept
from scheduling.queues.joined_queues import JoinedQueue, QueuePosition, QueueUsage
from tests.builders.completeness import note_lists
from tests.factories import TaskGroupFactory
from workflows.feasibility.queues.queue_position import is_first_in, position_in
from workflows.lifecycle.statuses import TaskStatus
from workflows.models import ObservedGang, ObservedObject
from workflows.values.observation import POD_GROUP

CLUSTER = "uid-of-cluster"
RESERVED = {"conditions": [{"type": "QuotaReserved", "status": "True"}]}


def queue(waiting):
    usage = QueueUsage("cq", 'ClusterQueue "cq"', waiting, (), frozenset({"osmo/team", "lab/mine"}))
    return JoinedQueue(name="team", usage=usage)


position = partial(position_in, scheduler_type="kueue", cluster=CLUSTER)


@pytest.fixture
def put(db):
    Cluster.objects.get_or_create(uid=CLUSTER)

    def put(second, *, priority=0, namespace="osmo", name="team", status=None, group=TaskStatus.SCHEDULING):
        row = TaskGroupFactory(status=group)
        digest = {
            "created": f"2026-11-23T12:00:{second:02}Z",
            "spec": {"queueName": name, "priority": priority},
            **({"status": status} if status else {}),
        }
        ObservedObject.objects.create(
            cluster_id=CLUSTER,
            kind=POD_GROUP,
            namespace=namespace,
            name=f"w-{row.pk}",
            uid=str(row.pk),
            group_uuid=row.pk,
            digest=digest,
            seen_at=timezone.now(),
        )
        return row.pk

    return put


def test_groups_of_all_its_local_queues_count_by_priority_and_time(put):
    own = put(10)
    put(20)  # younger
    put(5, namespace="lab", name="mine")  # older
    put(30, priority=100)
    assert position(queue(4), group=own) == QueuePosition(before=2, behind=1)


def put_of_others(second, *, priority=0, namespace="osmo", name="team", **spec):
    workload = {
        "metadata": {"namespace": namespace, "name": f"job-{second}", "uid": str(second)},
        "spec": {"queueName": name, "priority": priority, "podSets": [{"name": "main", "count": 2}], **spec},
    }
    kind = KUEUE.foreign.kinds[0]
    gang = GangKept(
        resource=kind.crd,
        namespace=namespace,
        name=f"job-{second}",
        created=f"2026-11-23T12:00:{second:02}Z",
        obj=KUEUE.foreign.keep(kind, workload, pod_of=lambda template: PodKept(requests={})),
    )
    ObservedGang.objects.create(
        cluster_id=CLUSTER,
        resource=kind.crd,
        namespace=namespace,
        name=gang.name,
        queue=gang.obj["queue"],
        content=gang.to_json(),
        seen_at=timezone.now(),
    )


def test_workloads_of_others_that_are_followed_count_too(put):
    own = put(10)
    put_of_others(5)
    put_of_others(20)
    put_of_others(30, priority=100, namespace="lab", name="mine")
    put_of_others(1, name="another")
    put_of_others(2, namespace="lab")
    assert position(queue(4), group=own) == QueuePosition(before=2, behind=1)


def test_a_workload_of_others_that_somebody_switched_off_does_not_count(put):
    own = put(10)
    put_of_others(5, active=False)
    put_of_others(20)
    assert position(queue(2), group=own) == QueuePosition(before=0, behind=1)


def test_groups_elsewhere_admitted_or_ended_do_not_count(put):
    own = put(10)
    put(1, name="another")
    put(1, namespace="lab")
    put(1, status=RESERVED)
    put(1, group=TaskStatus.COMPLETED)
    assert position(queue(2), group=own) == QueuePosition(before=0, behind=0)


def test_an_admitted_group_and_one_that_waits_alone_have_no_position(put, django_assert_num_queries):
    own = put(10, status=RESERVED)
    assert position(queue(3), group=own) is None
    with django_assert_num_queries(0):
        assert position(queue(1), group=own) is None


first = partial(is_first_in, scheduler_type="kueue", cluster=CLUSTER)


def follow_others(problem="", **fields):
    note_lists({"workloads.kueue.x-k8s.io": problem}, **fields)


def test_a_group_goes_first_where_all_that_wait_are_known_and_behind_it(put):
    own = put(10)
    follow_others()
    put_of_others(20)
    assert first(queue(2), group=own)
    assert first(queue(0), group=own), "of a Kueue that counts no more"


BEFORE_IT = {
    "an older one of others": lambda put: put_of_others(5),
    "an older one of ours": lambda put: put(5),
    "one of the same second": lambda put: put(10),
    "one that is not known": lambda put: None,
    "one that may be left out": lambda put: follow_others(gangs_omitted=1),
    "one of those that nobody follows": lambda put: follow_others(None),
}


@pytest.mark.parametrize("case", BEFORE_IT)
def test_a_group_may_not_be_first_beside(put, case):
    own = put(10)
    follow_others()
    put_of_others(20)
    BEFORE_IT[case](put)
    assert not first(queue(3), group=own)
