"""What is done next about a group's objects, from what is there."""

from datetime import timedelta
from itertools import accumulate, count, takewhile

import pytest

from cluster.errors import NotServed
from pools.clusters.kinds import kind_of
from tests.unit.lifecycle.values import group, manifests, one_try
from workflows.manifests.group import render_group
from workflows.reconcile.objects.apply import retry_for
from workflows.reconcile.objects.plan import (
    DesiredGroup,
    PodManifests,
    plan_create,
    plan_pods_down,
    plan_rest_down,
)
from workflows.reconcile.view.group_reader import LiveGroup, LiveObject
from workflows.reconcile.view.outcomes import Failed, RequeueAfter, Retry, Settled, backoff, look_again

OBJECTS = render_group(group([one_try("a", 0, claims_channel=True), one_try("b", 1)], nvlink=True))
DOMAIN = OBJECTS.compute_domain["metadata"]["name"]
GROUP = OBJECTS.pod_groups[0]["metadata"]["name"]
SERVICE = OBJECTS.service["metadata"]["name"]
NAMESPACE = OBJECTS.service["metadata"]["namespace"]
PODS = [pod["metadata"]["name"] for pod in OBJECTS.pods.values()]
TEMPLATE = LiveObject("template", "t", deleting=False)


def wanted(**changes):
    base = {
        "namespace": NAMESPACE,
        "secrets": (),
        "compute_domain": OBJECTS.compute_domain,
        "topologies": OBJECTS.topologies,
        "pod_groups": OBJECTS.pod_groups,
        "service": OBJECTS.service,
        "pods": manifests(OBJECTS.pods.values()),
        "replaced": {},
        "present_pods": frozenset(PODS),
    }
    return DesiredGroup(**{**base, **changes})


def there(*names, deleting=()):
    return {name: LiveObject(name, f"uid-{name}", deleting=name in deleting) for name in names}


DOMAIN_READY = {"domains": there(DOMAIN), "template": TEMPLATE}
ALL = {**DOMAIN_READY, "pod_groups": there(GROUP), "services": there(SERVICE), "pods": there(*PODS)}

CREATING = {
    "nothing is there": ({}, ["ComputeDomain"], "template"),
    "the domain has no template yet": ({"domains": there(DOMAIN)}, [], "template"),
    "the template is there": (DOMAIN_READY, ["PodGroup", "Service", "Pod"], ""),
    "a pod is missing": ({**ALL, "pods": there(PODS[0])}, ["Pod"], ""),
    "the service is missing": ({**ALL, "services": {}}, ["Service"], ""),
    "everything is there": (ALL, [], ""),
    "somebody deletes the domain": ({**ALL, "domains": there(DOMAIN, deleting=[DOMAIN])}, [], "ending"),
    "a pod is of a try that no row knows": ({**ALL, "pods": there(PODS[0], "later-1")}, ["Pod"], "old pods"),
    "somebody deletes a pod": ({**ALL, "pods": there(*PODS, deleting=PODS[:1])}, [], "ending"),
}


@pytest.mark.parametrize(("seen", "kinds", "wait"), CREATING.values(), ids=CREATING)
def test_missing_objects_are_made_in_order(seen, kinds, wait):
    plan = plan_create(wanted(), LiveGroup(**seen))
    assert [step.kind.name for step in plan.steps] == kinds
    assert plan.wait == wait


def test_a_pod_is_made_again_only_after_the_old_one_is_gone():
    want = wanted(pods=manifests([OBJECTS.pods["a"]]), replaced={PODS[0]: ("older", "old")})
    before = plan_create(want, LiveGroup(**{**ALL, "pods": there("old", PODS[1])}))
    after = plan_create(want, LiveGroup(**{**ALL, "pods": there(PODS[1])}))
    assert [(type(s).__name__, s.kind.name) for s in before.steps] == [("Delete", "Pod")]
    assert (before.wait, after.wait) == ("old pods", "")
    assert [(type(s).__name__, s.kind.name) for s in after.steps] == [("Create", "Pod")]


