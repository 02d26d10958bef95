"""The trial of composite pod groups, on the real kube-scheduler with the gate."""

import secrets

import pytest

from cluster.gateway import ClusterGateway
from cluster.kinds import NAMESPACE, POD
from localcluster import nodes
from pools import conditions, services, tasks
from pools.clusters.capabilities import capabilities_of
from pools.clusters.connect import access_of, cluster_for
from pools.documents.backend import COMPOSITES_HELD
from pools.models import Backend
from scheduling.capabilities import Capability
from tests.fakes.kinds import COMPOSITE, GROUP_WORKLOAD, POD_GROUP

pytestmark = pytest.mark.django_db


def test_a_trial_shows_that_the_scheduler_holds_composites_and_leaves_nothing(kubeconfig, add_nodes):
    add_nodes([nodes.Node(name="a", gpus=1)])
    namespace = f"test-{secrets.token_hex(4)}"
    document = {
        "kubeconfig": str(kubeconfig),
        "k8s_namespace": namespace,
        "scheduler_settings": {"scheduler_type": "kubernetes"},
    }
    change = services.ConfigChange(username="root")
    backend = services.put_backend(name="native", document=document, change=change).value
    tasks.probe_backend(backend.pk)
    tasks.sync_backend(backend.pk)
    tasks.try_composites(backend.pk)
    backend = Backend.objects.get()
    held = conditions.find(backend.conditions, COMPOSITES_HELD)
    assert (held["status"], held["reason"]) == ("True", "Held"), held
    assert "v1.37" in held["message"]
    assert Capability.TOPOLOGY_NESTED in capabilities_of(backend)
    tasks.probe_backend(backend.pk)
    assert conditions.status_of(Backend.objects.get().conditions, COMPOSITES_HELD) == "True"
    cluster = cluster_for(backend)
    for kind in (POD, COMPOSITE, GROUP_WORKLOAD):
        assert not cluster.list(kind, namespace=namespace).items
    groups = cluster.list(POD_GROUP, namespace=namespace).items  # its controller lets them go, soon
    assert all("deletionTimestamp" in group["metadata"] for group in groups)
    ClusterGateway(access_of(backend)).delete(NAMESPACE, namespace, uid=None)
