"""Nodes that fail, over REST and on pages; suspect ones are avoided where the pool says so, and cleared."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from pools.models import NodeFailure, SuspectNode
from tests.api.workflows.specs import gang, text
from tests.factories import RACK, NodeFactory, PoolFactory, TaskFactory, TaskGroupFactory, WorkflowFactory
from workflows.models import Task

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """A rack of three nodes and one of two, each with eight GPUs."""
    made = PoolFactory(name="train", levels=[RACK], avoid_suspect_nodes=True)
    for number, rack in enumerate(["r1", "r1", "r1", "r2", "r2"]):
        NodeFactory(cluster=made.backend.cluster, name=f"n{number}", labels={RACK.label: rack})
    return made


def suspect(pool, *names):
    """Make nodes suspect, the first named for longest."""
    now = timezone.now()
    for number, name in enumerate(names):
        SuspectNode.objects.create(
            cluster=pool.backend.cluster,
            node=name,
            since=now - timedelta(minutes=60 - number),
            until=now + timedelta(hours=1),
            groups=3,
            users=2,
            faults=["node_lost"],
        )


def silence(pool, name):
    """Let a node's kubelet say nothing any more."""
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    pool.backend.cluster.nodes.filter(name=name).update(
        ready=False, conditions=[silent | {"since": "2026-11-22T12:00:00Z"}]
    )


@pytest.fixture
def running(pool):
    """A running group with a task on each of two nodes; the third task has ended on the first of them."""
    workflow = WorkflowFactory(pool=pool, status="RUNNING")
    group = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, status="RUNNING")
    for position, (node, status) in enumerate([("n0", "RUNNING"), ("n1", "RUNNING"), ("n0", "COMPLETED")]):
        TaskFactory(group=group, position=position, name=f"t{position}", node_name=node, status=status)
    return workflow


@pytest.fixture
def submit(api, pool):
    """Submit a gang that needs one rack; returns the warnings about suspects and the excluded nodes."""

    def post(tasks):
        document = {"file": text(gang(tasks, gpu=8, topology=[{"key": "rack", "group": "r"}]))}
        answer = api.post(f"/api/pool/{pool.name}/workflow", document, format="json")
        assert answer.status_code == 200, answer.json()
        rows = Task.objects.filter(group__workflow__name=answer.json()["name"])
        excluded = {tuple(sorted(row.spec.get("nodes_excluded") or ())) for row in rows}
        assert len(excluded) == 1
        return [w for w in answer.json()["warnings"] if "uspect" in w], list(excluded.pop())

    return post


def test_a_pool_that_says_nothing_avoids_nothing(submit, pool):
    pool.avoid_suspect_nodes = False
    pool.save()
    suspect(pool, "n0")
    assert submit(2) == ([], [])


def test_suspect_nodes_are_avoided_and_named(submit, pool):
    suspect(pool, "n3")
    assert submit(2) == (["Suspect node is avoided: n3."], ["n3"])


def test_a_node_of_another_pool_is_not_named(submit, pool):
    NodeFactory(cluster=pool.backend.cluster, name="elsewhere", labels={})
    pool.node_selector = {RACK.label: "r1"}
    pool.save()
    suspect(pool, "elsewhere", "n3")
    assert submit(2) == ([], [])


def test_the_oldest_suspicions_yield_where_the_group_could_never_fit(submit, pool):
    suspect(pool, "n0", "n1", "n2", "n3")
    warnings, excluded = submit(2)
    assert excluded == ["n2", "n3"]
    assert warnings == [
        "Suspect nodes are avoided: n2 and n3.",
        "n0 and n1 are suspect and are used nevertheless: without them a task group could never be placed.",
    ]


def test_a_group_that_could_never_fit_anyway_avoids_them_all(submit, pool):
    suspect(pool, "n0")
    assert submit(4) == (["Suspect node is avoided: n0."], ["n0"])


def test_the_verdict_counts_without_avoided_nodes(api, pool):
    suspect(pool, "n3")
    document = {"file": text(gang(2, gpu=8, topology=[{"key": "rack", "group": "r"}]))}
    answer = api.post(f"/api/pool/{pool.name}/workflow?feasibility=only", document, format="json")
    (report,) = answer.json()["feasibility"]
    assert report["verdict"] == "now"
    assert "n3" not in (report["places"] or {}).values()


def test_a_task_says_what_is_wrong_with_its_node(api, pool, running):
    silence(pool, "n0")
    (group,) = api.get(f"/api/workflow/{running.name}").json()["groups"]
    away, well, ended = (task["node_condition"] for task in group["tasks"])
    assert (away["state"], away["reason"]) == ("unreachable", "NodeStatusUnknown")
    assert (away["since"], away["lost_at"]) == ("2026-11-22T12:00:00", "2026-11-22T12:05:00")
    assert away["sentence"].startswith("Node n0 is unreachable since 2026-11-22 12:00:00 UTC")
    assert (well, ended) == (None, None)


