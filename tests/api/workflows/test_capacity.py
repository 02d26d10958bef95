"""Quota and resources: what pools have, what is in use, in OSMO's shapes and a fixed number of queries."""

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from pools.values.completeness import OTHERS
from tests.builders.completeness import note_lists
from tests.factories import (
    RACK,
    BackendFactory,
    ClusterFactory,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
    foreign_usage,
)
from web.models import RoleAssignment
from workflows.api import capacity

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return ClusterFactory(uid="c1")


@pytest.fixture
def backend(cluster):
    return BackendFactory(name="east", cluster=cluster)


def running(pool, node, *, gpu=8, priority="NORMAL", status="RUNNING"):
    workflow = WorkflowFactory(pool=pool, priority=priority)
    group = TaskGroupFactory(workflow=workflow, pool=pool, pods=0, status=status)
    return TaskFactory(group=group, node_name=node, placement__gpu=gpu)


def usage(api, query=""):
    reply = api.get(f"/api/pool_quota{query}").json()
    pools = [pool for node_set in reply["node_sets"] for pool in node_set["pools"]]
    return {pool["name"]: pool["resource_usage"] for pool in pools}, reply


def test_quota_counts_running_work_of_high_and_normal_against_the_guarantee(api, backend, cluster):
    pool = PoolFactory(name="train", backend=backend, resources={"gpu": {"guarantee": 12}})
    for name in ("n1", "n2", "n3"):
        NodeFactory(cluster=cluster, name=name)
    running(pool, "n1", priority="HIGH")
    running(pool, "n2", gpu=4, priority="LOW")
    running(pool, "n2", gpu=2, status="INITIALIZING")

    usages, reply = usage(api)

    assert usages["train"] == {
        "quota_used": "8",
        "quota_free": "4",
        "quota_limit": "12",
        "total_usage": "12",
        "total_capacity": "24",
        "total_free": "10",
    }
    assert set(reply["resource_sum"]) == set(usages["train"])


def test_an_unlimited_guarantee_is_all_that_is_there(api, backend, cluster):
    PoolFactory(name="train", backend=backend)
    NodeFactory(cluster=cluster)
    assert usage(api)[0]["train"]["quota_limit"] == "8"


def test_pools_that_share_a_node_stand_in_one_set_and_its_node_counts_once(api, backend, cluster):
    for name, selector in (("a", {"kind": "x"}), ("b", {}), ("c", {"kind": "y"}), ("d", {"kind": "z"})):
        owner = backend if name != "d" else BackendFactory(cluster=ClusterFactory(uid="c2"))
        PoolFactory(name=name, backend=owner, node_selector=selector)
    NodeFactory(cluster=cluster, labels={"kind": "x"})
    NodeFactory(cluster=cluster, labels={"kind": "y"})

    usages, reply = usage(api)

    sets = [[pool["name"] for pool in node_set["pools"]] for node_set in reply["node_sets"]]
    assert sets == [["a", "b", "c"], ["d"]]
    assert {name: amounts["total_capacity"] for name, amounts in usages.items()} == {
        "a": "8",
        "b": "16",
        "c": "8",
        "d": "0",
    }
    assert reply["resource_sum"]["total_capacity"] == "16"


def test_a_node_that_takes_no_work_has_nothing_free(api, backend, cluster):
    PoolFactory(name="train", backend=backend)
    NodeFactory(cluster=cluster, unschedulable=True)
    NodeFactory(cluster=cluster, ready=False)
    counted = usage(api)[0]["train"]
    assert (counted["total_capacity"], counted["total_free"]) == ("8", "0")


def test_pools_are_narrowed_as_the_client_asks(api, backend):
    for name in ("a", "b"):
        PoolFactory(name=name, backend=backend)
    assert set(usage(api, "?pools=a&all_pools=False")[0]) == {"a"}
    assert set(usage(api, "?pools=a&all_pools=True")[0]) == {"a", "b"}


