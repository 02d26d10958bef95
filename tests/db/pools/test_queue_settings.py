"""A scheduler that others use too: names, parents and quotas of queues, and shards of nodes."""

import pytest

from pools import conditions, selectors, services, tasks
from pools.documents.backend import document_of, queues_of
from pools.models import Backend, Pool
from pools.pod_templates.applied import node_selection
from pools.values.completeness import NODES
from scheduling import names
from scheduling.errors import InvalidSpec
from tests.builders.completeness import note_lists
from tests.factories import NodeFactory
from tests.fakes.kinds import KAI_QUEUE

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")
SHARD = "kai.scheduler/node-pool"


def register(**settings):
    document = {"kubeconfig": "/etc/kai", "queue_settings": settings}
    return services.put_backend(name="kai", document=document, change=ADMIN).value


def save(name="train", **more):
    return services.put_pool(name=name, document={"backend": "kai", **more}, change=ADMIN).value


def settle(cluster):
    tasks.sync_cluster(cluster.kube_system_uid())


def synced():
    return conditions.find(Backend.objects.get(name="kai").conditions, "Synced")


def faults(refused):
    return [(fault.path, fault.code) for fault in refused.value.faults]


def test_queues_of_a_new_backend_have_names_that_osmo_does_not_use(cluster):
    register()
    save()
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == ["osmo-topology-default-osmo", "osmo-topology-pool-osmo-train"]


def test_a_backend_keeps_its_names_and_its_quota_whatever_else_is_saved(cluster):
    backend = register(prefix="osmo", parent_quota="unlimited")
    assert document_of(backend)["queue_settings"]["prefix"] == "osmo"
    services.put_backend(name="kai", document={"kubeconfig": "/etc/kai", "description": "x"}, change=ADMIN)
    save()
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == ["osmo-default-osmo", "osmo-pool-osmo-train"]
    assert cluster.get(KAI_QUEUE, "osmo-default-osmo")["spec"]["resources"]["gpu"]["quota"] == -1

    services.post_backend(name="kai", changes={"queue_settings": {"prefix": "ours"}}, change=ADMIN)
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == ["ours-default-osmo", "ours-pool-osmo-train"]


def test_the_parent_queue_guarantees_what_the_pools_nodes_have(cluster):
    backend = register()
    save("a", node_selector={"pool": "a"})
    save("b", node_selector={"rack": "r1"})
    settle(cluster)
    parent = names.parent_queue("osmo")
    assert cluster.get(KAI_QUEUE, parent)["spec"]["resources"]["gpu"]["quota"] == -1  # none was listed yet
    for labels in ({"pool": "a", "rack": "r1"}, {"pool": "a"}, {"pool": "c"}):
        NodeFactory(cluster=backend.cluster, labels=labels, allocatable={"nvidia.com/gpu": "8"})
    NodeFactory(cluster=backend.cluster, labels={"pool": "a"}, allocatable={"cpu": "8"})
    note_lists({NODES: ""})
    settle(cluster)
    gpu = cluster.get(KAI_QUEUE, parent)["spec"]["resources"]["gpu"]
    assert gpu == {"quota": 16, "limit": -1, "overQuotaWeight": 1}
    assert selectors.gpus_of([]) == 0


def test_backends_that_share_a_parent_queue_guarantee_the_nodes_of_both(cluster):
    backend = register()
    document = {"kubeconfig": "/etc/same"}
    services.put_backend(name="same", document=document, change=ADMIN)
    save("a", node_selector={"pool": "a"})
    other = {"backend": "same", "node_selector": {"pool": "b"}}
    services.put_pool(name="b", document=other, change=ADMIN)
    for pool in ("a", "b", "b"):
        NodeFactory(cluster=backend.cluster, labels={"pool": pool}, allocatable={"nvidia.com/gpu": "8"})
    note_lists({NODES: ""})

    def quota():
        settle(cluster)
        return cluster.get(KAI_QUEUE, names.parent_queue("osmo"))["spec"]["resources"]["gpu"]["quota"]

    assert quota() == 24
    settings = {"queue_settings": {"parent_quota": "unlimited"}}
    services.post_backend(name="same", changes=settings, change=ADMIN)
    assert quota() == -1


