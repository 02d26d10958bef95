"""A ComputeDomain that somebody deletes, or makes again by the same name, under a group that runs."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, POD
from tests.worker.test_attempts import uids
from tests.worker.world import fresh, statuses
from workflows.models import Attempt, Event, Task, TaskGroup


@pytest.fixture
def group(world):
    """A gang of two CPU tasks that runs in an NVLink pool: it has a ComputeDomain and no claim of it."""
    group = world.group(pods=2)
    for task in Task.objects.filter(group=group):
        task.spec = {**task.spec, "gpu": 0, "claims_channel": False}
        task.save()
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2
    return long_ago(group)


def long_ago(group):
    """The group was created long enough ago for an observer to have reported all of it."""
    since = timezone.now() - timedelta(minutes=1)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=since)
    return fresh(group)


def domain_of(world):
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    return domain


def delete_domain(world):
    metadata = domain_of(world)["metadata"]
    world.cluster.delete(COMPUTE_DOMAIN, metadata["name"], uid=None, namespace=metadata["namespace"])


def made_again(group, reason="ComputeDomainMadeAgain"):
    return Event.objects.filter(group=group, reason=reason).count()


def test_a_running_group_without_claims_gets_its_domain_back(world, group):
    before, pods = uids(world, COMPUTE_DOMAIN), uids(world, POD)
    for number in (1, 2):
        delete_domain(world)
        world.settle()
        assert len(uids(world, COMPUTE_DOMAIN)) == 1
        assert not uids(world, COMPUTE_DOMAIN) & before
        assert made_again(group) == number
        before |= uids(world, COMPUTE_DOMAIN)
    assert (statuses(group), uids(world, POD)) == (["RUNNING"] * 2, pods)
    assert not Attempt.objects.filter(group=group).exists()
    world.finish(group)
    world.settle()
    assert not world.cluster.all(COMPUTE_DOMAIN)


def test_a_domain_that_only_the_rows_lack_is_not_made_again(world, group):
    delete_domain(world)
    world.observe()
    world.look(group)
    uid = domain_of(world)["metadata"]["uid"]
    for _ in range(3):
        world.look(group)  # the observer has not reported it yet
    assert (domain_of(world)["metadata"]["uid"], made_again(group)) == (uid, 1)


def test_a_domain_that_is_still_ending_is_waited_for(world, group):
    held = domain_of(world)
    held["metadata"]["finalizers"] = ["example.com/held"]
    world.cluster.put(COMPUTE_DOMAIN, held)
    delete_domain(world)
    world.settle()
    assert (domain_of(world)["metadata"]["uid"], made_again(group)) == (held["metadata"]["uid"], 0)
    metadata = domain_of(world)["metadata"]
    world.cluster.remove(COMPUTE_DOMAIN, metadata["name"], namespace=metadata["namespace"])
    world.settle()
    assert (domain_of(world)["metadata"]["uid"] != metadata["uid"], made_again(group)) == (True, 1)


def test_a_strangers_object_of_its_name_is_neither_taken_nor_destroyed(world, group):
    domain = domain_of(world)
    delete_domain(world)
    stranger = {"metadata": {"name": domain["metadata"]["name"], "namespace": "osmo"}, "spec": domain["spec"]}
    world.cluster.put(COMPUTE_DOMAIN, stranger)
    uid = domain_of(world)["metadata"]["uid"]
    world.settle()
    assert (statuses(group), made_again(group)) == (["RUNNING"] * 2, 0)
    assert made_again(group, "ComputeDomainNameTaken") == 1
    world.finish(group)
    world.settle()
    assert domain_of(world)["metadata"]["uid"] == uid
    assert fresh(group).released_at is not None