def test_a_resource_tells_what_a_node_has_what_is_used_and_where_it_stands(api, backend, cluster):
    pool = PoolFactory(name="train", backend=backend, levels=[RACK])
    NodeFactory(cluster=cluster, name="n1", labels={RACK.label: "r7"}, taints=[{"key": "gpu"}])
    running(pool, "n1", gpu=6)

    (entry,) = api.get("/api/resources?pools=train&all_pools=False").json()["resources"]

    assert set(entry) == set(capacity.NodeShape.model_fields)
    assert entry["exposed_fields"] == {
        "node": "n1",
        "pool/platform": ["train/gpu"],
        "storage": "1024",
        "cpu": "64",
        "memory": "512",
        "gpu": "8",
    }
    assert entry["usage_fields"] == {"storage": "0Ki", "cpu": "1", "memory": "1048576Ki", "gpu": "6"}
    assert entry["platform_available_fields"]["train"]["gpu"]["gpu"] == 2
    assert entry["topology"] == {"train": {"rack": "r7"}}
    assert (entry["backend"], entry["resource_type"], entry["conditions"]) == ("east", "RESERVED", None)


def test_one_node_is_shown_by_its_name_and_another_not(api, backend, cluster):
    PoolFactory(name="train", backend=backend, node_selector={"pool": "train"})
    for name in ("n1", "n2"):
        NodeFactory(name=name, cluster=cluster, labels={"pool": "train"})
    NodeFactory(name="n3", cluster=cluster)
    listed = {resource["hostname"]: resource for resource in api.get("/api/resources").json()["resources"]}
    (entry,) = api.get("/api/resources/n1").json()["resources"]
    assert entry == listed["n1"] | {"age_seconds": entry["age_seconds"]}
    for name in ("n3", "nosuch"):
        assert api.get(f"/api/resources/{name}").json() == {"resources": []}


def test_a_node_says_what_keeps_work_away(api, backend, cluster):
    PoolFactory(backend=backend)
    NodeFactory(cluster=cluster, ready=False, unschedulable=True)
    (entry,) = api.get("/api/resources").json()["resources"]
    assert entry["conditions"] == ["NotReady", "SchedulingDisabled"]


def test_nobody_sees_nodes_of_pools_that_are_not_theirs(backend, cluster):
    PoolFactory(name="mine", backend=backend, node_selector={"kind": "x"})
    PoolFactory(name="other", backend=backend, node_selector={"kind": "y"})
    NodeFactory(cluster=cluster, name="n1", labels={"kind": "x"})
    NodeFactory(cluster=cluster, name="n2", labels={"kind": "y"})
    bob = User.objects.create_user("bob")
    RoleAssignment.objects.create(user=bob, role="osmo-mine")
    client = APIClient()
    client.force_authenticate(bob)

    assert [resource["hostname"] for resource in client.get("/api/resources").json()["resources"]] == ["n1"]
    assert set(usage(client)[0]) == {"mine"}


@pytest.mark.parametrize("path", ["/api/pool_quota", "/api/resources"])
def test_the_number_of_queries_does_not_grow_with_pools_and_nodes(
    path, api, backend, cluster, django_assert_max_num_queries
):
    pools = [PoolFactory(backend=backend) for _ in range(12)]
    for number in range(30):
        NodeFactory(cluster=cluster, name=f"n{number}")
        running(pools[number % 12], f"n{number}")
    with django_assert_max_num_queries(10):
        assert api.get(path).status_code == 200


def test_pods_of_others_take_room_where_they_are_known(api, backend, cluster):
    pool = PoolFactory(name="train", backend=backend)
    for name in ("n1", "n2"):
        NodeFactory(cluster=cluster, name=name)
    running(pool, "n1", gpu=2)
    foreign_usage(cluster, "n1", gpu=4, cpu=1500, memory=2**30)

    def seen():
        entries = {
            resource["hostname"]: resource for resource in api.get("/api/resources").json()["resources"]
        }
        theirs = {name: resource["non_workflow_usage_fields"] for name, resource in entries.items()}
        free = entries["n1"]["platform_available_fields"]["train"].values()
        return theirs, [pool["gpu"] for pool in free], usage(api)[0]["train"]["total_free"]

    nothing = {"storage": "0Ki", "cpu": "0", "memory": "0Ki", "gpu": "0"}
    held = {"storage": "0Ki", "cpu": "1.5", "memory": "1048576Ki", "gpu": "4"}
    assert seen() == ({"n1": held, "n2": nothing}, [2], "10")

    note_lists({OTHERS: None})
    assert seen() == ({"n1": {}, "n2": {}}, [6], "14")
