"""Knowledge of a backend comes from its cluster's own answers."""

from datetime import timedelta

import pytest
from django.utils import timezone

from cluster.errors import RequestForbidden, from_status
from cluster.kinds import COMPUTE_DOMAIN, CRD, NAMESPACE
from pools import conditions, services, tasks
from pools.clusters.capabilities import capabilities_of
from pools.clusters.probe import Address, Probe
from pools.models import Backend, Cluster
from pools.services.observed import record_probe
from pools.values.completeness import NODES, OTHERS
from scheduling.capabilities import Capability
from scheduling.errors import InvalidSpec
from scheduling.nodes.devices import CLASSES, SLICES
from tests.builders.completeness import note_lists
from tests.builders.gangs_of_others import REFUSED
from tests.factories import PoolFactory
from tests.fakes.kai import kai_cluster, pod_group_crd
from tests.fakes.kinds import KAI_POD_GROUP, KAI_TOPOLOGY, POD_GROUP

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")


def register(name="kai", kubeconfig="/etc/kai", **more):
    return services.put_backend(name=name, document={"kubeconfig": kubeconfig, **more}, change=ADMIN)


def status(kind, name="kai"):
    return conditions.status_of(Backend.objects.get(name=name).conditions, kind)


def said(kind, name="kai"):
    return conditions.find(Backend.objects.get(name=name).conditions, kind)["message"]


@pytest.mark.parametrize(("schema", "want"), [({}, "0.13"), ({"min_sub_group": True}, "0.15")])
def test_the_version_of_kai_is_that_of_its_schema(clusters, schema, want):
    clusters["/etc/kai"] = kai_cluster(**schema)
    backend = register().value
    assert (backend.scheduler_version, backend.kubernetes_version) == (want, "v1.37.2")
    assert status("SchedulerServed") == "True"
    assert backend.cluster_id == clusters["/etc/kai"].kube_system_uid()


def test_a_schema_without_parent_is_refused_with_the_version_needed(clusters):
    clusters["/etc/kai"] = kai_cluster(parent=False)
    with pytest.raises(InvalidSpec, match=r"0\.13") as refusal:
        register()
    assert [fault.path for fault in refusal.value.faults] == [("scheduler_settings", "scheduler_type")]
    assert not Backend.objects.exists()


def test_a_cluster_without_kai_is_refused(clusters):
    clusters["/etc/kai"].remove(CRD, "podgroups.scheduling.run.ai")
    with pytest.raises(InvalidSpec, match="KAI"):
        register()


def test_a_schema_that_grows_old_under_a_backend_is_a_condition(cluster):
    register()
    cluster.put(CRD, pod_group_crd(parent=False))
    tasks.probe_backend(Backend.objects.get().pk)
    assert status("SchedulerServed") == "False"
    assert "0.13" in said("SchedulerServed")


def test_an_unreachable_cluster_is_registered_as_the_oldest_version(cluster):
    with cluster.unreachable():
        saved = register()
    assert [notice.code for notice in saved.notices] == ["unreachable"]
    assert status("Reachable") == "False"
    assert saved.value.scheduler_version == ""
    assert Capability.TOPOLOGY_REQUIRED in capabilities_of(saved.value)


def test_it_is_probed_once_it_answers_and_its_groups_are_notified(cluster, running):
    with cluster.unreachable():
        backend = register().value
        tasks.probe_backend(backend.pk)
    assert status("Reachable") == "False"
    tasks.probe_backend(backend.pk)
    assert status("Reachable") == "True"
    assert Backend.objects.get().scheduler_version == "0.13"
    assert running.notified == [backend.pk]
    tasks.probe_backend(backend.pk)
    assert running.notified == [backend.pk]


def test_a_condition_says_since_when_it_holds(cluster, time_machine_at):
    with cluster.unreachable():
        backend = register().value
        since = conditions.find(backend.conditions, "Reachable")["lastTransitionTime"]
        time_machine_at(timedelta(minutes=5))
        tasks.probe_backend(backend.pk)
    assert conditions.find(Backend.objects.get().conditions, "Reachable")["lastTransitionTime"] == since
    tasks.probe_backend(backend.pk)
    assert conditions.find(Backend.objects.get().conditions, "Reachable")["lastTransitionTime"] > since


def test_the_namespace_is_made_if_it_is_missing(cluster):
    backend = register(k8s_namespace="training").value
    assert cluster.get(NAMESPACE, "training") is None  # nothing is written before the rows are saved
    tasks.probe_backend(backend.pk)
    assert cluster.get(NAMESPACE, "training") is not None
    assert status("NamespaceReady") == "True"


