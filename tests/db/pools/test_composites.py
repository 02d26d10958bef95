"""Whether a backend's scheduler holds composite pod groups: known by its cluster, a person, or a trial."""

import pytest

from pools import conditions, services, tasks
from pools.clusters.capabilities import capabilities_of
from pools.documents.backend import COMPOSITES_HELD, version_of
from pools.models import Backend
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
