"""Gangs of others on a real API server, followed with the rights of ``deploy/rbac`` alone."""

import threading

import pytest
import yaml

from cluster.kinds import POD
from cluster.watch import Watch
from localcluster.api import Api
from pools.clusters.kinds import as_kind
from pools.models import Backend, Cluster
from pools.values.completeness import GANGS, OTHERS, Completeness
from scheduling.backends.kai import KAI
from scheduling.backends.kubernetes import KUBERNETES
from tests.builders.waiting import until
from tests.e2e import rights
from tests.factories import BackendFactory
from workflows.models import ObservedGang
from workflows.observer import process
from workflows.observer.process import Observer

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 90
GROUP, (PLAIN, COMPOSITE) = as_kind(KAI.foreign.kinds[0]), map(as_kind, KUBERNETES.foreign.kinds)
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def grant(api: Api, namespace: str, file: str) -> None:
    """The roles of a file for whoever may be the observer, under names of this test's own."""
    for body in rights.manifests(file):
        name = f"{namespace}-{body['metadata']['name']}"
        is_observers = any(subject["name"] == "observer" for subject in body.get("subjects", ()))
        if body["kind"] == "ClusterRole" or (body["kind"] == "ClusterRoleBinding" and is_observers):
            named = {**body, "metadata": {"name": name}}
            if "roleRef" in body:
                subject = {"kind": "ServiceAccount", "name": "observer", "namespace": namespace}
                named["roleRef"] = {**body["roleRef"], "name": f"{namespace}-{body['roleRef']['name']}"}
                named["subjects"] = [subject]
            rights._apply(api, named)


@pytest.fixture
def observers_kubeconfig(cluster_api, kubeconfig, namespace, tmp_path):
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster_api.create(accounts, {"metadata": {"name": "observer"}})
    for file in ("cluster.yaml", "others-gangs.yaml"):
        grant(cluster_api, namespace, file)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster_api.create(f"{accounts}/observer/token", request)["status"]["token"]
    content = yaml.safe_load(kubeconfig.read_text())
    content["users"] = [{"name": user["name"], "user": {"token": token}} for user in content["users"]]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    yield str(path)
    for kind in ("clusterroles", "clusterrolebindings"):
        for item in cluster_api.list(f"{RBAC}/{kind}")[0]:
            if item["metadata"]["name"].startswith(namespace):
                cluster_api.delete(f"{RBAC}/{kind}/{item['metadata']['name']}")


@pytest.fixture
def observer(observers_kubeconfig, real, namespace, monkeypatch):
    monkeypatch.setattr(process, "ROWS_SECONDS", 0.2)
    monkeypatch.setitem(Watch.__init__.__kwdefaults__, "watch_seconds", 2)
    uid = real.kube_system_uid()
    settings = {"kubeconfig": observers_kubeconfig, "namespace": namespace, "follow_others": True}
    for scheduler in ("kai", "kubernetes"):
        cluster = Cluster.objects.get_or_create(uid=uid)[0]
        BackendFactory(cluster=cluster, scheduler_type=scheduler, **settings)
    running = Observer(most=0)
    thread = threading.Thread(target=running.run)
    thread.start()
    yield running
    running.stop()
    thread.join(SECONDS)
    assert not thread.is_alive()


def pod(namespace, name, *, annotations=None, **spec):
    container = {"name": "c", "image": "none", "env": [{"name": "TOKEN", "value": "S3CRET"}]}
    return {
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
        "spec": {"containers": [container], "schedulerName": "nobody", **spec},
    }


def named(namespace, name, **spec):
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def group(namespace, name, *, parent="", **gang):
    """A pod group of Kubernetes, or what stands above it."""
    above = {"parentCompositePodGroupName": parent} if parent else {}
    reference = {"workloadName": "job", "templateName": name}
    return named(namespace, name, schedulingPolicy={"gang": gang}, workloadRef=reference, **above)


def test_gangs_of_others_are_followed_while_they_wait_and_may_be(observer, real, cluster_api, namespace):
    def rows():
        found = ObservedGang.objects.filter(namespace=namespace)
        return {row.name: (row.pods, row.content["obj"] is not None) for row in found}

    def gang(name):
        return ObservedGang.objects.get(namespace=namespace, name=name).content

    def entry(kind):
        row = Cluster.objects.get(uid=real.kube_system_uid())
        return Completeness.of(row.completeness, kind)

    real.create(GROUP, named(namespace, "train", minMember=2, queue="q"))
    real.create(GROUP, named(namespace, "without-pods", minMember=1, queue="q"))
    real.create(COMPOSITE, group(namespace, "top", minGroupCount=1))
    real.create(PLAIN, group(namespace, "inner", parent="top", minCount=1))
    for name in ("a", "b"):
        real.create(POD, pod(namespace, name, annotations={"pod-group-name": "train"}))
    real.create(POD, pod(namespace, "c", schedulingGroup={"podGroupName": "inner"}))
    real.create(POD, pod(namespace, "alone"))
    until(lambda: rows() == {"train": (2, True), "inner": (1, True)})
    until(lambda: entry(GANGS).is_known)
    assert [above["minimum"] for above in gang("inner")["above"]] == [1]
    assert "S3CRET" not in str(gang("train"))
    created = ObservedGang.objects.get(namespace=namespace, name="train").created_at
    assert created.isoformat().startswith(gang("train")["created"][:-1])

    merge = {"spec": {"queue": "other"}}
    cluster_api.patch(f"{GROUP.api_path}/namespaces/{namespace}/{GROUP.plural}/train", merge)
    until(lambda: gang("train")["obj"]["queue"] == "other")
    real.delete(POD, "b", namespace=namespace, uid=None, grace_seconds=0)
    until(lambda: rows() == {"train": (1, True), "inner": (1, True)})
    real.delete(POD, "c", namespace=namespace, uid=None, grace_seconds=0)
    until(lambda: rows() == {"train": (1, True)})

    cluster_api.delete(f"{RBAC}/clusterrolebindings/{namespace}-osmo-topology-others-gangs")
    until(lambda: "podgroups.scheduling.run.ai is forbidden" in entry("podgroups.scheduling.run.ai").problem)
    until(lambda: rows() == {} and not entry(GANGS).is_known)
    until(lambda: entry(OTHERS).is_known)
    grant(cluster_api, namespace, "others-gangs.yaml")
    until(lambda: rows() == {"train": (1, True)})
    until(lambda: entry(GANGS).is_known and not entry("podgroups.scheduling.run.ai").problem)

    Backend.objects.filter(scheduler_type="kai").update(follow_others=False)
    until(lambda: rows() == {})
    Backend.objects.update(follow_others=False)
    until(lambda: not entry(GANGS).is_known)
