"""When the conditions of pools are evaluated, and what is written then."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pools import conditions, services
from pools.conditions.topology import TYPES
from pools.models import Cluster, ObservedResource, Pool
from pools.services import evaluation
from pools.values.completeness import NODES
from scheduling import names
from scheduling.backends.kueue import Kueue
from scheduling.topology.levels import HOSTNAME_LABEL
from tests.builders.completeness import note_lists
from tests.factories import LEVELS, BackendFactory, NodeFactory, PoolFactory, installation
from tests.fakes import kueue_objects
from workflows.observer.inbox import Batch
from workflows.observer.writer import write

pytestmark = pytest.mark.django_db
ADMIN = services.ConfigChange(username="root")
KAI = "topologies.kai.scheduler"
FULL = {level.label: "1" for level in LEVELS}


@pytest.fixture
def pool():
    pool = PoolFactory(levels=LEVELS)
    NodeFactory(cluster=pool.backend.cluster, name="n1", labels=FULL)
    note_lists({KAI: ""})
    for rank in range(len(LEVELS)):
        labels = [level.label for level in LEVELS[: rank + 1]]
        topology(pool, names.topology(installation(), labels), labels)
    return pool


def topology(pool, name, labels, resource=KAI):
    ObservedResource.objects.update_or_create(
        cluster=pool.backend.cluster,
        resource=resource,
        name=name,
        defaults={"reading": {"labels": labels}, "seen_at": timezone.now()},
    )


def evaluate(pool):
    """What beat and a worker do; returns how many pools changed."""
    uid = pool.backend.cluster_id
    changes = evaluation.changes_of(uid)
    changed = evaluation.evaluate_pools(uid, nodes=evaluation.node_labels(uid))
    evaluation.mark_evaluated(uid, changes=changes)
    return changed


def statuses(pool):
    found = Pool.objects.get(pk=pool.pk).conditions
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in found}


GOOD = {
    "TopologyDrift": ("False", "InSync"),
    "TopologyLabelsIncomplete": ("False", "Complete"),
    "NodesShared": ("False", "NotShared"),
}


def test_a_pool_says_how_its_topology_stands_and_says_it_once(pool):
    assert evaluate(pool) == 1
    assert statuses(pool) == GOOD
    assert {entry["observedRevision"] for entry in Pool.objects.get().conditions} == {pool.revision}
    assert evaluate(pool) == 0


def test_a_topology_of_another_list_or_of_none_is_told(pool):
    labels = [level.label for level in LEVELS]
    topology(pool, names.topology(installation(), labels), labels[:1])
    evaluate(pool)
    assert statuses(pool)["TopologyDrift"] == ("True", "Drift")
    ObservedResource.objects.filter(resource=KAI).delete()
    evaluate(pool)
    assert statuses(pool)["TopologyDrift"] == ("Unknown", "TopologyNotFound")


def test_an_external_topology_is_found_by_its_name(pool):
    Pool.objects.update(topology_source="external", topology_name="site")
    topology(pool, "site", [level.label for level in LEVELS])
    evaluate(pool)
    assert statuses(pool)["TopologyDrift"] == ("False", "InSync")
    topology(pool, "site", [LEVELS[0].label])
    evaluate(pool)
    told = conditions.find(Pool.objects.get().conditions, "TopologyDrift")
    assert f"Topology site lists {LEVELS[0].label} where" in told["message"]


def test_since_when_it_holds_outlives_a_change_of_the_message(pool):
    NodeFactory(cluster=pool.backend.cluster, name="x1")
    evaluate(pool)
    before = conditions.find(Pool.objects.get().conditions, "TopologyLabelsIncomplete")
    NodeFactory(cluster=pool.backend.cluster, name="x2")
    assert evaluate(pool) == 1
    after = conditions.find(Pool.objects.get().conditions, "TopologyLabelsIncomplete")
    assert after["message"] != before["message"]
    assert after["lastTransitionTime"] == before["lastTransitionTime"]


def test_a_condition_of_a_key_goes_with_the_key(pool):
    evaluate(pool)
    pool.topology_keys.all().delete()
    evaluate(pool)
    assert set(statuses(pool)) == {"NodesShared"}


def test_pools_of_two_schedulers_on_one_cluster_see_that_they_share_nodes(pool):
    native = BackendFactory(
        cluster=pool.backend.cluster, scheduler_type="kubernetes", scheduler_name="default-scheduler"
    )
    other = PoolFactory(backend=native)
    assert evaluate(pool) == 2
    assert statuses(pool)["NodesShared"] == statuses(other)["NodesShared"] == ("True", "SeveralSchedulers")


def test_a_pool_that_was_configured_meanwhile_is_left_to_the_next_evaluation(pool, monkeypatch):
    def and_somebody_saves(*arguments, **options):
        Pool.objects.update(revision=pool.revision + 1)
        return judged(*arguments, **options)

    judged = evaluation.evaluate
    monkeypatch.setattr(evaluation, "evaluate", and_somebody_saves)
    assert evaluate(pool) == 0
    assert statuses(pool) == {}


def test_a_cluster_is_due_when_something_changed_and_after_a_while(pool):
    assert evaluation.clusters_due() == [pool.backend.cluster_id]
    evaluate(pool)
    assert evaluation.clusters_due() == []
    Cluster.objects.update(evaluated_at=timezone.now() - timedelta(minutes=5))
    assert evaluation.clusters_due() == [pool.backend.cluster_id]


def test_a_change_of_configuration_makes_a_cluster_due(pool):
    evaluate(pool)
    services.patch_pool(name=pool.name, changes={"description": "new"}, change=ADMIN)
    assert evaluation.clusters_due() == [pool.backend.cluster_id]
    evaluate(pool)
    assert {entry["observedRevision"] for entry in Pool.objects.get().conditions} == {
        Pool.objects.get().revision
    }


def test_a_commit_during_an_evaluation_is_evaluated_again(pool):
    changes = evaluation.changes_of(pool.backend.cluster_id)
    services.patch_pool(name=pool.name, changes={"description": "new"}, change=ADMIN)
    evaluation.mark_evaluated(pool.backend.cluster_id, changes=changes)
    assert evaluation.clusters_due() == [pool.backend.cluster_id]


def test_nothing_is_said_of_a_cluster_whose_nodes_were_never_listed(pool):
    note_lists({NODES: None})
    assert evaluation.clusters_due() == []


KUEUE_KINDS = ["topologies.kueue.x-k8s.io", *(kind.crd for kind in Kueue.joined_kinds)]


@pytest.fixture
def kueue_pool():
    """A pool on somebody's LocalQueue "team", and all that the queue leads to."""
    pool = PoolFactory(levels=LEVELS, backend__scheduler_type="kueue", local_queue="team")
    NodeFactory(cluster=pool.backend.cluster, name="n1", labels=FULL)
    note_lists(dict.fromkeys(KUEUE_KINDS, ""))
    labels = [*(level.label for level in LEVELS), HOSTNAME_LABEL]
    topology(pool, "floor", labels, resource=KUEUE_KINDS[0])
    observe(
        pool,
        kueue_objects.local_queue(f"{pool.backend.namespace}/team", "cq"),
        kueue_objects.cluster_queue("cq", ("h100", 8)),
        kueue_objects.flavor("h100", {}, "floor"),
    )
    return pool


