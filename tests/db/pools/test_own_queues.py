"""Queues of Kueue that the service owns follow the configuration and outlive what names them."""

import pytest

from cluster.errors import RequestForbidden
from pools import conditions, selectors, services, tasks
from pools.clusters.kinds import owned_kinds
from pools.models import Backend, Pool
from pools.services.pool_objects import queue_of
from scheduling import names
from scheduling.errors import InvalidSpec
from scheduling.topology.levels import HOSTNAME_LABEL
from tests.fakes.players import kueue_finalizers

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")
RACK = {"key": "rack", "label": "example.com/rack"}
ZONE = {"key": "zone", "label": "topology.kubernetes.io/zone"}
TOPOLOGY, FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE = owned_kinds()
OWN = {"own_queues": True}


@pytest.fixture(autouse=True)
def kueue(cluster):
    cluster.players.append(kueue_finalizers)


def register(name="kueue", scheduler="kueue", **queue_settings):
    document = {
        "kubeconfig": "/etc/kai",
        "scheduler_settings": {"scheduler_type": scheduler},
        "queue_settings": queue_settings,
    }
    return services.put_backend(name=name, document=document, change=ADMIN).value


def save(name="train", keys=(ZONE, RACK), backend="kueue", **more):
    document = {"backend": backend, "topology_keys": list(keys), **more}
    return services.put_pool(name=name, document=document, change=ADMIN).value


def settle(cluster):
    tasks.sync_cluster(cluster.kube_system_uid())


def condition(kind, name="kueue"):
    return conditions.find(Backend.objects.get(name=name).conditions, kind)


def queue(name="train"):
    return queue_of(Pool.objects.select_related("backend").get(name=name), selectors.installation())


def left(cluster):
    return {kind.name: cluster.names(kind) for kind in owned_kinds() if cluster.names(kind)}


def test_a_pool_gets_a_queue_and_what_it_leads_to(cluster):
    register(**OWN)
    save(resources={"gpu": {"maximum": 16}})
    settle(cluster)
    local = cluster.get(LOCAL_QUEUE, queue(), namespace="osmo")
    above = cluster.get(CLUSTER_QUEUE, local["spec"]["clusterQueue"])
    (flavor,) = above["spec"]["resourceGroups"][0]["flavors"]
    topology = cluster.get(FLAVOR, flavor["name"])["spec"]["topologyName"]
    levels = [entry["nodeLabel"] for entry in cluster.get(TOPOLOGY, topology)["spec"]["levels"]]
    assert levels == [ZONE["label"], RACK["label"], HOSTNAME_LABEL]
    assert {"name": "nvidia.com/gpu", "nominalQuota": "16"} in flavor["resources"]
    assert condition("Synced")["status"] == "True"

    before = len(cluster.calls)
    settle(cluster)
    assert {call.verb for call in cluster.calls[before:]} <= {"get", "list"}


def test_without_the_setting_nothing_of_kueue_is_made_or_read(cluster):
    register()
    register("kai", scheduler="kai")
    save()
    save("other", backend="kai")
    settle(cluster)
    assert left(cluster) == {}
    assert not {call.kind for call in cluster.calls} & set(owned_kinds())
    assert queue() == names.queue("osmo", "train")


def test_a_pool_that_names_a_queue_keeps_it(cluster):
    register(**OWN)
    save(local_queue="team")
    settle(cluster)
    assert (left(cluster), queue()) == ({}, "team")


def test_new_keys_are_new_queues_and_the_old_ones_stay_for_their_groups(cluster, running):
    register(**OWN)
    save()
    settle(cluster)
    before = left(cluster)
    running.queues, old = {queue()}, queue()
    save(keys=[RACK])
    settle(cluster)
    assert queue() != old
    for kind, names_before in before.items():
        assert set(names_before) < set(left(cluster)[kind]), kind
    settle(cluster)
    assert len(left(cluster)["ResourceFlavor"]) == 2

    running.queues = set()
    settle(cluster)
    settle(cluster)
    assert left(cluster)["LocalQueue"] == left(cluster)["ClusterQueue"] == [queue()]
    assert [len(names_left) for names_left in left(cluster).values()] == [1, 1, 1, 1]


