"""Orders are sought for waiting gangs: oldest first, after the free capacity changed, within a time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pools.models import Node
from scheduling.gang.gang_form import USUAL_FORM, GangForm
from scheduling.gang.pins import Pin
from tests.builders.forms import propose_form
from tests.builders.gangs import SIZES, set_frozen, waiting_gang
from tests.builders.nodes import racked_pool
from tests.factories import RACK, ZONE, NodeFactory
from workflows.models import Event, Task, TaskGroup
from workflows.services import orders

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """Racks of eight and seven nodes: the usual order of the sets finds no place, another one does."""
    return racked_pool(8, 7)


def propose(pool, **more):
    return orders.propose(pool.backend.cluster_id, **{"seconds": 60.0, **more})


def row(group):
    return TaskGroup.objects.get(pk=group.pk)


def test_a_gang_that_only_another_order_places_is_proposed_that_order(pool):
    group = waiting_gang(pool)
    before = row(group).notifications

    assert pool.backend.cluster_id in orders.clusters_waiting()
    assert propose(pool) == 0

    (order,) = row(group).other_form["order"]
    assert [part[-1]["group"] for part in order["parts"]] != list(SIZES)
    assert row(group).notifications > before


def test_it_is_considered_again_only_after_the_free_capacity_changed(pool):
    group = waiting_gang(pool)
    Node.objects.filter(name="n14").update(unschedulable=True)
    propose(pool)
    assert (row(group).other_form, bool(row(group).searched_capacity)) == (None, True)
    searched = row(group).searched_capacity

    propose(pool)
    assert row(group).searched_capacity == searched

    Node.objects.filter(name="n14").update(unschedulable=False)
    propose(pool)
    assert row(group).other_form is not None


def test_a_group_of_a_newer_release_keeps_no_other_one_from_its_turn(pool):
    unreadable, group = waiting_gang(pool, age=50), waiting_gang(pool, age=5)
    set_frozen(unreadable, of_tomorrow=True)

    assert propose(pool) == 0
    assert row(group).other_form is not None
    assert (row(unreadable).other_form, bool(row(unreadable).searched_at)) == (None, True)


def test_the_oldest_are_first_and_the_others_wait_for_a_later_turn(pool):
    younger, older = waiting_gang(pool, age=5), waiting_gang(pool, age=50)
    ticks = iter(range(100))

    assert propose(pool, seconds=1.5, clock=lambda: float(next(ticks))) == 1

    assert row(older).other_form is not None
    assert row(younger).other_form is None
    assert propose(pool) == 0
    assert row(younger).other_form is not None


def test_every_gang_gets_its_turn_while_capacity_keeps_changing(pool):
    """Older ones whose searches are in vain do not stand before it for ever."""
    Node.objects.filter(name="n14").update(unschedulable=True)
    groups = [waiting_gang(pool, age=age) for age in (50, 40, 30)]
    searched = []
    for name in ("n10", "n11", "n12"):
        Node.objects.filter(name=name).update(unschedulable=True)
        ticks = iter(range(100))
        assert propose(pool, seconds=1.5, clock=lambda ticks=ticks: float(next(ticks))) == 2
        searched.append(max(map(row, groups), key=lambda group: str(group.searched_at or "")).pk)

    assert searched == [group.pk for group in groups]


def test_a_gang_for_which_nothing_changed_is_not_read_and_takes_no_turn(pool, monkeypatch):
    Node.objects.filter(name="n14").update(unschedulable=True)
    older = waiting_gang(pool, age=50)
    propose(pool)
    younger = waiting_gang(pool, age=5)
    read, whole = [], orders.group_values

    def reading(group, placement):
        read.append(group.pk)
        return whole(group, placement)

    monkeypatch.setattr(orders, "group_values", reading)
    ticks = iter(range(100))
    assert propose(pool, seconds=2.5, clock=lambda: float(next(ticks))) == 0

    assert row(older).searched_at < row(younger).searched_at
    assert read == [younger.pk]


def test_a_gang_without_a_turn_is_counted_whether_its_nodes_were_read_or_not(pool):
    for age in (50, 40, 30):
        waiting_gang(pool, age=age)

    assert propose(pool, seconds=0) == 3


def reordered(group, *, minutes):
    """It was named in another order so many minutes ago."""
    times = [timezone.now() - timedelta(minutes=ago) for ago in minutes]
    Event.objects.bulk_create(
        Event(
            workflow_id=group.workflow_id,
            group=group,
            time=time,
            source="osmo-topology",
            reason="SetsReordered",
            message="",
            dedupe=f"earlier:{time.isoformat()}",
        )
        for time in times
    )


@pytest.mark.parametrize(
    ("minutes", "proposed"), [((4,), False), ((6,), True), ((30, 6), True), ((60, 30, 6), False)]
)
def test_a_gang_is_re_ordered_at_most_every_five_minutes_and_three_times(pool, minutes, proposed):
    group = waiting_gang(pool, age=7200)
    reordered(group, minutes=minutes)

    propose(pool)

    assert (row(group).other_form is not None) == proposed


def test_a_gang_that_may_be_re_ordered_again_is_searched_without_a_change_of_capacity(pool):
    group = waiting_gang(pool, age=7200)
    reordered(group, minutes=(4,))
    propose(pool)
    Event.objects.filter(group=group).update(time=timezone.now() - timedelta(minutes=6))

    propose(pool)

    assert row(group).other_form is not None


def bound(group):
    Task.objects.filter(group=group, name="five-0").update(node_name="n00")


def reordering(group):
    TaskGroup.objects.filter(pk=group.pk).update(form_state="order")


def without_objects(group):
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=None)


def stopping(group):
    TaskGroup.objects.filter(pk=group.pk).update(stop_status="FAILED_CANCELED")


@pytest.mark.parametrize("change", [bound, reordering, without_objects, stopping])
def test_no_order_is_sought_for(pool, change):
    group = waiting_gang(pool)
    change(group)

    propose(pool)

    assert row(group).other_form is None
    assert not row(group).searched_capacity


def repinning(group):
    """The proposal of the first of two searches has been taken: the pins of before are kept for a return."""
    TaskGroup.objects.filter(pk=group.pk).update(form_state="pins", other_form=USUAL_FORM.to_json())


def answered(group):
    propose_form(TaskGroup.objects.filter(pk=group.pk))


@pytest.mark.parametrize("change", [repinning, answered, reordering])
def test_a_search_that_was_overtaken_proposes_nothing(pool, monkeypatch, change):
    group = waiting_gang(pool)

    def overtaken(*args, **more):
        change(group)
        return GangForm(pins=(Pin((), ("a", "r1")),))

    monkeypatch.setattr(orders, "_other_form", overtaken)
    propose(pool)

    assert row(group).other_form in (None, USUAL_FORM.to_json())
    assert not row(group).searched_capacity


def test_a_gang_that_fits_in_its_own_order_is_left_alone(pool):
    group = waiting_gang(pool)
    NodeFactory(cluster=pool.backend.cluster, name="n15", labels={ZONE.label: "a", RACK.label: "r1"})

    propose(pool)

    assert row(group).other_form is None