@pytest.mark.parametrize(("quota", "want"), [("64", 64), ("unlimited", -1)])
def test_the_parents_quota_can_be_chosen(cluster, quota, want):
    register(parent_quota=quota)
    save()
    settle(cluster)
    parent = cluster.get(KAI_QUEUE, names.parent_queue("osmo"))
    assert parent["spec"]["resources"]["gpu"]["quota"] == want


def test_pools_stand_below_somebody_elses_queue_which_is_never_written(cluster):
    register(parent="research")
    save()
    settle(cluster)
    assert (synced()["status"], synced()["reason"]) == ("False", "ParentNotFound")
    assert "research" in synced()["message"]
    cluster.put(KAI_QUEUE, {"metadata": {"name": "research"}, "spec": {"resources": {}}})
    settle(cluster)
    assert synced()["status"] == "True"
    assert cluster.names(KAI_QUEUE) == ["osmo-topology-pool-osmo-train", "research"]
    child = cluster.get(KAI_QUEUE, "osmo-topology-pool-osmo-train")
    assert child["spec"]["parentQueue"] == "research"
    services.delete_pool(name="train", change=ADMIN, force=False)
    services.delete_backend(name="kai", change=ADMIN, force=False)
    settle(cluster)
    assert cluster.names(KAI_QUEUE) == ["research"]
    assert Backend.objects.get().cleaned_at is not None


def test_a_shard_selects_the_pools_nodes_and_follows_the_backend(cluster):
    register(node_pool="blue")
    pool = save(node_selector={"gpu": "h100"}, platforms={"big": {"node_selector": {"size": "big"}}})
    assert node_selection(pool) == {"gpu": "h100", SHARD: "blue"}
    (platform,) = pool.platforms.all()
    assert node_selection(pool, platform) == {"gpu": "h100", "size": "big", SHARD: "blue"}
    register(node_pool="green", node_pool_label="example.com/shard")
    moved = Pool.objects.select_related("backend").get()
    assert node_selection(moved) == {"gpu": "h100", "example.com/shard": "green"}
    assert queues_of(moved.backend).shard == {"example.com/shard": "green"}
    register()
    assert node_selection(Pool.objects.get()) == {"gpu": "h100"}


def test_nodes_of_another_shard_are_refused_at_every_side(cluster):
    register(node_pool="blue")
    with pytest.raises(InvalidSpec) as refused:
        save(node_selector={SHARD: "green"})
    assert faults(refused) == [(("node_selector",), "another_shard")]
    assert "no gang there is ever scheduled" in refused.value.message
    save(platforms={"a": {"node_selector": {SHARD: "blue"}}})
    with pytest.raises(InvalidSpec) as refused:
        register(node_pool="green")
    assert faults(refused) == [(("queue_settings", "node_pool"), "another_shard")]
    assert 'Platform "a" of pool "train"' in refused.value.message


def test_a_backend_of_no_shard_never_sees_nodes_with_the_label(cluster):
    register()
    with pytest.raises(InvalidSpec) as refused:
        save(node_selector={SHARD: "green"})
    assert "sees only nodes without label kai.scheduler/node-pool" in refused.value.message


WRONG = {
    "a prefix of another alphabet": ({"prefix": "Ours_"}, "prefix", "invalid_prefix"),
    "a long prefix": ({"prefix": "p" * 21}, "prefix", "invalid_prefix"),
    "a queue that is no name": ({"parent": "Research"}, "parent", "invalid_queue"),
    "a quota of words": ({"parent_quota": "much"}, "parent_quota", "invalid_quota"),
    "a negative quota": ({"parent_quota": "-1"}, "parent_quota", "invalid_quota"),
    "a label that is none": ({"label": "a b"}, "label", "invalid_label"),
    "a value that is none": ({"node_pool": "a b"}, "node_pool", "invalid_label_value"),
    "a label without a value": ({"node_pool_label": "a/b"}, "node_pool_label", "label_without_value"),
}


