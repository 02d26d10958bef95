"""The rows that the observer reads to write a change do not grow with its cluster."""

from uuid import uuid4

import pytest
from django.db import connection

from tests.factories import BackendFactory
from workflows.models import ObservedObject, ObservedPod
from workflows.observer.inbox import Batch
from workflows.observer.writer import write
from workflows.values.observation import ObjectSeen, PodSeen

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


@pytest.mark.parametrize(("seen", "model"), [(pod, ObservedPod), (compute_domain, ObservedObject)])
def test_a_change_of_one_object_reads_no_other_row(seen, model):
    cluster = BackendFactory().cluster_id
    write_all(cluster, [seen(number, 1) for number in range(MANY)])
    before = rows_read(model)
    write_all(cluster, [seen(7, 3)])
    assert rows_read(model) - before < MANY / 10
    write_all(cluster, [seen(7, 2)])
    assert model.objects.get(uid="uid-7").resource_version == "3"
