"""Nothing is written in a cluster without a permit."""

import ast

import pytest

from cluster.errors import WritesSuspended
from cluster.guarded import NEED_NO_PERMIT, GuardedCluster
from cluster.interface import ClusterApi, DeleteTarget
from cluster.kinds import NAMESPACE, POD, Kind
from localcluster.directories import CHECKOUT
from tests.fakes.cluster import FakeCluster

BODY = {"metadata": {"name": "p", "namespace": "osmo"}}
WRITES = {
    "create": lambda cluster: cluster.create(POD, BODY),
    "create_many": lambda cluster: cluster.create_many(POD, [BODY], deadline=1e12),
    "apply": lambda cluster: cluster.apply(POD, BODY),
    "patch": lambda cluster: cluster.patch(POD, "old", {}, namespace="osmo"),
    "patch_status": lambda cluster: cluster.patch_status(
        POD, "old", {"status": {"phase": "Failed"}}, namespace="osmo"
    ),
    "delete": lambda cluster: cluster.delete(POD, "old", uid=None, namespace="osmo"),
    "delete_many": lambda cluster: cluster.delete_many(
        POD, [DeleteTarget("old", namespace="osmo")], deadline=1e12
    ),
}


@pytest.fixture
def cluster():
    cluster = FakeCluster()
    cluster.put(POD, {"metadata": {"name": "old", "namespace": "osmo"}})
    return cluster


def test_every_call_of_a_cluster_is_a_read_or_a_write():
    calls = {name for name in vars(ClusterApi) if not name.startswith("_")}
    assert calls == {"call_seconds", *NEED_NO_PERMIT, *WRITES}


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_without_a_permit_is_not_sent(cluster, verb):
    places = []

    def refuse(namespace, *, deletes):
        places.append((namespace, deletes))
        raise WritesSuspended("no")

    before = cluster.objects
    with pytest.raises(WritesSuspended):
        WRITES[verb](GuardedCluster(cluster, refuse))
    assert places == [("osmo", verb.startswith("delete"))]
    assert cluster.objects == before


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_with_a_permit_is_sent(cluster, verb):
    before = cluster.objects
    WRITES[verb](GuardedCluster(cluster, lambda namespace, *, deletes: None))
    assert cluster.objects != before or verb == "patch"


def test_a_namespace_needs_the_permit_for_itself_and_a_dry_run_none(cluster):
    places = []

    def permit(namespace, *, deletes):
        places.append((namespace, deletes))

    guarded = GuardedCluster(cluster, permit)
    guarded.create(NAMESPACE, {"metadata": {"name": "new"}})
    guarded.create(POD, BODY, dry_run=True)
    assert places == [("new", False)]


def test_a_review_of_rights_needs_no_permit(cluster):
    def refuse(namespace, *, deletes):
        raise WritesSuspended("no")

    guarded = GuardedCluster(cluster, refuse)
    for group, plural in (
        ("authorization", "selfsubjectaccessreviews"),
        ("authentication", "selfsubjectreviews"),
    ):
        review = Kind("Review", f"{group}.k8s.io", "v1", plural, namespaced=False)
        assert guarded.create(review, {})["status"]["allowed"]


def test_no_module_makes_a_cluster_past_the_guard():
    rooms = ("pools", "workflows", "doctor", "whatif", "pages", "web", "osmo_topology")
    makers = {
        path.relative_to(CHECKOUT).as_posix()
        for room in rooms
        for path in (CHECKOUT / room).rglob("*.py")
        if "ClusterGateway" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ClusterGateway"
    }
    assert makers == {"pools/clusters/connect.py"}
