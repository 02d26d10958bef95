"""The status of queues as KAI's queue controller writes it: children, and what is in use below them."""

import dataclasses

from localcluster.standins.kai import queue_status
from localcluster.standins.kai.jobs import jobs_of
from localcluster.standins.kai.reader import queue as read
from localcluster.standins.kai.values import Queue, QueueStatus
from tests.standins.worlds import group, pod, shape, world

NODES = "a/r1: n1 n2 n3 n4"
QUEUES = (Queue("above"), Queue("q", parent="above"), Queue("idle", parent="above"))


def statuses(*pods, queues=QUEUES, **about_group):
    snapshot = world(NODES, groups=(group(**about_group),), pods=pods, queues=queues)
    return {
        status.queue: status
        for status in queue_status.statuses(snapshot.queues, jobs_of(snapshot, version="0.17"))
    }


def gpus(amounts):
    return dict(amounts).get("nvidia.com/gpu")


def test_resource_updater_go_sums_run_up_the_tree():
    seen = statuses(
        pod("runs", state="active", node="n1", shape=shape(2)),
        pod("ends", state="releasing", node="n2", shape=shape(1)),
        pod("waits", shape=shape(4)),
        pod("over", state="succeeded", node="n3", shape=shape(1)),
        queue="q",
    )
    for name in ("q", "above"):
        assert (gpus(seen[name].allocated), gpus(seen[name].requested)) == ("3", "7")
    assert seen["idle"].allocated == ()


def test_childqueues_updater_go_names_the_children():
    assert statuses()["above"].children == ("idle", "q")


def test_only_what_may_not_be_preempted_is_allocated_non_preemptible():
    runs = pod("runs", state="active", node="n1", shape=shape(2))
    assert gpus(statuses(runs, queue="q", preemptibility="preemptible")["q"].fixed) is None
    assert gpus(statuses(runs, queue="q", preemptibility="non-preemptible")["q"].fixed) == "2"


def test_a_status_that_stands_in_the_cluster_already_is_not_written_again():
    seen = statuses()
    assert set(seen) == {"above", "q", "idle"}
    known = tuple(dataclasses.replace(queue, status=seen[queue.name]) for queue in QUEUES)
    assert statuses(queues=known) == {}


def test_a_status_is_read_as_it_is_written():
    status = {
        "childQueues": ["a"],
        "allocated": {"nvidia.com/gpu": "2", "cpu": "1500m"},
        "allocatedNonPreemptible": {},
        "requested": {"nvidia.com/gpu": "2"},
    }
    assert read({"metadata": {"name": "q"}, "status": status}).status == QueueStatus(
        queue="q",
        children=("a",),
        allocated=(("cpu", "1500m"), ("nvidia.com/gpu", "2")),
        requested=(("nvidia.com/gpu", "2"),),
    )
