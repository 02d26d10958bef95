"""Of the pods of an ended group only the end of the last one is worth a reconcile."""

import pytest

from cluster.kinds import POD
from tests.builders.gangs import set_finalizers
from tests.worker.world import fresh


@pytest.fixture
def ended(world):
    """A group that has ended, and whose pods are being deleted."""
    group = world.group(pods=3)
    world.settle()
    for name in world.pods():
        set_finalizers(world, name, ["example.com/held"])
    world.finish(group)
    world.step()
    assert all("deletionTimestamp" in pod["metadata"] for pod in world.cluster.all(POD))
    return group


def notifications(world, group):
    """How often the group was notified by what the observer writes now."""
    before = fresh(group).notifications
    world.observe()
    return fresh(group).notifications - before


def test_an_ended_group_is_notified_once_its_last_pod_is_gone(world, ended):
    first, *others = world.pods()
    assert notifications(world, ended) == 0  # their deletion has begun
    set_finalizers(world, first, [])
    assert notifications(world, ended) == 0
    for name in others:
        set_finalizers(world, name, [])
    assert notifications(world, ended) == 1
    world.settle()
    assert fresh(ended).released_at is not None


def test_an_ended_group_is_notified_of_a_pod_that_nobody_deletes(world, ended):
    first, *_ = world.cluster.all(POD)
    stray = {**first, "metadata": {**first["metadata"], "name": "stray", "finalizers": []}}
    for field in ("uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
        stray["metadata"].pop(field, None)
    assert notifications(world, ended) == 0
    world.cluster.create(POD, stray)
    assert notifications(world, ended) == 1


def test_a_group_that_goes_on_is_notified_of_each_pod_that_leaves(world):
    group = world.group(pods=3)
    world.settle()
    first, *_ = world.cluster.all(POD)
    world.cluster.delete(POD, first["metadata"]["name"], namespace=first["metadata"]["namespace"], uid=None)
    assert notifications(world, group) == 1
