"""A ComputeDomain that somebody deletes, or makes again by the same name, under a group that runs."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster import errors
from cluster.kinds import COMPUTE_DOMAIN, POD
from pools import conditions
from scheduling.names import GROUP_LABEL
from tests.builders.gangs import recovering_gang, set_frozen
from tests.worker.world import World, fresh, statuses
from workflows.models import Attempt, Event, ObservedPod, Task, TaskGroup


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
    before, pods = world.uids(COMPUTE_DOMAIN), world.uids(POD)
    for number in (1, 2):
        delete_domain(world)
        world.settle()
        assert len(world.uids(COMPUTE_DOMAIN)) == 1
        assert not world.uids(COMPUTE_DOMAIN) & before
        assert made_again(group) == number
        before |= world.uids(COMPUTE_DOMAIN)
    assert (statuses(group), world.uids(POD)) == (["RUNNING"] * 2, pods)
    assert not Attempt.objects.filter(group=group).exists()
    world.finish(group)
    world.settle()
    assert not world.cluster.all(COMPUTE_DOMAIN)


def test_a_domain_that_only_the_rows_lack_is_not_made_again(world, group):
    delete_domain(world)
    world.observe()
    world.reconcile(group)
    uid = domain_of(world)["metadata"]["uid"]
    for _ in range(3):
        world.reconcile(group)  # the observer has not reported it yet
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
    assert made_again(group, "ComputeDomainRefused") == 1
    world.finish(group)
    world.settle()
    assert domain_of(world)["metadata"]["uid"] == uid
    assert fresh(group).released_at is not None


@pytest.fixture
def claiming(world):
    """A gang of three that runs with claims, each on a node of its own, in a domain that is ready."""
    group = recovering_gang(world)
    place_claims(world)
    report_ready(world)
    world.settle()
    return long_ago(group)


def place_claims(world):
    """Put each pod on a node of its own, with the claim that Kubernetes made for it."""
    for number, pod in enumerate(world.cluster.all(POD)):
        pod["spec"]["nodeName"] = f"node-{number}"
        claim = {"name": "channel", "resourceClaimName": f"claim-{number}"}
        pod["status"]["resourceClaimStatuses"] = [claim]
        world.cluster.put(POD, pod)


def report_ready(world):
    domain = domain_of(world)
    nodes = [{"name": f"node-{n}", "cliqueID": "c.0", "status": "Ready"} for n in range(3)]
    domain["status"] = {"status": "Ready", "nodes": nodes}
    world.cluster.put(COMPUTE_DOMAIN, domain)


def make_again(world, *, labels=None):
    """Delete the domain and apply its manifest again, before an observer or a worker knows."""
    domain = domain_of(world)
    metadata = domain["metadata"]
    delete_domain(world)
    assert not world.cluster.all(COMPUTE_DOMAIN)
    labels = metadata["labels"] if labels is None else labels
    copy = {"name": metadata["name"], "namespace": "osmo", "labels": labels}
    world.cluster.put(COMPUTE_DOMAIN, {"metadata": copy, "spec": domain["spec"]})
    report_ready(world)
    return metadata["uid"], domain_of(world)["metadata"]["uid"]


def reconcile_twice(world, group):
    for _ in range(2):
        world.step(group)


def test_a_domain_that_somebody_made_again_is_not_the_one_of_the_claims(world, claiming):
    own, other = make_again(world)
    reconcile_twice(world, claiming)
    attempt = Attempt.objects.get(group=claiming)
    assert (attempt.loss, attempt.evidence) == ("node_lost", "domain_deleted")
    world.settle()
    assert domain_of(world)["metadata"]["uid"] not in (own, other)
    assert statuses(claiming) == ["RUNNING"] * 3
    assert Attempt.objects.filter(group=claiming).count() == 1


@pytest.mark.parametrize("copied", [(), (GROUP_LABEL,)], ids=["no label", "the group's label alone"])
def test_a_strangers_domain_by_the_groups_name_is_left_alone(world, claiming, copied):
    labels = domain_of(world)["metadata"]["labels"]
    _, other = make_again(world, labels={label: labels[label] for label in copied})
    reconcile_twice(world, claiming)
    assert Attempt.objects.get(group=claiming).evidence == "domain_deleted"
    for _ in range(4):
        world.step(claiming)
    row = fresh(claiming)
    assert "was not created for this group" in row.waiting_reason
    assert domain_of(world)["metadata"]["uid"] == other
    delete_domain(world)
    world.settle()
    assert (statuses(claiming), Attempt.objects.count()) == (["RUNNING"] * 3, 1)


def test_a_group_that_is_not_tried_again_says_that_its_domain_is_another(world, claiming):
    set_frozen(claiming, attempts=False, recovery={})
    make_again(world)
    reconcile_twice(world, claiming)
    assert statuses(claiming) == ["RUNNING"] * 3
    assert conditions.find(fresh(claiming).conditions, "NVLinkReady")["reason"] == "DomainDeleted"


def test_a_group_whose_domain_was_not_noted_keeps_the_one_that_it_has(world, claiming):
    TaskGroup.objects.update(compute_domain=None)
    reconcile_twice(world, claiming)
    assert fresh(claiming).compute_domain == {"attempt": 1, "uid": domain_of(world)["metadata"]["uid"]}
    make_again(world)
    reconcile_twice(world, claiming)
    assert Attempt.objects.get(group=claiming).evidence == "domain_deleted"


def test_the_uid_of_the_attempt_before_counts_for_nothing(world, claiming):
    TaskGroup.objects.update(compute_domain={"attempt": 0, "uid": "of the attempt before"})
    reconcile_twice(world, claiming)
    assert not Attempt.objects.exists()
    assert fresh(claiming).compute_domain["uid"] == domain_of(world)["metadata"]["uid"]


def test_a_waiting_gang_gets_pods_of_the_domain_that_was_made_again(db):
    world = World(scheduled=False)
    group = world.group(pods=2)
    world.settle()
    pods = world.uids(POD)
    long_ago(group)
    _, other = make_again(world)
    world.settle()
    ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(minutes=1))
    world.settle()
    assert (len(world.uids(POD)), world.uids(POD) & pods) == (2, set())
    assert domain_of(world)["metadata"]["uid"] == other
    assert fresh(group).compute_domain["uid"] == other


REFUSALS = {
    "an object that the server rejects": errors.Invalid("denied by a webhook", status=422, reason="Invalid"),
    "a quota": errors.RequestForbidden("exceeded quota", status=403, reason="Forbidden"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_running_group_outlives_the_refusal_of_a_domain_that_no_task_claims(world, group, case):
    delete_domain(world)
    world.cluster.fail(REFUSALS[case], verb="create", kind=COMPUTE_DOMAIN, times=10**6)
    world.settle()
    assert (statuses(group), fresh(group).status) == (["RUNNING"] * 2, "RUNNING")
