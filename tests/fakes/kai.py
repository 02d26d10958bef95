"""A cluster in memory that serves KAI, and what pools need to reach it."""

from contextlib import contextmanager

import pytest

from cluster.kinds import CRD, NAMESPACE
from pools.clusters import connect
from tests.fakes.cluster import FakeCluster
from tests.fakes.kueue_objects import workload_crd

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
CONSTRAINT = {
    "type": "object",
    "properties": {"topology": TEXT, "requiredTopologyLevel": TEXT, "preferredTopologyLevel": TEXT},
}


def pod_group_crd(*, parent=True, min_sub_group=False):
    """The served PodGroup of KAI: 0.13 has ``parent``, 0.15 has ``minSubGroup`` too."""
    subgroup = {"name": TEXT, "minMember": NUMBER, "topologyConstraint": CONSTRAINT}
    if parent:
        subgroup["parent"] = {"type": "string"}
    if min_sub_group:
        subgroup["minSubGroup"] = {"type": "integer"}
    spec = {
        "queue": TEXT,
        "minMember": NUMBER,
        "topologyConstraint": CONSTRAINT,
        "subGroups": {"type": "array", "items": {"properties": subgroup}},
    }
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": spec}}}}
    return {
        "metadata": {"name": "podgroups.scheduling.run.ai"},
        "spec": {"versions": [{"name": "v2alpha2", "served": True, "schema": schema}]},
    }


def kai_cluster(*, uid="", **schema):
    cluster = FakeCluster()
    cluster.put(CRD, pod_group_crd(**schema))
    cluster.put(CRD, workload_crd())
    if uid:
        cluster.edit(NAMESPACE, "kube-system", lambda obj: obj["metadata"].update(uid=uid))
    cluster._seeded = set(cluster._store)  # what a cluster has before anybody comes
    return cluster


@contextmanager
def reached_through(by_kubeconfig):
    """Let pools reach these clusters by the kubeconfig of their backend."""
    before = connect.connect
    connect.connect = lambda access, _seconds, _until: by_kubeconfig[access.kubeconfig]
    try:
        yield by_kubeconfig
    finally:
        connect.connect = before


@pytest.fixture
def cluster():
    return kai_cluster()


@pytest.fixture(autouse=True)
def clusters(cluster):
    """Cluster by the kubeconfig that reaches it; for the folders whose conftest imports it."""
    with reached_through({"": cluster, "/etc/kai": cluster, "/etc/same": cluster}) as reached:
        yield reached
