"""The policy of ``rights.ownObjectsOnly`` on a real API server: what the worker's account may still write."""

import time
from dataclasses import replace

import pytest

from localcluster.api import Api, ApiError
from scheduling.names import INSTALLATION_LABEL
from tests.chart.objects import of_kind, path_of

SECONDS = 60
OURS = {INSTALLATION_LABEL: "0" * 32}
KINDS = {
    "a queue": {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "spec": {}},
    "a topology": {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "spec": {"levels": [{"nodeLabel": "rack"}]},
    },
    "a priority class": {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5},
}


@pytest.fixture(params=KINDS)
def kind(request, cluster_api, namespace):
    """(collection, a body, the name of objects of this test), whose objects go with it."""
    body = KINDS[request.param]
    path = path_of(cluster_api, body)
    names = [f"{namespace}-{end}" for end in ("ours", "theirs", "new")]
    yield path, body, names
    for name in names:
        cluster_api.delete(f"{path}/{name}")


@pytest.fixture
def worker(cluster_api, namespace, render):
    """The API as the account of a worker of the chart, under the policy."""
    objects = render({"rights": {"ownObjectsOnly": True}}, namespace=namespace)
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy")
    made = [*of_kind(objects, *kinds), *of_kind(objects, "ValidatingAdmissionPolicyBinding")]
    for body in made:
        cluster_api.create(path_of(cluster_api, body), body)
    request = f"/api/v1/namespaces/{namespace}/serviceaccounts/train-osmo-topology-worker/token"
    spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster_api.create(request, spec)["status"]["token"]
    api = Api(replace(cluster_api.access, token=token))
    until_in_force(api, cluster_api, namespace)
    yield api
    api.close()
    for body in reversed(made):
        cluster_api.delete(f"{path_of(cluster_api, body)}/{body['metadata']['name']}")


def written(name, body, labels):
    return {**body, "metadata": {"name": name, "labels": labels}}


def refusal(call, *arguments):
    """The message with which the API server refuses; empty if it does not."""
    try:
        call(*arguments)
    except ApiError as error:
        if error.code not in (403, 422):
            raise
        return str(error)
    return ""


def until_in_force(api, cluster_api, namespace):
    """The server reads a new policy, and a new role, some time after it took them."""
    path, until = "/apis/scheduling.k8s.io/v1/priorityclasses", time.monotonic() + SECONDS
    probe = written(f"{namespace}-probe", {"value": 1}, {})
    while "writes only objects with the label" not in (said := refusal(api.create, path, probe)):
        assert time.monotonic() < until, said
        cluster_api.delete(f"{path}/{namespace}-probe")
        time.sleep(0.2)


def test_the_worker_writes_its_own_objects(worker, kind):
    path, body, (ours, *_) = kind
    worker.create(path, written(ours, body, OURS))
    worker.patch(f"{path}/{ours}", {"metadata": {"annotations": {"a": "b"}}})
    assert worker.delete(f"{path}/{ours}", missing_ok=False)


def test_the_worker_deletes_and_changes_no_object_of_somebody_else(worker, cluster_api, kind):
    path, body, (_, theirs, _) = kind
    cluster_api.create(path, written(theirs, body, {}))
    address = f"{path}/{theirs}"
    for refused in (
        refusal(worker.delete, address),
        refusal(worker.patch, address, {"metadata": {"annotations": {"a": "b"}}}),
        refusal(worker.patch, address, {"metadata": {"labels": OURS}}),
    ):
        assert "writes only objects with the label" in refused
    assert "annotations" not in cluster_api.get(address)["metadata"]


def test_the_worker_makes_none_without_its_label_and_takes_it_from_none(worker, kind):
    path, body, (ours, _, new) = kind
    assert "writes only objects with the label" in refusal(worker.create, path, written(new, body, {}))
    worker.create(path, written(ours, body, OURS))
    for label in (None, "1" * 32):
        change = {"metadata": {"labels": {INSTALLATION_LABEL: label}}}
        assert "label" in refusal(worker.patch, f"{path}/{ours}", change)


def test_nobody_elses_account_is_under_it(worker, cluster_api, kind):
    path, body, (_, theirs, _) = kind
    cluster_api.create(path, written(theirs, body, {}))
    assert cluster_api.delete(f"{path}/{theirs}", missing_ok=False)


def test_it_is_off_unless_it_is_chosen(render):
    assert not of_kind(render(), "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
