"""Users see the keys of a pool, in order, with the domains its nodes form."""

import pytest
from django.utils import timezone

from pools.models import Backend, Cluster, ForeignUsage, Node, Pool
from pools.values.completeness import OTHERS
from tests.api.pools.conftest import POOL
from tests.builders.completeness import note_lists
from tests.factories import NodeFactory, TaskFactory, TaskGroupFactory

pytestmark = pytest.mark.django_db

ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"


@pytest.fixture
def nodes(pool):
    """Zones a and b have a rack r1 each, a has r2 too; one node of a has no rack, one no label at all.

    zone a [ r1: 2 nodes, r2: 1, no rack: 1 ]   zone b [ r1: 1 ]   rack r9 without a zone: 1   bare: 1
    """
    cluster = Backend.objects.get(name="kai").cluster
    places = [("a", "r1"), ("a", "r1"), ("a", "r2"), ("a", None), ("b", "r1"), (None, "r9"), (None, None)]
    for zone, rack in places:
        labels = {ZONE: zone, RACK: rack, "example.com/pool": "train"}
        NodeFactory(cluster=cluster, labels={k: v for k, v in labels.items() if v})
    return cluster


def nodes_by_path(key):
    return {tuple(domain["path"]): domain["nodes"] for domain in key["domains"]}


def keys(client, pool="train"):
    return client.get(f"/api/pool/{pool}/topology").json()["topology_keys"]


def test_domains_are_paths_of_label_values_with_their_nodes(nodes, ann):
    zone, rack = keys(ann)
    assert [(zone["key"], zone["level"]), (rack["key"], rack["level"])] == [("zone", 0), ("rack", 1)]
    assert nodes_by_path(zone) == {("a",): 4, ("b",): 1}
    assert nodes_by_path(rack) == {("a", "r1"): 2, ("a", "r2"): 1, ("b", "r1"): 1}
    assert (zone["nodes_without_label"], rack["nodes_without_label"]) == (2, 3)


def room_by_path(reply):
    """(free nodes, GPUs, free GPUs) of the whole pool and of each domain."""
    domains = [domain for key in reply["topology_keys"] for domain in key["domains"]]
    return {
        tuple(place.get("path", ())): (place["free_nodes"], place["gpus"], place["free_gpus"])
        for place in [reply, *domains]
    }


def test_each_domain_shows_its_free_nodes_and_gpus(pool, ann):
    """A task holds three GPUs of a node in r1, another tenant one in r2; two nodes take no work.

    zone a [ r1: 4 with a task, 4 free, 4 cordoned; r2: 4 with another's pod ]   no label: 4, not ready
    """
    cluster = Backend.objects.get(name="kai").cluster
    note_lists({OTHERS: ""})
    held, _, _, foreign, _ = [
        NodeFactory(cluster=cluster, allocatable={"nvidia.com/gpu": "4", "cpu": "8"}, labels=labels, **more)
        for labels, more in [
            ({ZONE: "a", RACK: "r1"}, {}),
            ({ZONE: "a", RACK: "r1"}, {}),
            ({ZONE: "a", RACK: "r1"}, {"unschedulable": True}),
            ({ZONE: "a", RACK: "r2"}, {}),
            ({}, {"ready": False}),
        ]
    ]
    group = TaskGroupFactory(backend=Backend.objects.get(name="kai"), pods=0)
    TaskFactory(group=group, node_name=held.name, status="RUNNING", placement__gpu=3)
    ForeignUsage.objects.create(
        cluster=cluster, node=foreign.name, gpu=1, cpu=0, memory=0, storage=0, pods=1, seen_at=timezone.now()
    )
    assert room_by_path(ann.get("/api/pool/train/topology").json()) == {
        (): (1, 20, 8),
        ("a",): (1, 16, 8),
        ("a", "r1"): (1, 12, 5),
        ("a", "r2"): (0, 4, 3),
    }


def test_only_the_pools_nodes_count(nodes, put, ann):
    NodeFactory(cluster=nodes, labels={ZONE: "c", RACK: "r1"})
    NodeFactory(labels={ZONE: "d", RACK: "r1", "example.com/pool": "train"})  # of another cluster
    put("pool/train", {**POOL, "node_selector": {"example.com/pool": "train"}})
    assert [d["path"] for d in keys(ann)[0]["domains"]] == [["a"], ["b"]]
    assert ann.get("/api/pool/train/topology").json()["nodes"] == 7


