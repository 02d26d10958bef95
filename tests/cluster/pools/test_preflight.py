"""The preflight on a real API server: one good cluster, and three broken ones.

The control plane is this module's own, because it is broken on purpose.
"""

import secrets
from dataclasses import dataclass

import pytest
import yaml
from django.core.management import call_command

from cluster.connection import Access
from localcluster import build, controlplane, kueue, nodes
from localcluster.api import Api
from localcluster.installations import BINDER, SCHEDULER, SHARD, SHARDS
from localcluster.supervisor import Supervisor
from pools import services
from pools.clusters import connect
from pools.models import Backend, Pool
from pools.preflight.checks import CHANNEL_CLASS, check_cluster
from pools.preflight.cluster import read_cluster
from tests.e2e import rights

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")
RACK, CLIQUE = "example.com/rack", "nvidia.com/gpu.clique"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass
class Site:
    """The cluster, and a backend in it that acts as the worker's account."""

    api: Api
    plane: controlplane.Plane
    namespace: str
    kubeconfig: str

    def results(self):
        """The status of each check, and its text."""
        (backend,) = Backend.objects.select_related("cluster")
        return {result.check: result for result in check_cluster(read_cluster(backend))}

    def statuses(self, status):
        return {check for check, result in self.results().items() if result.status == status}

    def add_nodes(self, labels):
        prefix = f"n{secrets.token_hex(4)}"
        made = nodes.rack(prefix, count=2, labels=labels, gpus=4)
        nodes.create(self.api, made)
        for node in made:
            self.api.create("/apis/resource.k8s.io/v1/resourceslices", resource_slice(node.name))
        nodes.wait_ready(self.api, made)
        return [node.name for node in made]


def resource_slice(node):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-compute-domain"},
        "spec": {
            "driver": "compute-domain.nvidia.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "channel-0"}, {"name": "daemon-0"}],
        },
    }


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory):
    home = tmp_path_factory.mktemp("plane")
    with Supervisor(log_dir=home / "logs") as supervisor:
        plane = controlplane.start(supervisor, directory=home / "cluster", binaries=build.binaries())
        api = Api(plane.access())
        api.apply(f"{DEFINITIONS}/{SHARDS['metadata']['name']}", SHARDS, manager="administrator")
        for definition in kueue.definitions(build.documents(build.KUEUE_DOCUMENTS)):
            api.apply(f"{DEFINITIONS}/{definition['metadata']['name']}", definition, manager="administrator")
        controlplane.create_namespace(api, "kai-scheduler")
        controlplane.create_namespace(api, "kueue-system")
        api.create("/apis/apps/v1/namespaces/kai-scheduler/deployments", SCHEDULER)
        api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", BINDER)
        yield plane
        api.close()


@pytest.fixture
def site(own_plane, tmp_path):
    api = Api(own_plane.access())
    namespace = f"test-{secrets.token_hex(4)}"
    rights.grant(api, namespace)
    for file, place in {"preflight.yaml": "kai-scheduler", "preflight-kueue.yaml": "kueue-system"}.items():
        for body in rights.manifests(file):
            rights._apply(api, body)
        rights.until_granted(api, file, namespace=place)
    path = tmp_path / "worker"
    path.write_text(yaml.safe_dump(as_account(api, own_plane, "worker")))
    yield Site(api, own_plane, namespace, str(path))
    api.close()


def as_account(api, plane, account):
    """The administrator's kubeconfig with an account's token."""
    request = f"/api/v1/namespaces/{rights.SYSTEM}/serviceaccounts/{account}/token"
    spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.create(request, spec)["status"]["token"]
    content = yaml.safe_load(plane.kubeconfig("admin").read_text())
    content["users"] = [{"name": user["name"], "user": {"token": token}} for user in content["users"]]
    return content


def shard_of(site):
    """KAI's default shard, once its kind is served."""
    path = "/apis/kai.scheduler/v1/schedulingshards/default"
    controlplane._wait(
        lambda: site.api.find("/apis/kai.scheduler/v1") is not None, state="shards to be served"
    )
    site.api.apply(path, SHARD, manager="administrator")


@pytest.fixture
def pool(site):
    """A pool with NVLink on two nodes of the site."""

    def make(*, label=CLIQUE, carried=CLIQUE):
        corner = {"example.com/corner": site.namespace}
        site.add_nodes({**corner, RACK: "r1", carried: "c.1"})
        document = {"kubeconfig": site.kubeconfig, "k8s_namespace": site.namespace}
        services.put_backend(name="east", document=document, change=ADMIN)
        keys = [{"key": "rack", "label": RACK}, {"key": "clique", "label": label}]
        written = {"backend": "east", "nvlink": True, "topology_keys": keys, "node_selector": corner}
        services.put_pool(name="train", document=written, change=ADMIN)

    return make


def test_a_good_cluster_passes_with_the_workers_rights_alone(site, pool, capsys, monkeypatch):
    monkeypatch.setenv("CELERY_BROKER_URL", "memory://")
    pool()
    shard_of(site)
    results = site.results()
    assert {check: result.message for check, result in results.items() if result.status == "failed"} == {}
    assert {check for check, result in results.items() if result.status == "unknown"} == {"other_rights"}
    assert {"kai_shard", "kai_binder", "channels", "clique_label", "rights"} <= results.keys()
    call_command("preflight", "--backend", "east")
    printed = capsys.readouterr().out
    assert "passed   reachable: Kubernetes v1.37" in printed
    assert "0 failed" in printed


