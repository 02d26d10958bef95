"""Whether a backend's scheduler holds composite pod groups: known by its cluster, a person, or a trial."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.errors import RequestForbidden
from cluster.kinds import POD
from pools import conditions, services, tasks
from pools.clusters.capabilities import capabilities_of
from pools.documents.backend import COMPOSITES_HELD, version_of
from pools.models import Backend
from pools.services import composites
from scheduling.capabilities import Capability
from tests.fakes.kinds import COMPOSITE

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")


def register(**more):
    document = {"kubeconfig": "/etc/kai", "scheduler_settings": {"scheduler_type": "kubernetes"}, **more}
    return services.put_backend(name="native", document=document, change=ADMIN).value


def held():
    return conditions.find(Backend.objects.get().conditions, COMPOSITES_HELD)


def nests():
    return Capability.TOPOLOGY_NESTED in capabilities_of(Backend.objects.get())


def test_nobody_knows_it_at_first_and_sets_inside_sets_are_refused(cluster):
    register()
    assert (held()["status"], held()["reason"]) == ("Unknown", "NotTried")
    assert not nests()


def test_an_administrator_may_vouch_for_it_and_take_the_word_back(cluster):
    backend = register(composite_pod_groups=True)
    assert (held()["status"], held()["reason"]) == ("True", "Vouched")
    assert version_of(Backend.objects.get()) == "1.37 (CompositePodGroup)"
    assert nests()
    register(composite_pod_groups=False)
    tasks.probe_backend(backend.pk)
    assert (held()["status"], held()["reason"]) == ("Unknown", "NotTried")
    assert not nests()


def test_a_word_does_not_help_where_composites_are_not_served(cluster):
    cluster.unserved.add(COMPOSITE)
    backend = register(composite_pod_groups=True)
    assert (held()["status"], held()["reason"]) == ("False", "NotServed")
    for word in ("CompositePodGroup", "v1alpha3", "GenericWorkload"):
        assert word in held()["message"]
    assert not nests()
    cluster.unserved.clear()
    tasks.probe_backend(backend.pk)
    assert nests()


def test_another_scheduler_has_no_such_condition(cluster):
    document = {"kubeconfig": "/etc/kai"}
    services.put_backend(name="kai", document=document, change=ADMIN)
    assert held() is None


def tried(verdict, monkeypatch, cluster):
    """The condition after a trial whose objects show this."""
    monkeypatch.setattr(composites, "SECONDS", 0.0)
    monkeypatch.setattr(composites, "is_held", lambda pods, groups: verdict)
    backend = register()
    tasks.probe_backend(backend.pk)
    before = cluster.objects
    tasks.try_composites(backend.pk)
    assert cluster.objects == before  # nothing of the trial is left
    return held()


@pytest.mark.parametrize(
    ("verdict", "want"),
    [(True, ("True", "Held")), (False, ("False", "Ignored")), (None, ("Unknown", "NothingShown"))],
)
def test_a_trial_decides_and_leaves_nothing_behind(cluster, monkeypatch, verdict, want):
    condition = tried(verdict, monkeypatch, cluster)
    assert (condition["status"], condition["reason"]) == want
    assert nests() is (verdict is True)
    assert "v1.37.2" in condition["message"]


@pytest.mark.parametrize(("version", "want"), [("v1.37.2", "Held"), ("v1.37.3", "NothingShown")])
def test_a_trial_that_shows_nothing_takes_nothing_back_but_of_another_version(
    cluster, monkeypatch, version, want
):
    tried(True, monkeypatch, cluster)
    Backend.objects.update(kubernetes_version=version)
    monkeypatch.setattr(composites, "is_held", lambda pods, groups: None)
    tasks.try_composites(Backend.objects.get().pk)
    assert held()["reason"] == want


def test_a_trial_is_due_daily_and_with_each_new_version(cluster, monkeypatch):
    now = timezone.now()
    tried(True, monkeypatch, cluster)
    backend = Backend.objects.get()
    assert not composites.begins_trial(backend, now=now + timedelta(hours=23))
    assert composites.begins_trial(backend, now=now + timedelta(hours=25))
    backend = Backend.objects.get()
    backend.kubernetes_version = "v1.37.3"
    assert composites.begins_trial(backend, now=now)


def test_nobody_tries_where_a_person_vouches(cluster):
    register(composite_pod_groups=True)
    backend = Backend.objects.get()
    assert backend.composites_tried == {}
    assert not composites.begins_trial(backend, now=timezone.now())


def test_what_exists_of_a_trial_goes_if_the_rest_cannot_be_made(cluster):
    backend = register()
    tasks.probe_backend(backend.pk)
    before = cluster.objects
    cluster.fail(RequestForbidden("no pods for you"), verb="create", kind=POD)
    tasks.try_composites(backend.pk)
    assert cluster.objects == before
    tasks.probe_backend(backend.pk)
    assert (held()["status"], held()["reason"]) == ("Unknown", "NotTried")
    assert "no pods for you" in held()["message"]


def test_a_trial_that_could_not_be_made_is_made_again_soon(cluster):
    backend = register()
    tasks.probe_backend(backend.pk)
    cluster.fail(RequestForbidden("no pods for you"), verb="create", kind=POD)
    tasks.try_composites(backend.pk)
    now = timezone.now()
    assert not composites.begins_trial(Backend.objects.get(), now=now + timedelta(seconds=30))
    assert composites.begins_trial(Backend.objects.get(), now=now + timedelta(minutes=2))


def test_no_trial_begins_before_this_database_may_write_in_the_cluster(cluster):
    register()
    backend = Backend.objects.get()
    backend.composites_tried = {}
    for entry in backend.conditions:
        if entry["type"] == "WritesAllowed":
            entry["status"] = "Unknown"
    assert not composites.begins_trial(backend, now=timezone.now())


def test_a_breach_outlives_word_and_trial_until_the_backend_is_saved_again(cluster):
    backend = register(composite_pod_groups=True)
    composites.record_breach(backend.pk, "A rack was broken.")
    tasks.probe_backend(backend.pk)
    assert (held()["status"], held()["reason"]) == ("False", "Breach")
    assert not nests()
    assert not composites.begins_trial(Backend.objects.get(), now=timezone.now() + timedelta(days=9))
    register(composite_pod_groups=True, description="The gate is on again.")
    tasks.probe_backend(backend.pk)
    assert (held()["status"], held()["reason"]) == ("True", "Vouched")
