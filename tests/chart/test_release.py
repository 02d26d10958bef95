"""A release on a real API server: it comes, changes, goes back, and leaves what holds work.

Hooks are left out, since nothing here runs the containers of their Jobs.
"""

import secrets
from functools import partial

import pytest

from tests.builders.waiting import until
from tests.chart.values import CHART, TABLE, merged

pytestmark = pytest.mark.deep

SECONDS = 150
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
POLICIES = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
)
COLLECTIONS = (
    "/api/v1/namespaces",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/api/v1/serviceaccounts",
    "/api/v1/secrets",
    "/api/v1/services",
    "/api/v1/configmaps",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/apis/batch/v1/jobs",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/policy/v1/poddisruptionbudgets",
    *POLICIES,
)
CONTENTS = {
    "osmo-key": {"secret-key": "k" * 40},
    "osmo-database": {"username": "osmo", "password": "p"},
}


class Site:
    """A namespace of a cluster with a release of its own name; ``tasks`` is one that the chart creates."""

    def __init__(self, helm, plane, api, namespace):
        self.api, self.namespace = api, namespace
        self.release, self.tasks = f"r{secrets.token_hex(4)}", f"{namespace}-tasks"
        self._helm, self._kubeconfig = helm, str(plane.kubeconfig("admin"))
        self.base = {"taskNamespaces": [{"name": self.tasks, "create": True}]}

    def helm(self, command, *arguments, values=None, namespace=""):
        where = ("--namespace", namespace or self.namespace, "--kubeconfig", self._kubeconfig, "--no-hooks")
        return self._helm.run(command, *arguments, *where, values=values)

    def run(self, command, *arguments, values=None):
        answer = self.helm(command, self.release, *arguments, values=values)
        assert answer.returncode == 0, answer.stderr

    def chart(self, command, changes):
        self.run(command, str(CHART), values=merged(changes | self.base))

    def path(self, group, plural, name):
        return f"{group}/namespaces/{self.namespace}/{plural}/{self.release}-osmo-topology-{name}"

    def objects(self):
        """Plural and name of everything that bears the label of the release."""
        query = {"labelSelector": f"app.kubernetes.io/instance={self.release}"}
        return {
            (path.rpartition("/")[2], obj["metadata"]["name"])
            for path in COLLECTIONS
            for obj in self.api.list(path, query=query)[0]
            if not obj["metadata"].get("deletionTimestamp")
        }


@pytest.fixture
def site(helm, plane, cluster_api, namespace):
    site = Site(helm, plane, cluster_api, namespace)
    yield site
    cluster_api.delete(f"/api/v1/namespaces/{site.tasks}")


def allowed(api, user, **attributes):
    return api.create(REVIEWS, {"spec": {"user": user, "resourceAttributes": attributes}})["status"][
        "allowed"
    ]


def test_a_release_comes_changes_goes_back_and_leaves_what_holds_work(site):
    mine = f"/api/v1/namespaces/{site.namespace}/secrets"
    for name, content in CONTENTS.items():
        site.api.create(mine, {"metadata": {"name": name}, "stringData": content})
    worker = site.path("/apis/apps/v1", "deployments", "worker")

    site.chart("install", {})
    account = f"system:serviceaccount:{site.namespace}:{site.release}-osmo-topology-worker"
    pods = partial(allowed, site.api, account, verb="create", resource="pods")
    until(lambda: pods(namespace=site.tasks))
    assert not pods(namespace=site.namespace)
    assert site.api.get(worker)["spec"]["replicas"] == 2

    site.chart("upgrade", {"worker": {"replicas": 3}, "rights": {"ownObjectsOnly": True}})
    assert site.api.get(worker)["spec"]["replicas"] == 3
    assert {path for path, _ in site.objects()} >= {path.rpartition("/")[2] for path in POLICIES}
    site.run("rollback", "1")
    assert site.api.get(worker)["spec"]["replicas"] == 2

    site.run("uninstall")
    until(lambda: site.objects() == {("namespaces", site.tasks)})
    assert all(site.api.find(f"{mine}/{name}") for name in CONTENTS)
    site.chart("install", {})  # what was left is taken up again
    site.run("uninstall")


def test_the_passwords_of_a_quickstart_stay_over_an_upgrade(site):
    quick = TABLE["the quickstart"]
    path = site.path("/api/v1", "secrets", "quickstart")
    site.chart("install", quick)
    first = site.api.get(path)["data"]
    site.chart("upgrade", quick | {"beat": {"graceSeconds": 20}})
    assert site.api.get(path)["data"] == first
    assert set(first) == {"postgresql-password", "secret-key", "password"}
    site.run("uninstall")
    until(lambda: site.objects() == {("namespaces", site.tasks)})


def test_a_second_release_does_not_take_what_the_first_one_has(site):
    site.chart("install", TABLE["the quickstart"])
    values = merged(TABLE["the quickstart"] | site.base)
    second = (f"{site.release}-b", str(CHART))
    beside = site.helm("install", *second, values=values)
    assert f"namespace {site.namespace} has release {site.release} of this chart already" in beside.stderr
    elsewhere = site.helm("install", *second, values=values, namespace="default")
    assert f'Namespace "{site.tasks}"' in elsewhere.stderr
    assert "exists and cannot be imported" in elsewhere.stderr
    assert {beside.returncode, elsewhere.returncode} == {1}
    site.run("uninstall")
