"""A real API server takes every rendered object, strictly validated, in a namespace of restricted pods.

Nothing is created but the accounts, without which no pod is admitted: the rest is a dry run. The kinds of the
Gateway API and of the Prometheus operator are those of their own modules.
"""

import time
from functools import partial

import pytest
import yaml

from localcluster import build
from localcluster.api import APPLY_PATCH, ApiError
from tests.chart.objects import WORKLOADS, container_of, of_kind, path_of
from tests.chart.values import CHART, TABLE, merged

SECONDS = 150
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def definitions(cluster_api):
    folder = build.documents_folder(build.CHART_DEFINITIONS)
    if not folder.exists():
        pytest.skip("the definitions are not fetched: python -m localcluster.build chart")
    for path in sorted(folder.glob("*.yaml")):
        (body,) = [document for document in yaml.safe_load_all(path.read_text()) if document]
        name = body["metadata"]["name"]
        cluster_api.apply(f"{CRDS}/{name}", body, manager="administrator")
        until = time.monotonic() + SECONDS
        while not served(cluster_api, body):
            assert time.monotonic() < until, f"{name} is not served"
            time.sleep(0.05)


def served(api, body):
    names = body["spec"]["names"]["plural"]
    versions = [version["name"] for version in body["spec"]["versions"] if version["served"]]
    try:
        for version in versions:
            root = f"/apis/{body['spec']['group']}/{version}"
            api.list(f"{root}/{names}")
            if names not in {resource["name"] for resource in api.get(root)["resources"]}:
                return False
    except ApiError as error:
        if error.code in {404, 429, 503}:
            return False
        raise
    return True


@pytest.fixture
def restricted(cluster_api, namespace):
    """A namespace whose label lets nothing in but restricted pods, once admission knows the label."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster_api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": label}})
    until = time.monotonic() + SECONDS
    while lets_in(cluster_api, namespace, {"containers": [{"name": "c", "image": "i"}]}):
        assert time.monotonic() < until, "the namespace is not restricted"
        time.sleep(0.05)
    return namespace


def lets_in(api, namespace, spec):
    try:
        body = {"metadata": {"name": "any"}, "spec": spec}
        api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body=body, query={"dryRun": "All"})
    except ApiError as error:
        if error.code != 403:
            raise
        return False
    return True


def dry_run(api, body):
    path = f"{path_of(api, body)}/{body['metadata']['name']}"
    query = {**STRICT, "fieldManager": "helm", "force": "true"}
    return api.call("PATCH", path, body=body, content_type=APPLY_PATCH, query=query)


def create_pod(api, namespace, workload, name):
    template = workload["spec"]["template"]
    claims = [
        {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": "any"}}
        for claim in workload["spec"].get("volumeClaimTemplates", [])  # a controller adds them to the pod
    ]
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": name, "namespace": namespace},
        "spec": {**template["spec"], "volumes": template["spec"]["volumes"] + claims},
    }
    return api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body=body, query=STRICT)


@pytest.mark.parametrize("case", TABLE)
def test_every_object_is_one_that_the_server_takes(cluster_api, definitions, restricted, render, case):
    namespaces = {"taskNamespaces": [{"name": "default", "create": True}]}
    rights = {"kaiNamespace": "kai-scheduler", "kueueNamespace": "kueue-system"}
    changes = merged({"rights": rights}, TABLE[case] | namespaces)
    objects = render(changes, namespace=restricted)
    for account in of_kind(objects, "ServiceAccount"):
        cluster_api.create(path_of(cluster_api, account), account)
    for body in objects:
        if body["metadata"].get("namespace") in rights.values():  # neither is installed here
            body["metadata"]["namespace"] = "default"
        accepted = dry_run(cluster_api, body)
        assert accepted["kind"] == body["kind"]
    workloads = of_kind(objects, *WORKLOADS)
    assert workloads
    (preflight,) = of_kind(objects, "Pod")
    path = path_of(cluster_api, preflight)
    assert cluster_api.call("POST", path, body=preflight, query=STRICT)["spec"]["containers"]
    for workload in workloads:
        pod = create_pod(cluster_api, restricted, workload, workload["metadata"]["name"])
        assert pod["spec"]["containers"]


def test_the_namespace_refuses_a_pod_that_asks_for_more(cluster_api, restricted, render):
    """What the other test relies on."""
    (beat,) = [
        deployment
        for deployment in of_kind(render(namespace=restricted), "Deployment")
        if deployment["metadata"]["name"].endswith("-beat")
    ]
    beat["spec"]["template"]["spec"]["serviceAccountName"] = "default"
    create_pod(cluster_api, restricted, beat, "as-it-is")
    del container_of(beat)["securityContext"]["capabilities"]
    with pytest.raises(ApiError, match='violates PodSecurity "restricted'):
        create_pod(cluster_api, restricted, beat, "with-capabilities")


def test_the_server_refuses_a_field_that_it_does_not_know(cluster_api, definitions, restricted, render):
    """What the other test relies on, for kinds of the server's own and for those of others."""
    objects = render(TABLE["everything"], namespace=restricted)
    for kind in ("Deployment", "HTTPRoute", "PodMonitor", "PrometheusRule"):
        body = of_kind(objects, kind)[0]
        body["spec"]["unheardOf"] = True
        with pytest.raises(ApiError, match="unheardOf"):
            dry_run(cluster_api, body)