def test_a_namespace_that_may_not_be_made_is_told(cluster):
    backend = register(k8s_namespace="training").value
    cluster.fail(RequestForbidden("no namespaces for you"), verb="create", kind=NAMESPACE)
    tasks.probe_backend(backend.pk)
    assert status("NamespaceReady") == "Unknown"
    assert "no namespaces for you" in said("NamespaceReady")


def test_rights_that_hide_the_schema_leave_it_open(cluster):
    cluster.fail(RequestForbidden("no definitions for you"), verb="get", kind=CRD)
    register()
    assert status("SchedulerServed") == "Unknown"
    assert Backend.objects.get().scheduler_version == ""


def test_kubernetes_needs_its_pod_groups_served(cluster):
    settings = {"scheduler_type": "kubernetes"}
    backend = register(scheduler_settings=settings).value
    assert (backend.scheduler_version, backend.scheduler_name) == ("1.37", "default-scheduler")
    cluster.unserved.add(POD_GROUP)
    with pytest.raises(InvalidSpec, match="feature"):
        register("other", scheduler_settings=settings)


def test_a_cluster_without_compute_domains_is_told(cluster):
    cluster.unserved.add(COMPUTE_DOMAIN)
    register()
    assert status("ComputeDomainServed") == "False"
    document = {"backend": "kai", "nvlink": True}
    with pytest.raises(InvalidSpec, match=r'"kai" does not serve .* ComputeDomain') as refusal:
        services.put_pool(name="train", document=document, change=ADMIN)
    assert [(fault.path, fault.code) for fault in refusal.value.faults] == [(("nvlink",), "not_served")]


def test_a_pool_that_was_accepted_can_be_edited_although_the_driver_is_gone(cluster):
    register()
    document = {"backend": "kai", "nvlink": True}
    services.put_pool(name="train", document=document, change=ADMIN)
    cluster.unserved.add(COMPUTE_DOMAIN)
    tasks.probe_backend(Backend.objects.get().pk)
    changed = {**document, "enable_maintenance": True}
    saved = services.put_pool(name="train", document=changed, change=ADMIN)
    assert [notice.code for notice in saved.notices] == ["compute_domain_not_served"]


def test_keys_are_refused_where_the_scheduler_finds_no_topologies(cluster):
    cluster.unserved.add(KAI_TOPOLOGY)
    register()
    assert status("Conforms") == "False"
    assert said("Conforms") == "the cluster does not serve Topology (kai.scheduler/v1alpha1)"
    document = {"backend": "kai", "topology_keys": [{"key": "zone", "label": "example.com/zone"}]}
    with pytest.raises(InvalidSpec, match="Topology") as refusal:
        services.put_pool(name="train", document=document, change=ADMIN)
    assert [(fault.path, fault.code) for fault in refusal.value.faults] == [
        (("topology_keys",), "not_served")
    ]
    services.put_pool(name="train", document={"backend": "kai"}, change=ADMIN)


KEYS = [{"key": "zone", "label": "example.com/zone"}]
EXTERNAL = {"topology_keys": KEYS, "topology_source": "external", "topology_name": "floor"}


@pytest.mark.parametrize(
    ("pool", "gone", "said"),
    [
        ({"nvlink": True}, COMPUTE_DOMAIN, 'Pool "train" of this backend has nvlink'),
        ({"topology_keys": KEYS}, KAI_TOPOLOGY, 'Pool "train" of this backend has topology_keys'),
    ],
)
def test_an_address_is_refused_where_a_pool_would_lose_what_it_needs(clusters, pool, gone, said):
    clusters["/etc/new"] = kai_cluster(uid="another")
    clusters["/etc/new"].unserved.add(gone)
    register()
    services.put_pool(name="train", document={"backend": "kai", **pool}, change=ADMIN)
    with pytest.raises(InvalidSpec, match=said) as refusal:
        register(kubeconfig="/etc/new")
    assert [(fault.path, fault.code) for fault in refusal.value.faults] == [(("kubeconfig",), "not_served")]
    assert Backend.objects.get().kubeconfig == "/etc/kai"


def test_a_backend_that_lost_the_driver_can_still_be_changed(clusters, cluster):
    register()
    services.put_pool(name="train", document={"backend": "kai", "nvlink": True}, change=ADMIN)
    cluster.unserved.add(COMPUTE_DOMAIN)
    tasks.probe_backend(Backend.objects.get().pk)
    assert register(kubeconfig="/etc/same").value.kubeconfig == "/etc/same"