def observe(pool, *objects):
    for (resource, name), reading in kueue_objects.readings(*objects).items():
        ObservedResource.objects.update_or_create(
            cluster=pool.backend.cluster,
            resource=resource,
            name=name,
            defaults={"reading": reading, "seen_at": timezone.now()},
        )


def test_the_topology_of_a_named_queue_is_found_and_compared(kueue_pool):
    evaluate(kueue_pool)
    assert statuses(kueue_pool) == GOOD | {"QueueReady": ("True", "Ready")}
    topology(kueue_pool, "floor", [LEVELS[0].label, HOSTNAME_LABEL], resource=KUEUE_KINDS[0])
    evaluate(kueue_pool)
    assert statuses(kueue_pool)["TopologyDrift"] == ("True", "Drift")


def test_a_pool_that_names_no_queue_joins_the_one_of_its_own_name(kueue_pool):
    Pool.objects.update(local_queue="")
    evaluate(kueue_pool)
    assert statuses(kueue_pool)["QueueReady"] == ("False", "LocalQueueNotFound")
    entry = conditions.find(Pool.objects.get().conditions, "QueueReady")
    own = names.queue(kueue_pool.backend.namespace, kueue_pool.name, prefix=names.QUEUE_PREFIX)
    assert own in entry["message"]


def test_a_queue_whose_kinds_were_not_listed_is_not_missed(kueue_pool):
    note_lists({KUEUE_KINDS[2]: None})
    evaluate(kueue_pool)
    assert statuses(kueue_pool)["QueueReady"] == ("Unknown", "NotObserved")
    assert statuses(kueue_pool)["TopologyDrift"] == ("Unknown", "NotObserved")


def test_every_condition_is_unknown_while_the_observer_is_silent_and_as_before_when_it_is_back(pool):
    """It stays what it was for as long as one watched, otherwise."""
    other = PoolFactory(name="flavored", backend=kueue_beside(pool))
    evaluate(pool)
    before = statuses(pool) | statuses(other)
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=4))
    evaluate(pool)
    unknown = statuses(pool) | statuses(other)
    assert set(unknown) == set(TYPES)
    assert {status for status, _ in unknown.values()} == {"Unknown"}
    known_before = {name for name, (status, _) in before.items() if status != "Unknown"}
    assert {unknown[name] for name in known_before} == {("Unknown", "ObserverSilent")}
    told = conditions.find(Pool.objects.get(pk=pool.pk).conditions, "TopologyDrift")["message"]
    assert told.startswith("The observer was last heard at ")
    assert told.endswith("it was False (InSync).")
    assert evaluate(pool) == 0
    write(pool.backend.cluster_id, Batch(is_reachable=True))
    assert evaluation.clusters_due() == [pool.backend.cluster_id]
    evaluate(pool)
    assert statuses(pool) | statuses(other) == before


def kueue_beside(pool):
    return BackendFactory(name="kueue", cluster=pool.backend.cluster, scheduler_type=Kueue.name)


def test_conditions_of_a_cluster_without_a_heartbeat_are_not_old(pool):
    Cluster.objects.update(heartbeat_at=None)
    evaluate(pool)
    assert statuses(pool) == GOOD
