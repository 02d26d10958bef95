"""The checker on queues of Kueue that the service makes: leaked ones, missing ones, edited ones."""

import pytest

from cluster.errors import NotServed, RequestForbidden
from pools import selectors
from pools.clusters.kinds import owned_kinds
from pools.models import Backend, Pool
from pools.services.pool_objects import queue_of
from tests.builders.checks import check, checked_world, findings, rest
from tests.builders.workloads import KUEUE
from tests.fakes import players

TOPOLOGY, FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE = owned_kinds()


@pytest.fixture
def world(db, monkeypatch):
    return checked_world(monkeypatch)


@pytest.fixture
def pool(world):
    """A pool of a backend that asks for queues of the service's own, once they are there."""
    world.cluster.players.append(players.kueue_finalizers)
    pool = world.pool(backend=KUEUE)
    Backend.objects.filter(pk=pool.backend_id).update(queue_settings={"own_queues": True})
    rest(world)
    assert {kind.name: len(world.cluster.names(kind)) for kind in owned_kinds()} == {
        "Topology": 1,
        "ResourceFlavor": 1,
        "ClusterQueue": 1,
        "LocalQueue": 1,
    }
    return Pool.objects.select_related("backend").get(pk=pool.pk)


def queue(pool):
    return queue_of(pool, selectors.installation())


def messages():
    return [finding["message"] for finding in check("--grace", "0")[1]["findings"]]


def test_nothing_is_found_of_queues_that_are_as_their_pool_needs_them(world, pool):
    assert findings() == []
    name = queue(pool)
    world.cluster.edit(CLUSTER_QUEUE, name, lambda obj: obj["spec"].update(stopPolicy="Hold"))
    assert findings() == []


def test_queues_that_nobody_needs_are_leaked(world, pool):
    Pool.objects.filter(pk=pool.pk).delete()
    assert findings() == [("leaked", "unneeded")] * 4
    check("--repair", "--grace", "0")
    assert findings() == []


def test_a_queue_that_a_group_joined_keeps_all_that_it_leads_to(world, pool):
    group = world.group(pool=pool)
    type(group).objects.filter(pk=group.pk).update(placement={**group.placement, "queue": queue(pool)})
    Backend.objects.filter(pk=pool.backend_id).update(queue_settings={"own_queues": False})
    assert [rule for rule in findings() if rule[1] == "unneeded"] == []


@pytest.mark.parametrize("kind", [CLUSTER_QUEUE, FLAVOR, TOPOLOGY], ids=lambda kind: kind.name)
def test_an_absent_object_that_a_pools_queue_leads_to_is_missing(world, pool, kind):
    (name,) = world.cluster.names(kind)
    world.cluster.remove(kind, name)
    assert findings() == [("half-made", "queue-missing")]
    assert f"{kind.name} {name} does not exist, and pool {pool.name} needs it." in messages()
    check("--repair", "--grace", "0")
    assert findings() == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda spec: spec.update(cohortName="all"),
        lambda spec: spec["preemption"].update(withinClusterQueue="Never"),
        lambda spec: spec["resourceGroups"][0]["flavors"][0]["resources"][0].update(nominalQuota="1"),
    ],
    ids=["cohort", "preemption", "quota"],
)
def test_a_queue_that_somebody_edited_differs(world, pool, edit):
    world.cluster.edit(CLUSTER_QUEUE, queue(pool), lambda obj: edit(obj["spec"]))
    assert findings() == [("inconsistent", "queue-differs")]
    assert f"ClusterQueue {queue(pool)} is not as pool {pool.name} needs it" in messages()[0]
    check("--repair", "--grace", "0")
    assert findings() == []


@pytest.mark.parametrize("error", [NotServed("gone"), RequestForbidden("not yours")], ids=type)
def test_nothing_is_said_of_queues_that_may_not_be_read(world, pool, error):
    for kind in owned_kinds():
        world.cluster.fail(error, kind=kind, times=100)
    assert findings() == []


def test_a_cluster_that_was_never_asked_for_queues_is_not_asked_for_them_now(world):
    world.pool(backend=KUEUE)
    rest(world)
    before = len(world.cluster.calls)
    assert findings() == []
    assert not {call.kind for call in world.cluster.calls[before:]} & set(owned_kinds())