@pytest.mark.parametrize("case", WRONG)
def test_settings_that_are_wrong_are_named(cluster, case):
    settings, field, code = WRONG[case]
    with pytest.raises(InvalidSpec) as refused:
        register(**settings)
    assert (("queue_settings", field), code) in faults(refused)


def test_a_scheduler_without_queues_takes_no_such_settings(cluster):
    settings = {"scheduler_type": "default"}
    queues = {"parent": "x", "node_pool": "y", "parent_quota": "64"}
    document = {"scheduler_settings": settings, "queue_settings": queues}
    with pytest.raises(InvalidSpec) as refused:
        services.put_backend(name="plain", document=document, change=ADMIN)
    assert {(path[-1], code) for path, code in faults(refused)} == {(name, "no_queues") for name in queues}


def queue_spec(cluster):
    settle(cluster)
    return cluster.get(KAI_QUEUE, names.queue("osmo", "train"))["spec"]


def test_minimum_run_times_are_written_and_removed_again(cluster):
    register(preempt_min_runtime="5m", reclaim_min_runtime="1h")
    save()
    spec = queue_spec(cluster)
    assert (spec["preemptMinRuntime"], spec["reclaimMinRuntime"]) == ("300s", "3600s")

    changes = {"queue_settings": {"preempt_min_runtime": "", "reclaim_min_runtime": "2h"}}
    services.post_backend(name="kai", changes=changes, change=ADMIN)
    spec = queue_spec(cluster)
    assert "preemptMinRuntime" not in spec
    assert spec["reclaimMinRuntime"] == "7200s"


def test_a_version_without_a_delay_of_preemption_refuses_one(cluster):
    with pytest.raises(InvalidSpec) as refused:
        register(preemption_delay="5m")
    (fault,) = refused.value.faults
    assert (fault.path, fault.capability) == (
        ("queue_settings", "preemption_delay"),
        "queue.preemption_delay",
    )
    assert 'The pool\'s scheduler "kai" lacks capability queue.preemption_delay' in fault.message


def test_a_scheduler_without_queues_refuses_what_they_alone_can_hold(cluster):
    register()
    save(resources={"gpu": {"guarantee": 8, "maximum": 16, "weight": 1}})
    to_default = {"scheduler_settings": {"scheduler_type": "default"}, "queue_settings": {"prefix": ""}}
    with pytest.raises(InvalidSpec) as refused:
        services.post_backend(name="kai", changes=to_default, change=ADMIN)
    assert {fault.capability for fault in refused.value.faults} == {"queue.guarantee", "queue.limit"}

    services.put_backend(
        name="plain", document={"scheduler_settings": {"scheduler_type": "default"}}, change=ADMIN
    )
    with pytest.raises(InvalidSpec) as refused:
        save("other", backend="plain", resources={"gpu": {"weight": 3}})
    assert [fault.path[-3:] for fault in refused.value.faults] == [("resources", "gpu", "weight")]


def test_minimum_run_times_go_through_the_history(cluster):
    backend = register(preempt_min_runtime="5m")
    first = backend.revision
    services.post_backend(name="kai", changes={"queue_settings": {"preempt_min_runtime": "9m"}}, change=ADMIN)
    assert document_of(Backend.objects.get(name="kai"))["queue_settings"]["preempt_min_runtime"] == "9m"
    services.roll_back(config_type="BACKEND", revision=first, change=ADMIN, force=False)
    assert document_of(Backend.objects.get(name="kai"))["queue_settings"]["preempt_min_runtime"] == "5m"


def test_a_duration_that_is_none_is_named(cluster):
    with pytest.raises(InvalidSpec) as refused:
        register(preempt_min_runtime="soon")
    assert faults(refused) == [(("queue_settings", "preempt_min_runtime"), "invalid_duration")]