def test_a_pod_is_rendered_only_when_it_is_read():
    rendered = []

    def render(name):
        rendered.append(name)
        return {"metadata": {"name": name}}

    names = ("a", "b", "c", "d")
    pods = PodManifests(names, render)
    part = pods.without({"b"})[1:]
    assert (pods.names, part.names, len(part), rendered) == (names, ("c", "d"), 2, [])
    assert [pod["metadata"]["name"] for pod in part] == rendered == ["c", "d"]


def test_pods_are_deleted_once_and_waited_for():
    fresh = plan_pods_down(there("a", "b", deleting=["b"]), namespace="osmo", again=False)
    assert [d.name for d in fresh.steps[0].targets] == ["a"]
    assert [d.uid for d in fresh.steps[0].targets] == ["uid-a"]
    forced = plan_pods_down(there("a", "b", deleting=["b"]), namespace="osmo", again=True)
    assert [d.name for d in forced.steps[0].targets] == ["a", "b"]
    assert plan_pods_down({}, namespace="osmo", again=True).finished


def test_the_domain_is_deleted_last_and_everything_is_waited_for():
    seen = LiveGroup(
        services=there(SERVICE), secrets=there("s"), pod_groups=there(GROUP), domains=there(DOMAIN)
    )
    kind = kind_of(OBJECTS.pod_groups[0])
    plan = plan_rest_down(seen, namespace="osmo", pod_group=kind, claims=())
    assert [step.kind.name for step in plan.steps] == ["PodGroup", "Service", "Secret", "ComputeDomain"]
    assert plan.wait == "objects"


@pytest.mark.parametrize("left", [{"template": TEMPLATE}, {"domains": there(DOMAIN, deleting=[DOMAIN])}])
def test_nothing_is_released_while_something_is_left(left):
    plan = plan_rest_down(LiveGroup(**left), namespace="osmo", pod_group=None, claims=())
    assert (plan.steps, plan.wait) == ((), "objects")
    assert not plan_rest_down(LiveGroup(), namespace="osmo", pod_group=None, claims=("c",)).finished


def test_an_empty_cluster_is_the_end():
    assert plan_rest_down(LiveGroup(), namespace="osmo", pod_group=None, claims=()).finished


def test_retries_are_spread_and_capped():
    pauses = [backoff(Retry(trouble=""), failures=n, spread=0.0) for n in range(1, 12)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.5, 30.0)
    assert backoff(Retry(trouble="", slow=True), failures=1, spread=0.5) >= 20
    assert backoff(Retry(trouble="", after=90.0), failures=1, spread=0.0) == 90.0


def test_a_definition_that_is_missing_for_an_hour_is_asked_for_at_most_twice_a_minute():
    missing = retry_for(NotServed("the cluster does not serve PodGroup"))
    pauses = accumulate(backoff(missing, failures=n, spread=0.0) for n in count(1))
    assert sum(1 for _ in takewhile(lambda passed: passed <= 3600, pauses)) <= 120


def test_outcomes_are_counted_under_the_labels_that_dashboards_name():
    labels = [outcome.label for outcome in (Settled, RequeueAfter, Retry, Failed)]
    assert labels == ["done", "again", "retry", "failed"]


@pytest.mark.parametrize(("waited", "seconds"), [(0, 2.0), (9, 2.0), (100, 20.0), (3600, 60.0)])
def test_the_longer_a_group_waits_the_seldomer_it_is_reconciled(waited, seconds):
    assert look_again(timedelta(seconds=waited), first=2.0, most=60.0) == RequeueAfter(seconds=seconds)


def test_the_end_of_a_service_is_not_reported_and_so_looked_for():
    left = LiveObject("peers", "1", deleting=True)

    def down(**objects):
        return plan_rest_down(LiveGroup(**objects), namespace="osmo", pod_group=None, claims=())

    assert not down(services={"peers": left}).notifies
    assert down(services={"peers": left}, domains={"domain": left}).notifies
