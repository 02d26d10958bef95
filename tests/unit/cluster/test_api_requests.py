"""Requests are written as the API server reads them."""

import json

import pytest

from cluster import api_requests, kinds
from cluster.kinds import COMPUTE_DOMAIN, NODE, POD
from pools.clusters import kinds as scheduler_kinds
from tests.fakes.kinds import FURTHER, KAI_POD_GROUP, KAI_TOPOLOGY, POD_GROUP


def test_paths_follow_group_scope_and_name():
    assert api_requests.path_of(POD) == "/api/v1/pods"
    assert api_requests.path_of(POD, namespace="a", name="p") == "/api/v1/namespaces/a/pods/p"
    assert api_requests.path_of(NODE, name="n") == "/api/v1/nodes/n"
    assert (
        api_requests.path_of(COMPUTE_DOMAIN, namespace="a")
        == "/apis/resource.nvidia.com/v1beta1/namespaces/a/computedomains"
    )
    assert api_requests.path_of(KAI_TOPOLOGY, namespace="a") == "/apis/kai.scheduler/v1alpha1/topologies"


def test_a_name_cannot_leave_its_place_in_the_path():
    assert api_requests.path_of(NODE, name="../pods?x") == "/api/v1/nodes/..%2Fpods%3Fx"


def test_a_namespaced_object_without_namespace_is_our_own_fault():
    with pytest.raises(ValueError, match="namespace"):
        api_requests.path_of(POD, name="p")
    with pytest.raises(ValueError, match=r"metadata\.namespace"):
        api_requests.create(POD, {"metadata": {"name": "p"}})


def test_writes_refuse_unknown_fields_and_name_their_manager():
    request = api_requests.create(POD, {"metadata": {"name": "p", "namespace": "a"}}, dry_run=True)
    assert request.path.endswith("?fieldManager=osmo-topology&fieldValidation=Strict&dryRun=All")


def test_a_delete_names_the_uid():
    request = api_requests.delete("/x", uid="u", resource_version=None, grace_seconds=0)
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
    }


def test_a_kind_is_found_by_what_an_object_says_of_itself():
    priority_class = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    assert kinds.kind_of(priority_class) == kinds.PRIORITY_CLASS
    kai_group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    assert scheduler_kinds.kind_of(kai_group) == KAI_POD_GROUP
    assert scheduler_kinds.kind_of(kai_group | {"apiVersion": "scheduling.k8s.io/v1beta1"}) == POD_GROUP
    assert scheduler_kinds.kind_of(priority_class) == kinds.PRIORITY_CLASS
    with pytest.raises(ValueError, match="v1 Pod"):
        kinds.kind_of({"apiVersion": "v1", "kind": "Pood"})


def test_no_two_kinds_share_a_path():
    paths = [api_requests.path_of(kind) for kind in (*kinds.ALL, *FURTHER)]
    assert len(paths) == len(set(paths))


SUBJECTS = {
    "a pod": (api_requests.read("/api/v1/namespaces/a/pods/p"), ("get", "pods")),
    "a pod's log": (api_requests.read("/api/v1/namespaces/a/pods/p/log"), ("get", "pods/log")),
    "all pods of a namespace": (
        api_requests.read("/api/v1/namespaces/a/pods", {"limit": "5"}),
        ("list", "pods"),
    ),
    "a watch": (api_requests.read("/api/v1/nodes", {"watch": "true"}), ("watch", "nodes")),
    "a namespace": (api_requests.read("/api/v1/namespaces/kube-system"), ("get", "namespaces")),
    "a custom kind": (
        api_requests.read("/apis/scheduling.run.ai/v2/queues/q"),
        ("get", "queues.scheduling.run.ai"),
    ),
    "a change": (
        api_requests.Request("PATCH", "/apis/kai.scheduler/v1alpha1/topologies/t?force=true"),
        ("patch", "topologies.kai.scheduler"),
    ),
    "an end": (api_requests.Request("DELETE", "/api/v1/namespaces/a/secrets/s"), ("delete", "secrets")),
    "what a group serves": (api_requests.read("/apis/resource.nvidia.com/v1beta1"), ("get", "discovery")),
    "the version": (api_requests.read("/version"), ("get", "version")),
}


@pytest.mark.parametrize(("request_", "want"), SUBJECTS.values(), ids=SUBJECTS.keys())
def test_a_request_is_counted_under_the_verb_and_the_kind_of_its_right(request_, want):
    assert api_requests.subject_of(request_) == want