def test_another_maximum_is_written_into_the_same_queue(cluster):
    register(**OWN)
    save(resources={"gpu": {"maximum": 16}})
    settle(cluster)
    before = left(cluster)
    save(resources={"gpu": {"maximum": 8}})
    settle(cluster)
    assert left(cluster) == before
    (group,) = cluster.get(CLUSTER_QUEUE, queue())["spec"]["resourceGroups"]
    assert {"name": "nvidia.com/gpu", "nominalQuota": "8"} in group["flavors"][0]["resources"]


def test_two_pools_of_the_same_nodes_and_keys_share_flavor_and_topology(cluster):
    register(**OWN)
    save()
    save("second")
    settle(cluster)
    assert [len(names_left) for names_left in left(cluster).values()] == [1, 1, 2, 2]
    services.delete_pool(name="second", change=ADMIN, force=False)
    settle(cluster)
    assert [len(names_left) for names_left in left(cluster).values()] == [1, 1, 1, 1]


@pytest.mark.parametrize("end", ["pool", "setting", "scheduler"])
def test_objects_that_nobody_needs_go_in_order(cluster, end):
    register(**OWN)
    save()
    settle(cluster)
    match end:
        case "pool":
            services.delete_pool(name="train", change=ADMIN, force=False)
        case "setting":
            register()
        case "scheduler":
            register(scheduler="kai")
    settle(cluster)
    assert left(cluster) == {}
    kinds = ["LocalQueue", "ClusterQueue", "ResourceFlavor", "Topology"]
    deleted = [
        call.kind.name for call in cluster.calls if call.verb == "delete" and call.kind in owned_kinds()
    ]
    assert deleted == kinds


def test_a_deleted_backend_is_clean_once_kueue_has_let_everything_go(cluster):
    register(**OWN)
    save()
    settle(cluster)
    cluster.players.remove(kueue_finalizers)  # Kueue is away
    services.delete_pool(name="train", change=ADMIN, force=False)
    services.delete_backend(name="kueue", change=ADMIN, force=False)
    settle(cluster)
    assert set(left(cluster)) == {"ClusterQueue", "ResourceFlavor", "Topology"}
    assert Backend.objects.get().cleaned_at is None
    cluster.players.append(kueue_finalizers)
    cluster.put(LOCAL_QUEUE, {"metadata": {"name": "another", "namespace": "osmo"}, "spec": {}})
    settle(cluster)
    settle(cluster)
    assert set(left(cluster)) == {"LocalQueue"}
    assert Backend.objects.get().cleaned_at is not None


def test_edits_in_the_cluster_are_undone(cluster):
    register(**OWN)
    save()
    settle(cluster)
    flavor = left(cluster)["ResourceFlavor"][0]
    want = {
        kind: cluster.get(kind, name)["spec"] for kind, name in ((CLUSTER_QUEUE, queue()), (FLAVOR, flavor))
    }
    cluster.edit(FLAVOR, flavor, lambda obj: obj["spec"].update(nodeLabels={"kubernetes.io/os": "windows"}))
    cluster.edit(
        CLUSTER_QUEUE,
        queue(),
        lambda obj: obj["spec"].update(cohortName="all", preemption={"withinClusterQueue": "Never"}),
    )
    settle(cluster)
    assert {
        kind: cluster.get(kind, name)["spec"] for kind, name in ((CLUSTER_QUEUE, queue()), (FLAVOR, flavor))
    } == want
    assert condition("Synced")["status"] == "True"


def test_a_stopped_queue_stays_stopped(cluster):
    """An administrator who drains the queue does not fight the service."""
    register(**OWN)
    save()
    settle(cluster)
    cluster.edit(CLUSTER_QUEUE, queue(), lambda obj: obj["spec"].update(stopPolicy="Hold"))
    settle(cluster)
    assert cluster.get(CLUSTER_QUEUE, queue())["spec"]["stopPolicy"] == "Hold"


