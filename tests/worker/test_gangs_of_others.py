"""Gangs of others that wait, followed by the observer on a cluster in memory: real threads, real rows."""

import threading

import pytest

from cluster import watch
from cluster.kinds import NAMESPACE, POD
from pools.clusters import connect
from pools.models import Cluster
from tests.builders.waiting import until
from tests.fakes.kinds import KAI_POD_GROUP
from tests.worker.world import World
from workflows.models import ObservedGang
from workflows.observer import cluster_observer, gang_streams, lease, process
from workflows.observer.process import Observer

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 90


@pytest.fixture
def world(transactional_db, monkeypatch):
    world = World(scheduled=False)
    monkeypatch.setattr(connect, "connect", lambda *args: world.cluster)
    monkeypatch.setattr(process, "ROWS_SECONDS", 0.2)
    monkeypatch.setattr(watch, "backoff", lambda attempt, *, spread: 0.05)
    monkeypatch.setattr(gang_streams, "READ_SECONDS", 0.05)
    monkeypatch.setattr(lease, "SECONDS", 0.5)
    monkeypatch.setattr(cluster_observer, "TAKE_SECONDS", 0.05)
    monkeypatch.setattr(cluster_observer, "HOLD_SECONDS", 0.1)
    monkeypatch.setattr(cluster_observer, "GANG_SECONDS", 0.05)
    world.cluster.put(NAMESPACE, {"metadata": {"name": "theirs"}})
    world.backend = world.pool(backend={"follow_others": True}).backend
    return world


@pytest.fixture
def observer(world):
    running = Observer(most=0)
    thread = threading.Thread(target=running.run)
    thread.start()
    yield running
    running.stop()
    thread.join(SECONDS)
    assert not thread.is_alive()


def pod(name, gang="g", *, node="", gpu="8", phase="Pending"):
    container = {
        "name": "c",
        "resources": {"requests": {"nvidia.com/gpu": gpu}},
        "env": [{"name": "A", "value": "SECRET"}],
    }
    return {
        "metadata": {"name": name, "namespace": "theirs", "annotations": {"pod-group-name": gang}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container], "nodeName": node},
        "status": {"phase": phase},
    }


def group(name="g", **spec):
    return {"metadata": {"name": name, "namespace": "theirs"}, "spec": {"minMember": 2, "queue": "q", **spec}}


def rows():
    return {row.name: (row.pods, row.content["obj"] is not None) for row in ObservedGang.objects.all()}


def cluster():
    return Cluster.objects.get()


def test_gangs_that_wait_have_rows_and_no_others(world, observer):
    for name in ("g", "placed", "without pods"):
        world.cluster.put(KAI_POD_GROUP, group(name))
    for name in ("a", "b"):
        world.cluster.put(POD, pod(name))
    world.cluster.put(POD, pod("c", "placed", node="n1"))
    world.cluster.put(POD, pod("d", "absent"))
    until(lambda: rows() == {"g": (2, True), "absent": (1, False)})
    until(lambda: cluster().gangs_synced_at)
    assert (cluster().gangs_problem, cluster().gangs_omitted) == ("", 0)
    assert "SECRET" not in str(ObservedGang.objects.values_list("content"))
    world.cluster.put(KAI_POD_GROUP, group("absent"))
    until(lambda: rows()["absent"] == (1, True))
    world.cluster.put(POD, pod("a", node="n1"))
    until(lambda: rows()["g"] == (1, True))
    world.cluster.remove(POD, "b", namespace="theirs")
    world.cluster.remove(POD, "d", namespace="theirs")
    until(lambda: rows() == {})