def test_a_scheduler_without_topology_objects_is_refused_under_a_pool_that_names_one(cluster):
    register()
    services.put_pool(name="train", document={"backend": "kai", **EXTERNAL}, change=ADMIN)
    with pytest.raises(InvalidSpec, match=r'Pool "train" .* names Topology "floor"') as refusal:
        register(scheduler_settings={"scheduler_type": "kubernetes"})
    assert [(fault.path, fault.code) for fault in refusal.value.faults] == [
        (("scheduler_settings", "scheduler_type"), "no_topology_objects")
    ]


def test_a_backend_whose_scheduler_was_taken_away_takes_no_pool_and_keeps_those_it_has(cluster):
    register()
    services.put_pool(name="old", document={"backend": "kai"}, change=ADMIN)
    Backend.objects.update(scheduler_type="slurm")
    with pytest.raises(InvalidSpec, match='"slurm", which is not installed') as refusal:
        services.put_pool(name="new", document={"backend": "kai"}, change=ADMIN)
    (fault,) = refusal.value.faults
    assert (fault.path, fault.code) == (("backend",), "scheduler_not_installed")
    assert {"kai", "kubernetes", "default"} <= set(fault.allowed)
    changed = {"backend": "kai", "enable_maintenance": True}
    assert services.put_pool(name="old", document=changed, change=ADMIN).value.enable_maintenance


def test_a_refusal_of_a_disabled_backend_says_which_take_pools(cluster):
    register()
    register("off", "/etc/same", enabled=False)
    with pytest.raises(InvalidSpec, match="is disabled") as refusal:
        services.put_pool(name="train", document={"backend": "off"}, change=ADMIN)
    assert [fault.allowed for fault in refusal.value.faults] == [("kai",)]


def test_a_cluster_that_drops_what_is_written_does_not_conform(cluster, monkeypatch):
    def create(kind, obj, *, dry_run=False):
        kept = {**obj, "spec": {key: value for key, value in obj["spec"].items() if key != "subGroups"}}
        return kept if dry_run else obj

    monkeypatch.setattr(cluster, "create", create)
    register()
    assert status("Conforms") == "False"
    assert "a dry run of a PodGroup lost spec.subGroups" in said("Conforms")


def test_a_webhook_that_gives_no_answer_makes_no_cluster_unreachable(cluster):
    """The API server has answered; whether it would take the object is not known."""
    words = 'Internal error occurred: failed calling webhook "a.kai": context deadline exceeded'
    cluster.fail(from_status({"message": words}, code=500), verb="create", kind=KAI_POD_GROUP, times=9)
    register()
    assert (status("Reachable"), status("Conforms")) == ("True", "Unknown")
    assert 'webhook "a.kai", which the API server asks first, gave no answer' in said("Conforms")


def test_an_address_cannot_move_to_another_cluster_under_running_groups(clusters, running):
    clusters["/etc/new"] = kai_cluster(uid="another")
    register()
    running.unreleased = 3
    with pytest.raises(InvalidSpec, match="another cluster"):
        register(kubeconfig="/etc/new")
    running.unreleased = 0
    register(kubeconfig="/etc/new")
    assert Backend.objects.get().cluster_id == "another"


def test_a_file_that_leads_elsewhere_now_does_not_take_running_groups_along(clusters, running):
    first = register().value.cluster_id
    running.unreleased = 1
    clusters["/etc/kai"] = kai_cluster(uid="another")
    tasks.probe_backend(Backend.objects.get().pk)
    assert Backend.objects.get().cluster_id == first
    assert status("Reachable") == "False"
    assert "another" in said("Reachable")


def test_an_answer_about_an_address_that_was_changed_meanwhile_is_dropped(cluster):
    backend = register().value
    asked = Address.of(backend)
    Backend.objects.update(kubeconfig="/etc/same")
    record_probe(backend.pk, Probe(problem="gone", reason="Unreachable"), address=asked)
    assert status("Reachable") == "True"


def test_every_backend_at_one_address_is_probed_though_one_seat_is_there(cluster):
    for name in ("one", "two", "three"):
        register(name)
    Backend.objects.update(probed_at=None)
    tasks.probe_backend(Backend.objects.get(name="two").pk)
    assert all(backend.probed_at for backend in Backend.objects.all())
    with cluster.unreachable():
        tasks.probe_backend(Backend.objects.get(name="three").pk)
    assert {status("Reachable", name) for name in ("one", "two", "three")} == {"False"}


