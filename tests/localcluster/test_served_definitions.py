"""What the API server refuses and fills in for KAI's and NVIDIA's kinds."""

import secrets

import pytest

from localcluster.api import Api, ApiError
from localcluster.crds.nvidia import CHANNEL_CLASS, DAEMON_CLASS

TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture(scope="session")
def newer_api(plane_017):
    api = Api(plane_017.access())
    yield api
    api.close()


def topology(*labels, name=None):
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name or f"t{secrets.token_hex(4)}"},
        "spec": {"levels": [{"nodeLabel": label} for label in labels]},
    }


def pod_group(*sub_groups, **spec):
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": f"g{secrets.token_hex(4)}"},
        "spec": {"subGroups": list(sub_groups), **spec},
    }


def compute_domain(**spec):
    channel = {"resourceClaimTemplate": {"name": "claims"}}
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": f"d{secrets.token_hex(4)}"},
        "spec": {"channel": channel, **spec},
    }


def pod_groups(namespace):
    return f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"


def refused(call, *arguments):
    """The message of the refusal; accepting is the failure."""
    with pytest.raises(ApiError) as caught:
        call(*arguments)
    assert caught.value.code == 422
    return caught.value.message


def test_device_claims_and_native_pod_groups_are_served(cluster_api):
    groups = {group["name"]: group["preferredVersion"] for group in cluster_api.get("/apis")["groups"]}
    assert groups["resource.k8s.io"]["version"] == "v1"
    served = cluster_api.get("/apis/scheduling.k8s.io/v1beta1")["resources"]
    assert "podgroups" in {resource["name"] for resource in served}
    served = cluster_api.get("/apis/scheduling.k8s.io/v1alpha3")["resources"]
    assert "compositepodgroups" in {resource["name"] for resource in served}


@pytest.mark.parametrize("name", [CHANNEL_CLASS, DAEMON_CLASS])
def test_the_device_classes_of_compute_domains_exist(cluster_api, name):
    assert cluster_api.find(f"/apis/resource.k8s.io/v1/deviceclasses/{name}") is not None


REFUSED_TOPOLOGIES = {
    "a label twice": (["zone", "rack", "zone"], "must be unique"),
    "the node's own label above another": ([HOSTNAME, "rack"], "lowest level"),
    "more than sixteen levels": ([f"level-{i}" for i in range(17)], "at most 16 items"),
    "no level": ([], "at least 1 items"),
    "what is no label": (["not a label!"], "should match"),
}


@pytest.mark.parametrize(("labels", "want"), REFUSED_TOPOLOGIES.values(), ids=REFUSED_TOPOLOGIES)
def test_a_topology_is_refused_with(cluster_api, newer_api, labels, want):
    for api in (cluster_api, newer_api):
        assert want in refused(api.create, TOPOLOGIES, topology(*labels))


def test_the_levels_of_a_topology_never_change(cluster_api, newer_api):
    for api in (cluster_api, newer_api):
        made = api.create(TOPOLOGIES, topology("zone", "rack", HOSTNAME))
        path = f"{TOPOLOGIES}/{made['metadata']['name']}"
        assert "immutable" in refused(api.patch, path, {"spec": {"levels": [{"nodeLabel": "zone"}]}})
        api.delete(path)


def test_only_the_newer_line_knows_aliases_and_lets_them_change(cluster_api, newer_api):
    body = topology("zone")
    body["spec"]["levels"][0]["alias"] = "z"
    assert cluster_api.create(TOPOLOGIES, body)["spec"]["levels"] == [{"nodeLabel": "zone"}]
    newer_api.create(TOPOLOGIES, body)
    path = f"{TOPOLOGIES}/{body['metadata']['name']}"
    levels = [{"nodeLabel": "zone", "alias": "y"}]
    assert newer_api.patch(path, {"spec": {"levels": levels}})["spec"]["levels"] == levels


def test_the_older_line_drops_minsubgroup_and_takes_members_on_an_inner_subgroup(cluster_api, namespace):
    inner = {"name": "zone", "minMember": 2, "minSubGroup": 1}
    leaf = {"name": "Rack", "parent": "zone", "minMember": 2}
    made = cluster_api.create(pod_groups(namespace), pod_group(inner, leaf))
    assert made["spec"]["subGroups"] == [{"name": "zone", "minMember": 2}, leaf]


REFUSED_BY_BOTH = {
    "a name twice": (
        [{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}],
        "duplicate subgroup names",
    ),
    "an unknown parent": ([{"name": "a", "parent": "b", "minMember": 1}], "a parent names no subgroup"),
}
REFUSED_BY_NEWER = {
    "capitals": ([{"name": "A", "minMember": 1}], "should match"),
    "members on an inner subgroup": (
        [{"name": "a", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}],
        "minMember is not allowed on a subgroup with children",
    ),
    "a leaf without members": ([{"name": "a"}], "a leaf subgroup must set minMember"),
}


@pytest.mark.parametrize(("groups", "want"), REFUSED_BY_BOTH.values(), ids=REFUSED_BY_BOTH)
def test_both_lines_refuse_a_pod_group_with(cluster_api, newer_api, namespace, groups, want):
    assert want in refused(cluster_api.create, pod_groups(namespace), pod_group(*groups))
    assert want in refused(newer_api.create, pod_groups("default"), pod_group(*groups))


@pytest.mark.parametrize(("groups", "want"), REFUSED_BY_NEWER.values(), ids=REFUSED_BY_NEWER)
def test_only_the_newer_line_refuses_a_pod_group_with(cluster_api, newer_api, namespace, groups, want):
    cluster_api.create(pod_groups(namespace), pod_group(*groups))
    assert want in refused(newer_api.create, pod_groups("default"), pod_group(*groups))


def test_a_pod_group_of_a_thousand_subgroups_is_accepted(cluster_api, newer_api, namespace):
    leaves = [{"name": f"leaf-{i}", "parent": "all", "minMember": 4} for i in range(1000)]
    body = pod_group({"name": "all"}, *leaves)
    cluster_api.create(pod_groups(namespace), body)
    newer_api.create(pod_groups("default"), body)


def test_a_compute_domain_gets_its_defaults_and_never_changes(cluster_api, namespace):
    path = f"/apis/resource.nvidia.com/v1beta1/namespaces/{namespace}/computedomains"
    made = cluster_api.create(path, compute_domain())
    assert made["spec"]["numNodes"] == 0
    assert made["spec"]["channel"]["allocationMode"] == "Single"
    mine = f"{path}/{made['metadata']['name']}"
    assert "immutable" in refused(cluster_api.patch, mine, {"spec": {"numNodes": 2}})


def test_a_compute_domain_without_a_channel_is_refused(cluster_api, namespace):
    path = f"/apis/resource.nvidia.com/v1beta1/namespaces/{namespace}/computedomains"
    body = compute_domain(numNodes=0)
    del body["spec"]["channel"]
    assert "spec.channel" in refused(cluster_api.create, path, body)


def test_the_products_own_identity_may_do_nothing_that_it_was_not_granted(plane, namespace):
    api = Api(plane.access("osmo"))
    with pytest.raises(ApiError) as caught:
        api.get(f"/api/v1/namespaces/{namespace}/pods")
    assert caught.value.code == 403
    api.close()