def test_a_pool_without_keys_has_all_its_nodes(nodes, ann):
    Pool.objects.get().topology_keys.all().delete()
    assert ann.get("/api/pool/train/topology").json()["nodes"] == Node.objects.count() > 1


def test_a_pool_without_nodes_shows_its_keys(pool, ann):
    reply = ann.get("/api/pool/train/topology").json()
    assert [entry["key"] for entry in reply["topology_keys"]] == ["zone", "rack"]
    assert [entry["domains"] for entry in reply["topology_keys"]] == [[], []]
    assert (reply["nodes"], reply["observed_at"], reply["freshness"]) == (0, None, "never")


def test_all_keys_of_all_pools(pool, put, ann):
    put("pool/plain", {"backend": "kai", "nvlink": True})
    reply = ann.get("/api/topology").json()["pools"]
    assert reply["plain"]["topology_keys"] == []
    assert (reply["plain"]["nvlink"], reply["train"]["nvlink"]) == (True, False)
    assert [entry["key"] for entry in reply["train"]["topology_keys"]] == ["zone", "rack"]


def test_the_list_of_pools_shows_platforms_and_keys(pool, ann, put):
    put("pool/other", {"backend": "kai", "platforms": {"p": {"node_selector": {"a": "b"}}}})
    shown = ann.get("/api/pool?all_pools=True").json()["pools"]
    assert set(shown) == {"train", "other"}
    assert shown["other"]["platforms"]["p"] == {
        "description": "",
        "nvlink": None,
        "host_network_allowed": False,
        "privileged_allowed": False,
        "allowed_mounts": [],
        "default_mounts": [],
        "default_topology": None,
    }
    assert shown["train"]["status"] == "ONLINE"
    assert set(ann.get("/api/pool?pools=train&all_pools=False").json()["pools"]) == {"train"}


def test_a_pool_says_how_it_is(pool, put, ann, cluster):
    def status():
        return ann.get("/api/pool").json()["pools"]["train"]["status"]

    put("pool/train", {**POOL, "enable_maintenance": True})
    assert status() == "MAINTENANCE"
    put("backend/kai", {"kubeconfig": "/etc/kai", "enabled": False})
    assert status() == "OFFLINE"


def test_a_label_that_no_node_carries_while_a_look_alike_does_is_told(nodes, put):
    NodeFactory(cluster=nodes, labels={"nvidia.com/gpu.clique": "c1"})
    wrong = [{"key": "clique", "label": "nvidia.com/gpu-clique"}]
    status, reply = put("pool/nv", {"backend": "kai", "topology_keys": wrong})
    assert status == 200
    assert any("nvidia.com/gpu.clique" in warning for warning in reply["warnings"])


def test_nodes_without_a_label_are_counted_in_a_warning(nodes, put):
    _, reply = put("pool/train", {**POOL, "description": "again"})
    assert [warning for warning in reply["warnings"] if "3 of the pool's 7 nodes" in warning]


ROLES = 2
"""Queries that say what the caller may do."""


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("/api/pool", 3),
        ("/api/topology", 2),
        ("/api/configs/pool", 3),
        ("/api/configs/backend", 1),
        ("/api/pool/pool3/topology", 7),
    ],
)
@pytest.mark.usefixtures("kai")
def test_the_number_of_queries_does_not_grow(path, most, put, ann, django_assert_max_num_queries):
    put("pool", {f"pool{n}": {**POOL, "platforms": {"a": {}, "b": {}}} for n in range(12)})
    for n in range(20):
        NodeFactory(cluster=Cluster.objects.get(), labels={ZONE: str(n), RACK: "r"})
    with django_assert_max_num_queries(most + ROLES):
        assert ann.get(path).status_code == 200


def test_a_format_is_a_parameter_like_any_other(pool, ann):
    """The framework would take it for the wish for another renderer, and answer that there is nothing."""
    path = "/api/pool/train/topology"
    assert ann.get(f"{path}?format=xml").json() == ann.get(path).json()