def test_whether_pods_of_others_are_followed_is_told_once_the_observer_has_tried(cluster):
    backend = register().value
    tasks.probe_backend(backend.pk)
    assert status("OthersSeen") is None
    note_lists({OTHERS: "list pods: no pods for you"})
    tasks.probe_backend(backend.pk)
    assert status("OthersSeen") == "False"
    assert "no pods for you" in said("OthersSeen")
    note_lists({OTHERS: ""})
    tasks.probe_backend(backend.pk)
    assert status("OthersSeen") == "True"


def test_objects_that_cannot_be_stored_are_named_until_they_change(cluster):
    backend = register().value
    tasks.probe_backend(backend.pk)
    assert status("ObservationsStored") is None
    kept = {"count": 7, "objects": [{"object": "Pod osmo p", "error": "DataError: long", "since": ""}]}
    Cluster.objects.update(heartbeat_at=timezone.now(), quarantine=kept)
    tasks.probe_backend(backend.pk)
    assert status("ObservationsStored") == "False"
    assert "7 objects" in said("ObservationsStored")
    assert "Pod osmo p: DataError: long" in said("ObservationsStored")
    Cluster.objects.update(quarantine={})
    tasks.probe_backend(backend.pk)
    assert status("ObservationsStored") == "True"


DEVICES_SEEN = {
    "before the first try": ({}, None, ""),
    "followed": ({SLICES: "", CLASSES: ""}, "True", ""),
    "no classes are served": ({SLICES: "", CLASSES: "not served"}, None, ""),
    "slices may not be read": (
        {SLICES: "you may not list slices", CLASSES: ""},
        "False",
        "How many GPUs nodes offer by DRA drivers alone is not known",
    ),
    "classes may not be read": (
        {SLICES: "", CLASSES: "you may not list classes"},
        "False",
        "not followed: you may not list classes",
    ),
}


@pytest.mark.parametrize("case", DEVICES_SEEN)
@pytest.mark.parametrize("scheduler", ["kubernetes", "default", "kai"])
def test_whether_devices_are_followed_is_told_where_the_scheduler_gives_them(cluster, case, scheduler):
    problems, want, message = DEVICES_SEEN[case]
    backend = register().value
    tasks.probe_backend(backend.pk)
    Backend.objects.update(scheduler_type=scheduler)
    note_lists({NODES: "", **problems}, heartbeat_at=timezone.now())
    tasks.probe_backend(backend.pk)
    assert status("SlicesSeen") == (None if scheduler == "kai" else want)
    assert scheduler == "kai" or not message or message in said("SlicesSeen")


def test_whether_gangs_of_others_are_followed_is_told_where_the_backend_asks_for_it(cluster):
    backend = register().value
    note_lists(REFUSED, heartbeat_at=timezone.now())
    tasks.probe_backend(backend.pk)
    assert status("GangsSeen") is None
    Backend.objects.update(follow_others=True)
    tasks.probe_backend(backend.pk)
    assert (status("GangsSeen"), "podgroups is forbidden" in said("GangsSeen")) == ("False", True)
    note_lists(dict.fromkeys(REFUSED, ""))
    tasks.probe_backend(backend.pk)
    assert status("GangsSeen") == "True"
    Backend.objects.update(follow_others=False)
    tasks.probe_backend(backend.pk)
    assert status("GangsSeen") is None


OBSERVED = {
    "OthersSeen": OTHERS,
    "QueuesSeen": "queues.scheduling.run.ai",
    "SlicesSeen": SLICES,
    "GangsSeen": "podgroups.scheduling.run.ai",
    "ObservationsStored": NODES,
}


@pytest.mark.parametrize("kind", OBSERVED)
def test_what_the_observer_tells_is_unknown_while_it_is_silent(kind, cluster):
    """The probe is a worker's: it goes on without an observer, and what it says itself holds."""
    backend = register(follow_others=True).value
    tasks.probe_backend(backend.pk)
    PoolFactory(backend=backend, nvlink=True)
    now = timezone.now()
    note_lists({NODES: "", OBSERVED[kind]: ""}, heartbeat_at=now)
    tasks.probe_backend(backend.pk)
    assert status(kind) == "True"
    Cluster.objects.update(heartbeat_at=now - timedelta(minutes=4))
    tasks.probe_backend(backend.pk)
    assert (status(kind), status("Reachable")) == ("Unknown", "True")
    assert "it was True" in said(kind)
    with cluster.unreachable():
        tasks.probe_backend(backend.pk)
    assert (status(kind), status("Reachable")) == ("Unknown", "False")
    Cluster.objects.update(heartbeat_at=timezone.now())
    tasks.probe_backend(backend.pk)
    assert status(kind) == "True"