def test_somebody_elses_queue_of_our_name_is_left_alone_and_reported(cluster):
    register(**OWN)
    save()
    theirs = cluster.put(CLUSTER_QUEUE, {"metadata": {"name": queue()}, "spec": {"cohortName": "theirs"}})
    settle(cluster)
    assert cluster.get(CLUSTER_QUEUE, queue())["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert cluster.get(CLUSTER_QUEUE, queue())["spec"] == {"cohortName": "theirs"}
    assert condition("ForeignObjects")["status"] == "True"
    assert queue() in condition("ForeignObjects")["message"]
    assert cluster.names(LOCAL_QUEUE) == []  # it would lead our groups into somebody else's queue


def test_an_object_that_somebody_deleted_is_made_again_after_it_is_gone(cluster):
    register(**OWN)
    save()
    settle(cluster)
    (flavor,) = left(cluster)["ResourceFlavor"]
    uid = cluster.get(FLAVOR, flavor)["metadata"]["uid"]
    cluster.delete(FLAVOR, flavor, uid=uid)
    save("second")
    settle(cluster)
    assert (condition("Synced")["reason"], queue("second")) == ("Deleted", queue("second"))
    assert flavor in condition("Synced")["message"]
    assert queue("second") not in cluster.names(CLUSTER_QUEUE)


def test_missing_rights_are_one_condition_and_stop_nothing_else(cluster):
    register(**OWN)
    register("kai", scheduler="kai")
    save()
    save("other", backend="kai")
    for kind in owned_kinds():
        cluster.fail(RequestForbidden(f"{kind.plural} are not yours"), kind=kind, times=100)
    settle(cluster)
    assert (condition("Synced")["status"], condition("Synced")["reason"]) == ("False", "Forbidden")
    assert "deploy/rbac/kueue-queues.yaml" in condition("Synced")["message"]
    assert cluster.kinds() >= {"Queue", "Topology", "PriorityClass"}
    assert {call.verb for call in cluster.calls if call.kind in owned_kinds()} == {"list"}


def test_a_cluster_without_kueues_kinds_says_so(cluster):
    register(**OWN)
    save()
    cluster.unserved |= set(owned_kinds())
    settle(cluster)
    assert condition("Synced")["reason"] == "NotServed"
    assert "ClusterQueue" in condition("Synced")["message"]


def faults(refused):
    return [(fault.path, fault.code) for fault in refused.value.faults]


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes", "default"])
def test_another_scheduler_owns_no_queues(scheduler):
    with pytest.raises(InvalidSpec) as refused:
        register(scheduler=scheduler, **OWN)
    assert (("queue_settings", "own_queues"), "no_own_queues") in faults(refused)


@pytest.mark.parametrize("scheduler", ["kai", "kueue", "default"])
def test_nobody_vouches_for_composites_of_a_scheduler_that_makes_none(scheduler):
    document = {"scheduler_settings": {"scheduler_type": scheduler}, "composite_pod_groups": True}
    with pytest.raises(InvalidSpec) as refused:
        services.put_backend(name="vouched", document=document, change=ADMIN)
    assert (("composite_pod_groups",), "no_composites") in faults(refused)


def test_a_maximum_needs_a_queue_of_ours():
    register(**OWN)
    save(resources={"gpu": {"maximum": 16}})
    for more in (
        {"local_queue": "team", "resources": {"gpu": {"maximum": 16}}},
        {"resources": {"gpu": {"guarantee": 8}}},
    ):
        with pytest.raises(InvalidSpec) as refused:
            save(**more)
        assert [code for _, code in faults(refused)] == ["unsupported_capability"]
    with pytest.raises(InvalidSpec) as refused:
        register()
    assert faults(refused) == [(("queue_settings", "own_queues"), "unsupported_capability")]


def test_a_templates_resource_is_in_the_queue(cluster):
    template = {
        "spec": {"containers": [{"name": "{{USER_CONTAINER_NAME}}", "resources": {"limits": {"rdma/ib": 1}}}]}
    }
    services.put_pod_template(name="rdma", document=template, change=ADMIN)
    register(**OWN)
    save()
    plain = queue()
    save(common_pod_template=["rdma"], platforms={"gpu": {}})
    settle(cluster)
    (group,) = cluster.get(CLUSTER_QUEUE, queue())["spec"]["resourceGroups"]
    assert "rdma/ib" in group["coveredResources"]
    assert queue() != plain