def test_a_secret_that_is_missing_is_named_before_anything_is_installed(helm, plane, cluster_api, restricted):
    secrets = f"/api/v1/namespaces/{restricted}/secrets"
    values = merged({"taskNamespaces": [{"name": "default"}]})
    install = partial(
        helm.run,
        *("install", "train", str(CHART), "--namespace", restricted),
        *("--dry-run=server", "--kubeconfig", str(plane.kubeconfig("admin"))),
        values=values,
    )

    def secret(name, **content):
        cluster_api.create(secrets, {"metadata": {"name": name}, "stringData": content})

    missing = f"secretKey.existingSecret: there is no Secret osmo-key in namespace {restricted}"
    assert missing in install().stderr
    secret("osmo-key", **{"secret-key": "k" * 40})
    secret("osmo-database", username="osmo")
    assert "database.existingSecret: the Secret osmo-database has no key password" in install().stderr
    cluster_api.patch(f"{secrets}/osmo-database", {"stringData": {"password": "p"}})
    accepted = install()
    assert accepted.returncode == 0, accepted.stderr


MISSING = [
    (
        {"caBundle": {"configMap": "company-ca"}},
        "caBundle.configMap: there is no ConfigMap company-ca in namespace",
    ),
    (
        {"caBundle": {"configMap": "bundle", "key": "bundle.pem"}},
        "caBundle.configMap: the ConfigMap bundle has no key bundle.pem",
    ),
    ({"caBundle": {"secret": "company-ca"}}, "caBundle.secret: there is no Secret company-ca"),
    ({"logs": {"existingSecret": "osmo-s3"}}, "logs.existingSecret: there is no Secret osmo-s3"),
    (
        {"logs": {"store": "", "existingClaim": "logs"}},
        "logs.existingClaim: there is no PersistentVolumeClaim logs",
    ),
    (
        {"configuration": {"enabled": True, "existingConfigMap": "declared"}},
        "configuration.existingConfigMap: there is no ConfigMap declared",
    ),
    ({"image": {"pullSecrets": ["registry"]}}, "image.pullSecrets: there is no Secret registry"),
    (
        {"database": {"host": "", "urlKey": "username", "direct": {"urlKey": "direct"}}},
        "database.existingSecret: the Secret osmo-database has no key direct",
    ),
    (
        {"taskNamespaces": [{"name": "nowhere-at-all"}]},
        "taskNamespaces: there is no namespace nowhere-at-all: create it first",
    ),
    (
        {"rights": {"kaiNamespace": "kai-scheduler"}},
        "rights.kaiNamespace: there is no namespace kai-scheduler",
    ),
    (
        {"rights": {"kueueNamespace": "kueue-system"}},
        "rights.kueueNamespace: there is no namespace kueue-system",
    ),
]


def test_a_missing_object_that_values_name_is_named_before_anything_is_installed(
    helm, plane, cluster_api, restricted
):
    secrets = f"/api/v1/namespaces/{restricted}/secrets"
    key, database = {"secret-key": "k" * 40}, {"username": "osmo", "password": "p"}
    cluster_api.create(secrets, {"metadata": {"name": "osmo-key"}, "stringData": key})
    cluster_api.create(secrets, {"metadata": {"name": "osmo-database"}, "stringData": database})
    bundle = {"metadata": {"name": "bundle"}, "data": {"ca.crt": "any"}}
    cluster_api.create(f"/api/v1/namespaces/{restricted}/configmaps", bundle)
    for changes, sentence in MISSING:
        answer = helm.run(
            *("install", "train", str(CHART), "--namespace", restricted),
            *("--dry-run=server", "--kubeconfig", str(plane.kubeconfig("admin"))),
            values=merged({"taskNamespaces": [{"name": "default"}]} | changes),
        )
        assert sentence in answer.stderr, changes


PASSWORDS = {
    "one that the chart makes": ({}, "train-osmo-topology-quickstart", "{.data.password}"),
    "one of the administrator's own": (
        {"existingSecret": "mine", "key": "admin.password"},
        "mine",
        r"{.data.admin\.password}",
    ),
}


@pytest.mark.parametrize("case", PASSWORDS)
def test_helm_says_where_the_password_of_a_quickstart_is(helm, plane, cluster_api, namespace, case):
    administrator, secret, path = PASSWORDS[case]
    body = {"metadata": {"name": "mine"}, "stringData": {"admin.password": "p"}}
    cluster_api.create(f"/api/v1/namespaces/{namespace}/secrets", body)
    changes = {"administrator": administrator, "taskNamespaces": [{"name": "default"}]}
    answer = helm.run(
        *("install", "train", str(CHART), "--namespace", namespace),
        *("--dry-run=server", "--kubeconfig", str(plane.kubeconfig("admin"))),
        values=merged(changes, TABLE["the quickstart"] | {"url": "http://127.0.0.1:8000"}),
    )
    assert f"get secret {secret} -o jsonpath='{path}'" in answer.stdout, answer.stderr