def test_a_task_whose_node_was_removed_says_so(api, pool, running):
    pool.backend.cluster.nodes.filter(name="n1").delete()
    (group,) = api.get(f"/api/workflow/{running.name}").json()["groups"]
    assert [(task["node_condition"] or {}).get("state") for task in group["tasks"]] == [None, "removed", None]


def test_the_list_of_tasks_says_what_is_wrong_with_their_nodes(api, pool, running):
    silence(pool, "n0")
    pool.backend.cluster.nodes.filter(name="n1").delete()
    elsewhere = PoolFactory(name="elsewhere")
    NodeFactory(cluster=elsewhere.backend.cluster, name="n0")
    group = TaskGroupFactory(pool=elsewhere, workflow=WorkflowFactory(pool=elsewhere), pods=0)
    TaskFactory(group=group, name="other", node_name="n0", status="RUNNING")

    entries = api.get("/api/task?order=ASC&all_pools=True").json()["tasks"]

    by_task = {entry["task_name"]: entry["node_condition"] for entry in entries}
    (whole,) = api.get(f"/api/workflow/{running.name}").json()["groups"]
    assert by_task == {task["name"]: task["node_condition"] for task in whole["tasks"]} | {"other": None}
    assert by_task["t0"]["lost_at"] == "2026-11-22T12:05:00"
    assert (by_task["t1"]["state"], by_task["t2"]) == ("removed", None)


def test_a_list_over_many_pools_reads_their_nodes_at_once(api):
    def entries(pools):
        for name in pools:
            pool = PoolFactory(name=name)
            NodeFactory(cluster=pool.backend.cluster, name=name)
            group = TaskGroupFactory(pool=pool, workflow=WorkflowFactory(pool=pool), pods=0)
            TaskFactory(group=group, name=name, node_name=name, status="RUNNING")
        with CaptureQueriesContext(connection) as queries:
            assert len(api.get("/api/task?all_pools=True").json()["tasks"]) >= len(pools)
        return len(queries)

    assert entries(["a"]) == entries(["b", "c", "d"])


def test_the_page_of_a_workflow_says_it_too(client, pool, running, ann):
    silence(pool, "n0")
    client.force_login(ann)
    page = client.get(f"/ui/workflows/{running.name}").content.decode()
    assert page.count("Node n0 is unreachable since 2026-11-22 12:00:00 UTC") == 1


def test_the_pages_of_a_pool_name_suspect_nodes(client, pool, ann):
    suspect(pool, "n1")
    client.force_login(ann)
    assert "lost on them: n1." in client.get(f"/ui/pools/{pool.name}").content.decode()
    assert "suspect" in client.get(f"/ui/pools/{pool.name}/map").content.decode()


def test_the_page_of_a_pool_says_what_follows_a_loss(client, pool, ann):
    pool.recovery = {"failed": "requeue", "max": 5}
    pool.save()
    client.force_login(ann)
    page = client.get(f"/ui/pools/{pool.name}").content.decode()
    assert "preempted: requeue, node lost: requeue, failed: requeue, at most 5." in page


def test_the_nodes_of_a_pool_are_read_page_by_page(api, pool):
    pages = [
        api.get(f"/api/pool/{pool.name}/nodes?limit=2&offset={offset}").json() for offset in (0, 2, 4, 6)
    ]
    assert [[entry["name"] for entry in page["nodes"]] for page in pages] == [
        ["n0", "n1"],
        ["n2", "n3"],
        ["n4"],
        [],
    ]
    assert [page["more_entries"] for page in pages] == [True, True, False, False]


def test_the_nodes_of_a_pool_say_what_is_wrong_with_them(api, pool):
    suspect(pool, "n1")
    silence(pool, "n0")
    reply = api.get(f"/api/pool/{pool.name}/nodes").json()
    nodes = {entry["name"]: entry for entry in reply["nodes"]}
    assert list(nodes) == ["n0", "n1", "n2", "n3", "n4"]
    assert nodes["n0"]["condition"]["state"] == "unreachable"
    assert nodes["n0"]["condition"]["lost_at"] == "2026-11-22T12:05:00Z"
    assert (nodes["n1"]["healthy"], nodes["n1"]["suspect"]["users"]) == (True, 2)
    assert (nodes["n2"]["condition"], nodes["n2"]["suspect"]) == (None, None)
    assert nodes["n4"]["topology"] == {"rack": "r2"}


def test_a_suspicion_is_cleared_by_hand(pool):
    suspect(pool, "n0")
    NodeFailure.objects.create(
        cluster=pool.backend.cluster,
        node="n0",
        group_uuid="0" * 32,
        username="ann",
        fault="node_lost",
        at=timezone.now(),
    )
    root = APIClient()
    root.force_authenticate(User.objects.create_user(username="root", is_staff=True))
    address = f"/api/configs/backend/{pool.backend.name}/suspect_nodes/n0"
    assert root.delete(address).status_code == 200
    assert not SuspectNode.objects.exists()
    assert not NodeFailure.objects.exists()
    assert root.delete(address).status_code == 404
