"""Probing and keeping in line, on real API servers with the kinds of KAI 0.13 and 0.17."""

import secrets

import pytest

from cluster.gateway import ClusterGateway
from cluster.interface import FIELD_MANAGER
from cluster.kinds import NAMESPACE, PRIORITY_CLASS
from localcluster import controlplane
from pools import conditions, selectors, services, tasks
from pools.clusters.connect import access_of, cluster_for
from pools.models import Backend
from scheduling import names
from tests.fakes.kinds import KAI_QUEUE, KAI_TOPOLOGY

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")
KEYS = [
    {"key": "zone", "label": "topology.kubernetes.io/zone"},
    {"key": "rack", "label": "example.com/rack"},
    {"key": "host", "label": "kubernetes.io/hostname"},
]


@pytest.fixture(params=["plane", "plane_017"])
def backend(request):
    plane = request.getfixturevalue(request.param)
    namespace = f"test-{secrets.token_hex(4)}"
    document = {"kubeconfig": str(plane.kubeconfig("admin")), "k8s_namespace": namespace}
    backend = services.put_backend(name="real", document=document, change=ADMIN).value
    yield backend
    ClusterGateway(access_of(backend)).delete(NAMESPACE, namespace, uid=None)


@pytest.fixture
def cluster(backend):
    return cluster_for(backend)


def ours(cluster):
    """Our objects: (kind, name) -> what we wrote; a scheduler in the same cluster writes their status."""
    selector = f"{names.INSTALLATION_LABEL}={selectors.installation().hex}"
    return {
        (kind.name, obj["metadata"]["name"]): written(obj)
        for kind in (KAI_QUEUE, KAI_TOPOLOGY, PRIORITY_CLASS)
        for obj in cluster.list(kind, label_selector=selector).items
    }


def written(obj):
    """The uid, the content without its status, and when the service wrote it."""
    content = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    fields = obj["metadata"]["managedFields"]
    times = [entry["time"] for entry in fields if entry["manager"] == FIELD_MANAGER]
    return obj["metadata"]["uid"], obj["metadata"].get("labels"), content, times


def settle(backend):
    tasks.sync_backend(backend.pk)
    return conditions.find(Backend.objects.get(pk=backend.pk).conditions, "Synced")


def settle_until(condition, *, backend, state):
    """Repeat the sync: a queue goes once its status shows no child, which its controller writes later."""

    def settled():
        return settle(backend)["status"] == "True" and condition()

    controlplane._wait(settled, state=state)


def save(**more):
    document = {"backend": "real", "topology_keys": KEYS, **more}
    services.put_pool(name="Train_1", document=document, change=ADMIN)


def test_a_real_cluster_says_what_it_is(backend, request):
    want = {"plane": "0.13", "plane_017": "0.17"}[request.node.callspec.params["backend"]]
    assert backend.scheduler_version == want
    assert backend.kubernetes_version.startswith("v1.37")
    statuses = {c["type"]: c["status"] for c in backend.conditions}
    assert statuses.pop("Conforms") == "Unknown"  # until its namespace is there to try things in
    assert statuses == {"Reachable": "True", "SchedulerServed": "True", "ComputeDomainServed": "True"}


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes", "default"])
def test_a_real_cluster_keeps_what_is_written_for_each_scheduler(backend, scheduler):
    tasks.probe_backend(backend.pk)  # makes the namespace, where a pod group can be tried
    document = {
        "kubeconfig": backend.kubeconfig,
        "k8s_namespace": backend.namespace,
        "scheduler_settings": {"scheduler_type": scheduler},
    }
    card = services.put_backend(name=f"a-{scheduler}", document=document, change=ADMIN).value.card
    needed = [feature for feature in card["findings"] if feature["purpose"]]
    assert [feature for feature in needed if not feature["found"]] == []
    tried = [feature["how"] for feature in needed if feature["name"] == "PodGroup as it is written"]
    assert tried == ([] if scheduler == "default" else ["a dry run kept all of it"])


def test_the_namespace_is_made(backend, cluster):
    tasks.probe_backend(backend.pk)
    assert cluster.get(NAMESPACE, backend.namespace) is not None


def test_a_pool_comes_changes_and_goes(backend, cluster):
    save(resources={"gpu": {"guarantee": 8, "maximum": 16.5, "weight": 1}})
    assert settle(backend)["status"] == "True"
    made = ours(cluster)
    assert sum(kind == "Topology" for kind, _ in made) == 3
    assert sum(kind == "Queue" for kind, _ in made) == 2

    settle(backend)
    assert ours(cluster) == made  # as it should be already: nothing was written

    save(resources={"gpu": {"guarantee": 4, "maximum": 4, "weight": 1}})
    assert settle(backend)["status"] == "True"
    leaf = ("Queue", names.queue(backend.namespace, "Train_1"))
    after = ours(cluster)
    assert {name for name in made if made[name] != after[name]} == {leaf}
    assert cluster.get(KAI_QUEUE, leaf[1])["spec"]["resources"]["gpu"]["limit"] == 4

    services.delete_pool(name="Train_1", change=ADMIN, force=False)
    settle_until(
        lambda: {kind for kind, _ in ours(cluster)} <= {"PriorityClass"},
        backend=backend,
        state="the queues and topologies to go",
    )

    services.delete_backend(name="real", change=ADMIN, force=False)
    settle_until(lambda: ours(cluster) == {}, backend=backend, state="everything to go")
    assert Backend.objects.get(pk=backend.pk).cleaned_at is not None


def test_a_queue_of_somebody_else_is_left_alone(backend, cluster):
    leaf = names.queue(backend.namespace, "Train_1")
    theirs = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": leaf}}
    made = cluster.create(KAI_QUEUE, {**theirs, "spec": {"resources": {}}})
    save()
    settle(backend)
    assert written(cluster.get(KAI_QUEUE, leaf)) == written(made)
    told = conditions.find(Backend.objects.get(pk=backend.pk).conditions, "ForeignObjects")
    assert leaf in told["message"]
    services.delete_pool(name="Train_1", change=ADMIN, force=False)
    services.delete_backend(name="real", change=ADMIN, force=False)
    settle(backend)
    assert cluster.delete(KAI_QUEUE, leaf, uid=made["metadata"]["uid"])
