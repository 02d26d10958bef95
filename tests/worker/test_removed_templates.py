"""A claim template that somebody deletes: NVIDIA's controller makes it again only after a long time."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from tests.builders.gangs import recovering_gang
from tests.builders.workloads import admit, kueue_world, queued_gang
from tests.fakes import players
from tests.worker.world import World, fresh, statuses
from workflows.models import Event, ObservedPod, TaskGroup


@pytest.fixture
def world(db):
    """A cluster that schedules nothing."""
    return World(scheduled=False)


@pytest.fixture
def group(world):
    """A gang that waits for its place, without the controller that would make its template again."""
    group = world.group(pods=2)
    world.settle()
    world.controller = world.cluster.players.pop()
    return group


def remove_template(world, group):
    (template,) = world.cluster.names(RESOURCE_CLAIM_TEMPLATE)
    world.cluster.remove(RESOURCE_CLAIM_TEMPLATE, template, namespace="osmo")
    long_ago = timezone.now() - timedelta(minutes=1)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=long_ago)


def test_the_domain_of_a_gang_without_claims_is_made_again_with_it(world, group):
    domains, pods = world.uids(COMPUTE_DOMAIN), world.uids(POD)
    remove_template(world, group)
    for _ in range(3):
        world.step(group)
    (ending,) = world.cluster.all(COMPUTE_DOMAIN)  # its controller has not let it go
    assert "deletionTimestamp" in ending["metadata"]
    world.cluster.players.append(world.controller)
    world.cluster._play()
    world.settle()
    ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    assert (len(world.uids(COMPUTE_DOMAIN)), world.uids(COMPUTE_DOMAIN) & domains) == (1, set())
    assert len(world.cluster.names(RESOURCE_CLAIM_TEMPLATE)) == 1
    assert (len(world.uids(POD)), world.uids(POD) & pods) == (2, set())
    assert statuses(group) == ["SCHEDULING"] * 2
    assert Event.objects.filter(group=group, reason="ComputeDomainMadeAgain").count() == 1


def test_a_domain_that_does_not_go_is_reconciled_more_and_more_seldom(world, group):
    remove_template(world, group)
    for _ in range(3):
        world.step(group)
    long_ago = timezone.now() - timedelta(seconds=200)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=long_ago)
    world.observe()
    assert 39 < world.reconcile(group).seconds <= 60
    world.cluster.players.append(world.controller)
    world.cluster._play()
    world.observe()
    assert fresh(group).next_reconcile_at <= timezone.now()


def test_the_domain_of_a_gang_with_a_claim_is_left_alone(world, group):
    pod = world.cluster.all(POD)[0]["metadata"]
    owner = {"kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    metadata = {"name": "claim-0", "namespace": "osmo", "uid": "claim-0", "ownerReferences": [owner]}
    world.cluster.put(RESOURCE_CLAIM, {"metadata": metadata, "spec": {}})
    remove_template(world, group)
    before = world.uids(COMPUTE_DOMAIN)
    for _ in range(3):
        world.step(group)
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    assert domain["metadata"]["uid"] in before
    assert "deletionTimestamp" not in domain["metadata"]


def test_a_template_that_the_observer_has_not_reported_is_looked_for_in_the_cluster(world, group):
    remove_template(world, group)
    world.observe()
    world.cluster.players.append(world.controller)
    world.cluster._play()
    before = world.uids(COMPUTE_DOMAIN)
    world.reconcile(group)
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    assert domain["metadata"]["uid"] in before
    assert "deletionTimestamp" not in domain["metadata"]


def test_a_task_tried_again_without_the_template_says_when_it_comes_back(db):
    world = World()
    group = recovering_gang(world)
    controller = world.cluster.players.pop()
    remove_template(world, group)
    (lead,) = group.tasks.filter(latest=True, lead=True)
    actions = {**lead.spec, "exit_actions": {"RESCHEDULE": "7"}}
    group.tasks.exclude(pk=lead.pk).update(spec=actions)
    other = group.tasks.exclude(pk=lead.pk).first()
    TaskGroup.objects.filter(pk=group.pk).update(
        placement={**fresh(group).placement, "max_retry_per_task": 2}, ignore_nonlead_status=True
    )
    world.finish(group, 7, tasks=[other.name])
    for _ in range(3):
        world.step(group)
    assert fresh(group).status == "RUNNING"
    assert fresh(group).waiting_why == "claim_template"
    assert "by what is not known" in fresh(group).waiting_reason
    world.cluster.players.append(controller)
    world.cluster._play()
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3


def test_a_domain_made_again_is_left_alone_until_its_controller_makes_the_template(world, group):
    remove_template(world, group)
    for _ in range(3):
        world.step(group)
    world.cluster.players.append(world.controller)
    world.cluster._play()  # the former one goes
    assert not world.cluster.names(COMPUTE_DOMAIN)
    world.cluster.players.remove(world.controller)  # and does not come to the next one yet
    domain_uids = set()
    for _ in range(8):
        ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(minutes=1))
        world.step(group)
        domain_uids |= world.uids(COMPUTE_DOMAIN)
    assert len(domain_uids) == 1
    assert Event.objects.filter(group=group, reason="ComputeDomainMadeAgain").count() == 1
    world.cluster.players.append(world.controller)
    world.cluster._play()
    world.settle()
    ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    assert world.uids(COMPUTE_DOMAIN) == domain_uids
    assert len(world.uids(POD)) == 2


def test_the_domain_of_a_gang_that_waits_for_room_is_made_again_with_it(db):
    """Else the gang, once it is admitted, holds its nodes until NVIDIA's controller looks again."""
    world = kueue_world()
    group = queued_gang(world)
    before = world.uids(COMPUTE_DOMAIN)
    world.cluster.players.remove(players.compute_domain_controller)
    remove_template(world, group)
    TaskGroup.objects.filter(pk=group.pk).update(created_in_cluster_at=None)
    for _ in range(3):
        world.step(group)
    world.cluster.players.append(players.compute_domain_controller)
    world.cluster._play()
    world.settle()
    assert (len(world.uids(COMPUTE_DOMAIN)), world.uids(COMPUTE_DOMAIN) & before) == (1, set())
    assert Event.objects.filter(group=group, reason="ComputeDomainMadeAgain").count() == 1
    admit(world, "n-1", "n-2")
    world.settle()
    assert statuses(group) == ["RUNNING"] * 2


def test_a_domain_that_was_just_made_again_for_a_gang_that_waits_for_room_is_given_time(db):
    """Its controller may be slow, and no template of it was ever there."""
    world = kueue_world()
    group = queued_gang(world)
    long_ago = timezone.now() - timedelta(minutes=1)
    group.tasks.update(scheduling_start_time=long_ago)
    world.cluster.players.remove(players.compute_domain_controller)
    (template,) = world.cluster.names(RESOURCE_CLAIM_TEMPLATE)
    world.cluster.remove(RESOURCE_CLAIM_TEMPLATE, template, namespace="osmo")
    before = world.uids(COMPUTE_DOMAIN)
    world.settle()
    (domain,) = world.cluster.all(COMPUTE_DOMAIN)
    assert "deletionTimestamp" not in domain["metadata"]
    assert world.uids(COMPUTE_DOMAIN) == before
