"""Queues, topologies and priorities of a cluster follow the configuration, and nothing else is touched."""

import pytest

from cluster.errors import ClusterUnreachable, RequestForbidden
from cluster.kinds import PRIORITY_CLASS
from pools import conditions, selectors, services, tasks
from pools.models import Backend
from scheduling import names
from scheduling.backends.priorities import class_names
from tests.fakes.kai import kai_cluster
from tests.fakes.kinds import KAI_QUEUE, KAI_TOPOLOGY

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")
ZONE = {"key": "zone", "label": "topology.kubernetes.io/zone"}
RACK = {"key": "rack", "label": "example.com/rack"}


def register(name="kai", kubeconfig="/etc/kai", **more):
    return services.put_backend(name=name, document={"kubeconfig": kubeconfig, **more}, change=ADMIN).value


def save(name="train", keys=(ZONE, RACK), **more):
    document = {"backend": "kai", "topology_keys": list(keys), **more}
    return services.put_pool(name=name, document=document, change=ADMIN).value


def settle(cluster):
    tasks.sync_cluster(cluster.kube_system_uid())


def condition(kind, name="kai"):
    return conditions.find(Backend.objects.get(name=name).conditions, kind)


def levels_of(cluster):
    return sorted(
        tuple(level["nodeLabel"] for level in obj["spec"]["levels"]) for obj in cluster.all(KAI_TOPOLOGY)
    )


def test_a_pool_gets_its_queues_and_a_topology_cut_at_each_level(cluster):
    register()
    save(resources={"gpu": {"guarantee": 8, "maximum": 16, "weight": 2}})
    settle(cluster)
    parent, leaf = names.parent_queue("osmo"), names.queue("osmo", "train")
    assert cluster.names(KAI_QUEUE) == sorted([parent, leaf])
    spec = cluster.get(KAI_QUEUE, leaf)["spec"]
    assert spec["parentQueue"] == parent
    assert spec["resources"]["gpu"] == {"quota": 8, "limit": 16, "overQuotaWeight": 2}
    assert levels_of(cluster) == [(ZONE["label"],), (ZONE["label"], RACK["label"])]
    assert cluster.names(PRIORITY_CLASS) == sorted(class_names("osmo-topology"))
    assert condition("Synced")["status"] == "True"


def test_a_second_run_writes_nothing(cluster):
    register()
    save()
    settle(cluster)
    before = len(cluster.calls)
    settle(cluster)
    assert {call.verb for call in cluster.calls[before:]} <= {"get", "list"}


def test_an_edited_quota_reaches_the_queue(cluster):
    register()
    save()
    settle(cluster)
    save(resources={"gpu": {"guarantee": 4, "maximum": 4, "weight": 1}})
    settle(cluster)
    spec = cluster.get(KAI_QUEUE, names.queue("osmo", "train"))["spec"]
    assert spec["resources"]["gpu"]["limit"] == 4


def test_an_edit_in_the_cluster_is_undone(cluster):
    register()
    save()
    settle(cluster)
    leaf = names.queue("osmo", "train")
    cluster.edit(KAI_QUEUE, leaf, lambda obj: obj["spec"].update(parentQueue="mine"))
    settle(cluster)
    assert cluster.get(KAI_QUEUE, leaf)["spec"]["parentQueue"] == names.parent_queue("osmo")


def test_the_objects_of_a_deleted_pool_go_and_those_that_others_need_stay(cluster):
    register()
    save("one", keys=[ZONE])
    save("two", keys=[ZONE, RACK])
    settle(cluster)
    services.delete_pool(name="two", change=ADMIN, force=False)
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == sorted([names.parent_queue("osmo"), names.queue("osmo", "one")])
    assert levels_of(cluster) == [(ZONE["label"],)]


def test_objects_that_running_groups_name_outlive_the_pool(cluster, running):
    register()
    save()
    settle(cluster)
    running.topologies = {("kai", (ZONE["label"],))}
    running.queues = {names.queue("osmo", "train")}
    services.delete_pool(name="train", change=ADMIN, force=True)
    settle(cluster)
    assert len(cluster.names(KAI_QUEUE)) == 2  # its own, and the one above
    assert levels_of(cluster) == [(ZONE["label"],)]


