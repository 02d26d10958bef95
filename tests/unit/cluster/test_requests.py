"""Requests are written as the API server reads them."""

import json

import pytest

from cluster import kinds, requests
from cluster.kinds import COMPUTE_DOMAIN, KAI_TOPOLOGY, NODE, POD


def test_paths_follow_group_scope_and_name():
    assert requests.path_of(POD) == "/api/v1/pods"
    assert requests.path_of(POD, namespace="a", name="p") == "/api/v1/namespaces/a/pods/p"
    assert requests.path_of(NODE, name="n") == "/api/v1/nodes/n"
    assert (
        requests.path_of(COMPUTE_DOMAIN, namespace="a")
        == "/apis/resource.nvidia.com/v1beta1/namespaces/a/computedomains"
    )
    assert requests.path_of(KAI_TOPOLOGY, namespace="a") == "/apis/kai.scheduler/v1alpha1/topologies"


def test_a_name_cannot_leave_its_place_in_the_path():
    assert requests.path_of(NODE, name="../pods?x") == "/api/v1/nodes/..%2Fpods%3Fx"


def test_a_namespaced_object_without_namespace_is_our_own_fault():
    with pytest.raises(ValueError, match="namespace"):
        requests.path_of(POD, name="p")
    with pytest.raises(ValueError, match=r"metadata\.namespace"):
        requests.create(POD, {"metadata": {"name": "p"}})


def test_writes_refuse_unknown_fields_and_name_their_manager():
    request = requests.create(POD, {"metadata": {"name": "p", "namespace": "a"}}, dry_run=True)
    assert request.path.endswith("?fieldManager=osmo-topology&fieldValidation=Strict&dryRun=All")


def test_a_delete_names_the_uid():
    request = requests.delete("/x", uid="u", resource_version=None, grace_seconds=0, propagation="Foreground")
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
    }


def test_a_kind_is_found_by_what_an_object_says_of_itself():
    assert (
        kinds.kind_of({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}) == kinds.KAI_POD_GROUP
    )
    assert kinds.kind_of({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}) == kinds.POD_GROUP
    with pytest.raises(ValueError, match="v1 Pod"):
        kinds.kind_of({"apiVersion": "v1", "kind": "Pood"})


def test_no_two_kinds_share_a_path():
    paths = [requests.path_of(kind) for kind in kinds.ALL]
    assert len(paths) == len(set(paths))


SUBJECTS = {
    "a pod": (requests.read("/api/v1/namespaces/a/pods/p"), ("get", "pods")),
    "a pod's log": (requests.read("/api/v1/namespaces/a/pods/p/log"), ("get", "pods/log")),
    "all pods of a namespace": (requests.read("/api/v1/namespaces/a/pods", {"limit": "5"}), ("list", "pods")),
    "a watch": (requests.read("/api/v1/nodes", {"watch": "true"}), ("watch", "nodes")),
    "a namespace": (requests.read("/api/v1/namespaces/kube-system"), ("get", "namespaces")),
    "a custom kind": (
        requests.read("/apis/scheduling.run.ai/v2/queues/q"),
        ("get", "queues.scheduling.run.ai"),
    ),
    "a change": (
        requests.Request("PATCH", "/apis/kai.scheduler/v1alpha1/topologies/t?force=true"),
        ("patch", "topologies.kai.scheduler"),
    ),
    "an end": (requests.Request("DELETE", "/api/v1/namespaces/a/secrets/s"), ("delete", "secrets")),
    "what a group serves": (requests.read("/apis/resource.nvidia.com/v1beta1"), ("get", "discovery")),
    "the version": (requests.read("/version"), ("get", "version")),
}


@pytest.mark.parametrize(("request_", "want"), SUBJECTS.values(), ids=SUBJECTS.keys())
def test_a_request_is_counted_under_the_verb_and_the_kind_of_its_right(request_, want):
    assert requests.subject_of(request_) == want