def test_optional_roles_are_asked_for_where_they_are_needed(site, pool, tmp_path):
    pool()
    checks = {"exec_rights", "port_forward_rights", "others_gangs_rights"}
    assert not checks & site.results().keys()
    Pool.objects.update(allow_exec=True, allow_port_forward=True)
    Backend.objects.update(follow_others=True, kubeconfig=str(site.plane.kubeconfig("admin")))
    assert checks <= site.statuses("passed")
    web = tmp_path / "web"
    web.write_text(yaml.safe_dump(as_account(site.api, site.plane, "web")))
    Backend.objects.update(kubeconfig=str(web))
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{site.namespace}/roles/osmo-topology-exec"
    site.api.delete(role)
    controlplane._wait(
        lambda: site.results()["exec_rights"].status == "failed", state="the API server to know the role"
    )
    results = site.results()
    assert "create pods/exec in" in results["exec_rights"].message
    assert "create pods/portforward in" in results["port_forward_rights"].message
    assert "others_gangs_rights" not in results  # the observer's


def test_kueues_configuration_is_read_with_the_workers_rights_alone(site, pool):
    pool()
    document = {"kubeconfig": site.kubeconfig, "k8s_namespace": site.namespace}
    settings = {"scheduler_type": "kueue"}
    services.put_backend(name="queued", document=document | {"scheduler_settings": settings}, change=ADMIN)

    def result():
        backend = Backend.objects.select_related("cluster").get(name="queued")
        return {check.check: check for check in check_cluster(read_cluster(backend))}["kueue_topology"]

    assert "there is no ConfigMap kueue-manager-config" in result().message
    text = "apiVersion: config.kueue.x-k8s.io/v1beta1\nfeatureGates: {TopologyAwareScheduling: false}"
    config_map = {
        "metadata": {"name": "kueue-manager-config"},
        "data": {"controller_manager_config.yaml": text},
    }
    site.api.create("/api/v1/namespaces/kueue-system/configmaps", config_map)
    assert result().status == "failed"


def test_without_the_drivers_definitions_what_nvlink_needs_is_missing(site, pool, capsys):
    pool()
    name = "computedomains.resource.nvidia.com"
    definition = site.api.get(f"{DEFINITIONS}/{name}")
    device_class = site.api.get(f"/apis/resource.k8s.io/v1/deviceclasses/{CHANNEL_CLASS}")
    site.api.delete(f"{DEFINITIONS}/{name}")
    site.api.delete(f"/apis/resource.k8s.io/v1/deviceclasses/{CHANNEL_CLASS}")
    try:
        controlplane._wait(
            lambda: (
                site.api.find("/apis/resource.nvidia.com/v1beta1") is None
                or name.partition(".")[0] not in served(site.api)
            ),
            state="the definition to be gone",
        )
        assert site.statuses("failed") == {"compute_domains", "device_class"}
        with pytest.raises(SystemExit) as ended:
            call_command("preflight", "--backend", "east", "--json")
        assert ended.value.code == 1
        assert '"status": "failed"' in capsys.readouterr().out
    finally:
        again = {"metadata": {"name": name}, "spec": definition["spec"]}
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        site.api.create(DEFINITIONS, kind | again)
        restored = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}
        metadata = {"name": CHANNEL_CLASS}
        site.api.create(
            "/apis/resource.k8s.io/v1/deviceclasses",
            restored | {"metadata": metadata, "spec": device_class["spec"]},
        )
        controlplane._wait(lambda: name.partition(".")[0] in served(site.api), state="it to be served")


def served(api):
    listed = api.find("/apis/resource.nvidia.com/v1beta1") or {"resources": []}
    return {entry["name"] for entry in listed["resources"]}


def test_without_its_role_the_account_lacks_rights_and_each_is_named(site, pool):
    pool()
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{site.namespace}/roles/osmo-topology-worker"
    rules = site.api.get(role)["rules"]
    kept = [rule for rule in rules if "pods" not in rule["resources"]]
    site.api.patch(role, {"rules": kept})
    controlplane._wait(
        lambda: site.results()["rights"].status == "failed", state="the API server to know the role"
    )
    result = site.results()["rights"]
    assert "create pods in" in result.message
    assert "deploy/rbac" in result.to_do


def test_a_key_on_a_look_alike_of_the_nodes_label_is_named(site, pool):
    pool(label="nvidia.com/gpu-clique")
    result = site.results()["pool_labels"]
    assert result.status == "failed"
    assert f"nvidia.com/gpu-clique is meant to be {CLIQUE}" in result.to_do


def test_a_cluster_that_does_not_answer_is_not_reachable_and_nothing_else_failed(site, pool):
    pool()
    away = connect.gateway(Access(kubeconfig="/nonexistent"), 1.0, None)
    before, connect.connect = connect.connect, lambda *_: away
    try:
        assert site.statuses("failed") == {"reachable"}
        assert "passed" not in {result.status for result in site.results().values()}
    finally:
        connect.connect = before