def test_a_needed_topology_that_somebody_removed_comes_back(cluster, running):
    register()
    running.topologies = {("kai", (ZONE["label"], RACK["label"]))}
    settle(cluster)
    assert levels_of(cluster) == [(ZONE["label"], RACK["label"])]


def test_an_object_of_somebody_else_is_left_alone_and_reported(cluster):
    leaf = names.queue("osmo", "train")
    theirs = cluster.put(KAI_QUEUE, {"metadata": {"name": leaf}, "spec": {"theirs": True}})
    register()
    save()
    settle(cluster)
    assert cluster.get(KAI_QUEUE, leaf)["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert cluster.get(KAI_QUEUE, leaf)["spec"] == {"theirs": True}
    assert condition("ForeignObjects")["status"] == "True"
    assert leaf in condition("ForeignObjects")["message"]
    services.delete_pool(name="train", change=ADMIN, force=False)
    settle(cluster)
    assert leaf in cluster.names(KAI_QUEUE)
    assert condition("ForeignObjects")["status"] == "False"


def test_priorities_that_somebody_else_brought_are_used(cluster):
    cluster.put(PRIORITY_CLASS, {"metadata": {"name": "osmo-high"}, "value": 125})
    register(queue_settings={"prefix": "osmo"})
    settle(cluster)
    assert condition("ForeignObjects")["status"] == "False"
    assert "labels" not in cluster.get(PRIORITY_CLASS, "osmo-high")["metadata"]


def test_priorities_of_osmo_play_no_part_in_a_new_backend(cluster):
    cluster.put(PRIORITY_CLASS, {"metadata": {"name": "osmo-high"}, "value": 7})
    register()
    settle(cluster)
    assert condition("ForeignObjects")["status"] == "False"
    assert set(cluster.names(PRIORITY_CLASS)) == class_names("osmo-topology") | {"osmo-high"}


def test_a_priority_that_running_work_names_outlives_a_change_of_the_prefix(cluster, running):
    register(queue_settings={"prefix": "first"})
    running.priority_classes = {"first-low"}
    register(queue_settings={"prefix": "second"})
    settle(cluster)
    assert set(cluster.names(PRIORITY_CLASS)) == class_names("second") | {"first-low"}
    running.priority_classes = set()
    settle(cluster)
    assert set(cluster.names(PRIORITY_CLASS)) == class_names("second")


def test_objects_of_another_installation_are_not_ours(cluster):
    labels = {names.INSTALLATION_LABEL: "0" * 32}
    cluster.put(KAI_QUEUE, {"metadata": {"name": "theirs", "labels": labels}, "spec": {}})
    register()
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == ["theirs"]


def test_two_backends_of_one_cluster_keep_each_others_objects(cluster):
    register()
    register("other", "/etc/same", k8s_namespace="other")
    save()
    services.put_pool(name="second", document={"backend": "other", "topology_keys": [ZONE]}, change=ADMIN)
    settle(cluster)
    settle(cluster)
    assert len(cluster.names(KAI_QUEUE)) == 4
    services.delete_pool(name="second", change=ADMIN, force=False)
    services.delete_backend(name="other", change=ADMIN, force=False)
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == sorted([names.parent_queue("osmo"), names.queue("osmo", "train")])
    assert Backend.objects.get(name="other").cleaned_at is not None


def test_a_deleted_backend_leaves_nothing_once_its_groups_are_released(cluster, running):
    register()
    settle(cluster)
    running.unreleased, running.priority_classes = 1, {"osmo-topology-low"}
    services.delete_backend(name="kai", change=ADMIN, force=True)
    settle(cluster)
    assert cluster.kinds() == {"PriorityClass", "ConfigMap"}  # the installation's mark stays
    assert Backend.objects.get().cleaned_at is None
    running.unreleased, running.priority_classes = 0, set()
    settle(cluster)
    assert cluster.kinds() == {"ConfigMap"}
    assert Backend.objects.get().cleaned_at is not None


def test_a_parent_queue_goes_once_its_status_shows_no_child(cluster):
    def with_children(*names_of_children):
        status = {"childQueues": list(names_of_children)}
        cluster.edit(KAI_QUEUE, parent, lambda obj: obj.update(status=status))

    parent, leaf = names.parent_queue("osmo"), names.queue("osmo", "train")
    register()
    save()
    settle(cluster)
    with_children(leaf)  # as KAI's controller writes it, some time after the queue came or went
    services.delete_pool(name="train", change=ADMIN, force=False)
    services.delete_backend(name="kai", change=ADMIN, force=False)
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == [parent]
    assert (condition("Synced")["status"], condition("Synced")["reason"]) == ("False", "ChildrenLeft")
    assert leaf in condition("Synced")["message"]
    assert Backend.objects.get(name="kai").cleaned_at is None

    with_children()
    settle(cluster)
    assert cluster.kinds() == {"ConfigMap"}  # the installation's mark stays
    assert Backend.objects.get(name="kai").cleaned_at is not None


def test_a_child_that_is_gone_by_the_time_of_its_parent_delays_nothing(cluster):
    parent, leaf = names.parent_queue("osmo"), names.queue("osmo", "train")
    register()
    save()
    settle(cluster)
    cluster.edit(KAI_QUEUE, parent, lambda obj: obj.update(status={"childQueues": [leaf]}))

    def controller(cluster):
        if leaf not in cluster.names(KAI_QUEUE) and parent in cluster.names(KAI_QUEUE):
            status = (cluster.get(KAI_QUEUE, parent) or {}).get("status")
            if status != {"childQueues": []}:
                cluster.edit(KAI_QUEUE, parent, lambda obj: obj.update(status={"childQueues": []}))

    cluster.players.append(controller)
    services.delete_pool(name="train", change=ADMIN, force=False)
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == []
    assert condition("Synced")["status"] == "True"


def test_a_pool_that_moves_leaves_what_its_groups_need_and_can_come_back(cluster, clusters, running):
    clusters["/etc/new"] = new = kai_cluster(uid="another")
    register()
    register("new", "/etc/new")
    save()
    settle(cluster)
    at_home = sorted(cluster.objects)
    running.unreleased, running.queues = 1, {names.queue("osmo", "train")}
    running.topologies = {("kai", (ZONE["label"],)), ("kai", (ZONE["label"], RACK["label"]))}
    save(backend="new")
    settle(cluster)
    assert sorted(cluster.objects) == at_home

    save()
    running.unreleased, running.queues, running.topologies = 0, set(), set()
    settle(cluster)
    settle(new)
    assert sorted(cluster.objects) == at_home
    assert new.names(KAI_QUEUE) == new.names(KAI_TOPOLOGY) == []

    save(backend="new")
    settle(cluster)
    settle(new)
    assert cluster.names(KAI_QUEUE) == cluster.names(KAI_TOPOLOGY) == []
    assert (len(new.names(KAI_QUEUE)), len(new.names(KAI_TOPOLOGY))) == (2, 2)


def test_a_refusal_of_one_object_stops_no_other(cluster):
    register()
    save()
    cluster.fail(RequestForbidden("queues are not yours"), verb="create", kind=KAI_QUEUE, times=2)
    settle(cluster)
    assert cluster.names(KAI_TOPOLOGY)
    assert (condition("Synced")["status"], condition("Synced")["reason"]) == ("False", "Forbidden")
    settle(cluster)
    assert condition("Synced")["status"] == "True"


def test_a_cluster_that_does_not_list_loses_nothing(cluster):
    register()
    save()
    settle(cluster)
    before = cluster.objects
    cluster.fail(ClusterUnreachable("cut off"), verb="list", times=1)
    settle(cluster)
    assert cluster.objects == before
    assert condition("Synced")["reason"] == "Unreachable"


def test_an_address_that_leads_elsewhere_now_is_not_written_to(cluster, clusters):
    register()
    save()
    other = clusters["/etc/kai"] = kai_cluster(uid="another")
    tasks.sync_cluster(cluster.kube_system_uid())
    assert other.objects == {}
    assert condition("Synced")["reason"] == "AnotherCluster"


def test_without_kai_the_missing_kinds_are_named(cluster):
    register()
    save()
    cluster.unserved |= {KAI_QUEUE, KAI_TOPOLOGY}
    settle(cluster)
    assert condition("Synced")["reason"] == "NotServed"
    assert cluster.names(PRIORITY_CLASS)


def test_the_installation_is_one_and_stays(cluster):
    assert selectors.installation() == selectors.installation()
