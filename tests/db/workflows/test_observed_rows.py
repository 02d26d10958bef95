"""The rows that the observer reads to write a change do not grow with its cluster."""

from uuid import uuid4

import pytest
from django.db import connection

from pools.models import Node
from tests.factories import BackendFactory
from workflows.models import ObservedObject, ObservedPod
from workflows.observer.inbox import Batch
from workflows.observer.writer import write
from workflows.values.observation import NodeSeen, ObjectSeen, PodSeen

MANY = 300
READ = """
    SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0) FROM pg_stat_xact_user_tables WHERE relname = %s
"""

pytestmark = pytest.mark.django_db


def pod(number, version):
    home = {"namespace": "osmo", "name": f"pod-{number}", "uid": f"uid-{number}", "group_uuid": uuid4()}
    return PodSeen(**home, phase="Running", digest={"n": number}, resource_version=str(version))


def compute_domain(number, version):
    home = {"namespace": "osmo", "name": f"domain-{number}", "uid": f"uid-{number}", "group_uuid": uuid4()}
    return ObjectSeen(kind="ComputeDomain", **home, digest={}, resource_version=str(version))


def write_all(cluster, changes):
    batch = Batch(is_reachable=True)
    for change in changes:
        batch.add(change)
    write(cluster, batch)


def rows_read(model):
    with connection.cursor() as cursor:
        cursor.execute(READ, [model._meta.db_table])
        return cursor.fetchone()[0]


def analyze(model):
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {model._meta.db_table}")


@pytest.mark.parametrize(("seen", "model"), [(pod, ObservedPod), (compute_domain, ObservedObject)])
def test_a_change_of_one_object_reads_no_other_row(seen, model):
    cluster = BackendFactory().cluster_id
    write_all(cluster, [seen(number, 1) for number in range(MANY)])
    analyze(model)  # or a plan is for the empty table that an automatic one may have seen
    before = rows_read(model)
    write_all(cluster, [seen(7, 3)])
    assert rows_read(model) - before < MANY / 10
    write_all(cluster, [seen(7, 2)])
    assert model.objects.get(uid="uid-7").resource_version == "3"


def node(*taints, uid="uid-n0", version=1):
    return NodeSeen(
        name="n0",
        uid=uid,
        labels={},
        taints=tuple({"key": key, "effect": effect} for key, effect in taints),
        allocatable={},
        unschedulable=False,
        ready=True,
        resource_version=str(version),
    )


def taint_times(cluster, *versions):
    for version in versions:
        write_all(cluster, [version])
    return Node.objects.get(cluster=cluster, name="n0").taints_since


def test_a_taint_keeps_the_time_at_which_it_was_first_observed():
    cluster = BackendFactory().cluster_id
    first = taint_times(cluster, node(("a", "NoSchedule"), ("soft", "PreferNoSchedule")))
    assert list(first) == ["a"]
    later = taint_times(cluster, node(("a", "NoExecute"), ("b", "NoSchedule"), version=2))
    assert later["a"] == first["a"]
    assert later["b"] >= first["a"]


def test_a_taint_that_came_back_or_of_another_node_of_the_name_is_new():
    cluster = BackendFactory().cluster_id
    first = taint_times(cluster, node(("a", "NoSchedule")))
    back = taint_times(cluster, node(version=2), node(("a", "NoSchedule"), version=3))
    assert back["a"] > first["a"]
    other = taint_times(cluster, node(("a", "NoSchedule"), uid="another", version=4))
    assert other["a"] > back["a"]
