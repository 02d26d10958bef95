"""A level goes from the cluster and comes back: groups say so, and nothing else happens to them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import NODE
from pools import conditions
from pools.models import Cluster, ObservedResource
from pools.values.completeness import NODES
from scheduling.backends.registry import scheduler_backend
from tests.builders.completeness import note_lists
from tests.factories import LEVELS
from tests.fakes.kinds import KAI_TOPOLOGY
from tests.worker.world import fresh
from workflows.explain.levels import UNAVAILABLE
from workflows.models import Event, TaskGroup
from workflows.services.levels import evaluate
from workflows.tasks import evaluate_cluster

ZONE, RACK, _ = LEVELS
CONSTRAINT = {"set": [], "key": "rack", "label": RACK.label, "requirementType": "required", "tasks": 2}
FULL = {ZONE.label: "a", RACK.label: "r1"}


@pytest.fixture
def group(world):
    group = world.group(pool=world.pool(levels=LEVELS), constraints=[CONSTRAINT])
    label(world, FULL)
    return group


def label(world, labels):
    world.cluster.put(NODE, {"metadata": {"name": "n1", "labels": labels}})
    world.observe()
    note_lists({NODES: ""})


def evaluated(world, group):
    evaluate(world.uid)
    found = conditions.find(fresh(group).conditions, UNAVAILABLE)
    return (found["status"], found["reason"]) if found else None


def events(group):
    rows = Event.objects.filter(group=group, reason__startswith="TopologyLevels").order_by("id")
    return list(rows.values_list("reason", "warning"))


BEGAN, ENDED = (UNAVAILABLE, True), ("TopologyLevelsAvailable", False)


def test_it_begins_and_ends_with_one_event_each(world, group):
    assert evaluated(world, group) == ("False", "Available")
    assert events(group) == []
    label(world, {ZONE.label: "a"})
    for _ in range(2):
        assert evaluated(world, group) == ("True", "NoNodeCarriesLabel")
    assert events(group) == [BEGAN]
    assert RACK.label in Event.objects.get(group=group, reason=UNAVAILABLE).message
    label(world, FULL)
    assert evaluated(world, group) == ("False", "Available")
    assert events(group) == [BEGAN, ENDED]


def test_a_waiting_group_is_reconciled_and_explains_it_with_what_can_be_done(world, group):
    label(world, {ZONE.label: "a"})
    world.reconcile(group)  # creates its pods
    TaskGroup.objects.update(next_reconcile_at=None)
    evaluate(world.uid)
    assert fresh(group).next_reconcile_at is not None
    world.reconcile(group)
    assert fresh(group).waiting_reason.startswith("None of the pool's 1 node carries label")
    assert "cancel it and submit it again" in fresh(group).waiting_reason


def test_a_running_group_is_told_and_left_alone(world, group):
    TaskGroup.objects.update(status="RUNNING", next_reconcile_at=None)
    label(world, {ZONE.label: "a"})
    assert evaluated(world, group) == ("True", "NoNodeCarriesLabel")
    assert (fresh(group).status, fresh(group).next_reconcile_at) == ("RUNNING", None)


@pytest.mark.parametrize("changes", [{"status": "FAILED"}, {"constraints": []}])
def test_a_group_that_has_ended_or_names_no_level_is_not_told(world, group, changes):
    TaskGroup.objects.update(**changes)
    label(world, {})
    assert evaluated(world, group) is None


def test_nodes_that_none_of_its_tasks_may_use_do_not_count(world, group):
    group.tasks.update(spec={**group.tasks.first().spec, "node_selector": {"pool": "mine"}})
    assert evaluated(world, group) == ("True", "NoNodes")
    label(world, FULL | {"pool": "mine"})
    assert evaluated(world, group) == ("False", "Available")


def test_a_group_on_an_external_topology_loses_what_that_loses(world, group):
    TaskGroup.objects.update(placement=group.placement | {"external_topology": "site"})
    assert evaluated(world, group) == ("False", "Available")  # nothing is known of it yet
    crd = scheduler_backend("kai").topologies.kind.crd
    note_lists({crd: ""})
    assert evaluated(world, group) == ("True", "TopologyNotFound")
    ObservedResource.objects.create(
        cluster_id=world.uid,
        resource=crd,
        name="site",
        reading={"labels": [ZONE.label]},
        seen_at=timezone.now(),
    )
    assert evaluated(world, group) == ("True", "TopologyLostLevel")
    ObservedResource.objects.update(reading={"labels": [ZONE.label, RACK.label]})
    assert evaluated(world, group) == ("False", "Available")
    assert events(group) == [BEGAN, ENDED]
    assert world.cluster.all(KAI_TOPOLOGY) == []


def test_the_number_of_queries_does_not_grow_with_groups_and_pools(
    world, group, django_assert_max_num_queries
):
    for _ in range(20):
        world.group(pods=1, pool=world.pool(levels=LEVELS), constraints=[CONSTRAINT])
    evaluate(world.uid)
    with django_assert_max_num_queries(16):
        evaluate(world.uid)


def test_of_many_messages_one_does_the_work(world, group, django_assert_max_num_queries):
    evaluate_cluster(world.uid)
    assert conditions.status_of(fresh(group).conditions, UNAVAILABLE) == "False"
    with django_assert_max_num_queries(1):
        evaluate_cluster(world.uid)
    label(world, {ZONE.label: "a"})
    evaluate_cluster(world.uid)
    assert conditions.status_of(fresh(group).conditions, UNAVAILABLE) == "True"


def test_levels_are_unknown_while_the_observer_is_silent_and_no_event_says_that_they_came_back(world, group):
    assert evaluated(world, group) == ("False", "Available")
    TaskGroup.objects.update(next_reconcile_at=None)
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=4))
    assert evaluated(world, group) == ("Unknown", "ObserverSilent")
    assert fresh(group).next_reconcile_at is None
    world.observe()
    assert evaluated(world, group) == ("False", "Available")
    assert events(group) == []
