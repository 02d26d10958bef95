"""An object that names a group from another namespace or cluster is not the group's, whatever its name."""

import copy

import pytest
from django.utils import timezone

from cluster.kinds import COMPUTE_DOMAIN, EVENT, NAMESPACE, POD
from pools.models import Cluster
from tests.fakes.kinds import KAI_POD_GROUP
from tests.worker.world import fresh, statuses
from workflows import selectors
from workflows.logs.archive import keep_before_delete
from workflows.models import Event, ObservedObject, ObservedPod, TaskGroup
from workflows.observer import writer
from workflows.observer.inbox import Batch
from workflows.reconcile.observe import observations
from workflows.reconcile.view.group_view import load
from workflows.services.lease import take_lease
from workflows.usage import WorkflowUsage
from workflows.values.observation import see_compute_domain, see_event, see_pod

ELSEWHERE = "z-other"  # after the group's own in every order


@pytest.fixture
def group(world):
    group = world.group(pods=1)
    world.settle()
    world.cluster.put(NAMESPACE, {"metadata": {"name": ELSEWHERE}})
    return group


def copied(obj, *, namespace=ELSEWHERE, **status):
    """The object with the same name and labels, in another namespace."""
    copy_of = copy.deepcopy(obj)
    copy_of["metadata"]["namespace"] = namespace
    copy_of["metadata"]["uid"] = "copy"
    for field in ("resourceVersion", "ownerReferences", "finalizers", "creationTimestamp"):
        copy_of["metadata"].pop(field, None)
    return copy_of | {"status": {**copy_of.get("status", {}), **status}}


def failed(obj, **changes):
    ended = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
    return copied(obj, phase="Failed", containerStatuses=[ended], **changes)


def see(world, cluster, *objects):
    """What the observer of a cluster would write of these objects."""
    Cluster.objects.get_or_create(uid=cluster)
    writer.write(cluster, Batch(changes=list(objects)))


@pytest.mark.parametrize("place", ["another namespace", "another cluster"])
def test_a_failed_pod_elsewhere_ends_nothing(world, group, place):
    pod = world.cluster.all(POD)[0]
    before = fresh(group).notifications
    if place == "another namespace":
        see(world, world.uid, see_pod(failed(pod)))
    else:
        see(world, "another", see_pod(failed(pod, namespace="osmo")))
    assert ObservedPod.objects.filter(name=pod["metadata"]["name"]).count() == 2
    assert fresh(group).notifications == before
    for _ in range(3):
        world.reconcile(group)
    assert (statuses(group), fresh(group).status) == (["RUNNING"], "RUNNING")
    assert world.pods() == [pod["metadata"]["name"]]


def test_a_pod_that_exists_only_elsewhere_is_no_pod_of_the_group(world, group):
    pod = world.cluster.all(POD)[0]
    ObservedPod.objects.all().delete()
    see(world, world.uid, see_pod(failed(pod)))
    TaskGroup.objects.update(next_reconcile_at=timezone.now())
    view = load(take_lease(group.pk))
    assert observations.observed_pods(view).pods == {}


def test_claims_of_a_pod_elsewhere_are_not_waited_for(world, group):
    pod = world.cluster.all(POD)[0]
    name = pod["metadata"]["name"]
    own = [{"name": "channel", "resourceClaimName": "own"}]
    foreign = [{"name": "channel", "resourceClaimName": "somebody-elses"}]
    see(world, world.uid, see_pod(pod | {"status": {**pod["status"], "resourceClaimStatuses": own}}))
    see(world, world.uid, see_pod(copied(pod, resourceClaimStatuses=foreign)))
    TaskGroup.objects.update(next_reconcile_at=timezone.now())
    view = load(take_lease(group.pk))
    assert observations.claims_of(view, [name]) == ["own"]
    ObservedPod.objects.filter(namespace="osmo").delete()
    assert observations.claims_of(view, [name]) is None


def test_a_domain_and_a_pod_group_elsewhere_are_not_the_groups(world, group):
    domain = world.cluster.all(COMPUTE_DOMAIN)[0]
    own = selectors.compute_domains_of([group])[group.pk].uid
    see(world, world.uid, see_compute_domain(copied(domain, status="Broken")))
    see(world, "another", see_compute_domain(copied(domain, namespace="osmo", status="Broken")))
    assert ObservedObject.objects.filter(kind="ComputeDomain").count() == 3
    assert selectors.compute_domains_of([group])[group.pk].uid == own
    assert WorkflowUsage().compute_domains(group.workflow.pool_name, most=5).count == 1
    ObservedObject.objects.filter(uid=own).delete()
    ObservedObject.objects.filter(kind="PodGroup").update(namespace=ELSEWHERE)
    TaskGroup.objects.update(next_reconcile_at=timezone.now())
    view = load(take_lease(group.pk))
    assert not observations.compute_domain_observed(view)
    assert observations.pod_groups(view) == ()
    assert selectors.compute_domains_of([group]) == {}


@pytest.mark.parametrize("place", ["home", "another namespace", "another cluster"])
@pytest.mark.parametrize("kind", ["Pod", "PodGroup"])
def test_an_event_reaches_a_timeline_from_home_alone(world, group, kind, place):
    name = group.tasks.get().pod_name if kind == "Pod" else world.cluster.names(KAI_POD_GROUP)[0]
    namespace = ELSEWHERE if place == "another namespace" else "osmo"
    event = see_event(
        {
            "metadata": {"name": "e", "uid": "e", "namespace": namespace},
            "involvedObject": {"kind": kind, "name": name, "namespace": namespace},
            "reason": "NotReady",
            "message": "forged",
        },
        kinds=("Pod", "PodGroup"),
    )
    before = fresh(group).notifications
    see(world, "another" if place == "another cluster" else world.uid, event)
    assert Event.objects.filter(message="forged").exists() is (place == "home")
    if place != "home":
        assert fresh(group).notifications == before


def test_an_event_follows_its_object_and_not_its_own_namespace():
    event = see_event(
        {
            "metadata": {"name": "e", "uid": "e", "namespace": "osmo"},
            "involvedObject": {"kind": "Pod", "name": f"{0:032x}-0", "namespace": ELSEWHERE},
        },
        kinds=("Pod",),
    )
    assert event.namespace == ELSEWHERE
    assert EVENT.namespaced


def test_a_pod_named_like_one_of_another_group_takes_no_log_of_it(world, group):
    other = world.group(pods=1)
    pod = other.tasks.get().pod_name
    keep_before_delete([pod], group=group.pk, cluster=world.cluster, forced=True)
    assert other.tasks.get().log_state == ""
