"""The checker on real rows and a cluster: silent while all is well, and telling what was broken."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import Q
from django.utils import timezone
from rest_framework.test import APIClient

from cluster.errors import ClusterUnreachable, NotServed, RequestForbidden
from cluster.kinds import COMPUTE_DOMAIN, POD, SECRET, SERVICE
from doctor import turns
from pools.values.completeness import NODES
from pools.values.recovery import RecoveryPolicy, Response
from scheduling import names
from tests.builders.checks import check, checked_world, findings, rest
from tests.builders.completeness import note_lists
from tests.builders.gangs import retried, set_frozen
from tests.builders.hostile import HOSTILE, IN_ONE_LINE
from tests.factories import LEVELS, BackendFactory, installation
from tests.fakes.kinds import KAI_POD_GROUP, KAI_QUEUE
from tests.worker.world import chain, fresh
from workflows.models import Event, ObservedPod, Task, TaskGroup, Workflow
from workflows.reconcile.end import orphans
from workflows.services.stop import request_stop
from workflows.services.sweep import note_sweep


@pytest.fixture
def world(db, monkeypatch):
    return checked_world(monkeypatch)


def running(world, **changes):
    group = world.group(pool=world.pool(nvlink=True, levels=LEVELS), **changes)
    world.settle()
    rest(world)
    return group


def test_nothing_is_found_at_any_step_of_a_life(world):
    group = world.group(pool=world.pool(nvlink=True, levels=LEVELS), pods=3)
    for _ in range(4):
        world.step()
        rest(world)
        assert check()[0] == 0
    assert findings() == []
    request_stop(Q(pk=group.pk), status="FAILED_CANCELED", message="Cancelled.", force=False)
    for _ in range(4):
        world.step()
        assert check()[0] == 0
    assert fresh(group).released_at is not None
    assert findings() == []


def test_nothing_is_found_of_a_chain_and_of_tries_that_follow_another(world):
    first, _ = chain(
        world,
        frozen=retried("9"),
        pool=world.pool(),
    )
    world.settle(first)
    world.finish(first, 9)
    for _ in range(6):
        world.step()
        rest(world)
        assert findings() == []
    assert Task.objects.filter(retry_id=1).exists()


def test_nothing_is_found_of_a_group_that_is_due_only_with_the_end_of_another(world):
    first, second = chain(world, pool=world.pool())
    world.settle(first)
    rest(world)
    TaskGroup.objects.filter(pk=second.pk).update(awaited_upstream=first.pk, next_reconcile_at=None)
    assert findings() == []


def test_nothing_is_found_between_two_attempts(world):
    group = world.group(pool=world.pool(nvlink=True, levels=LEVELS), pods=3)
    recovery = RecoveryPolicy(preempted=Response.REQUEUE, node_lost=Response.REQUEUE)
    set_frozen(group, attempts=True, recovery=recovery.to_json(), exec_timeout=100.0)
    world.settle()
    TaskGroup.objects.update(start_time=timezone.now() - timedelta(hours=1))
    doomed = group.tasks.get(position=0).pod_name
    world.cluster.remove(POD, doomed, namespace=group.placement["namespace"])
    world.observe()
    ObservedPod.objects.filter(absent=True).update(seen_at=timezone.now() - timedelta(seconds=30))
    for _ in range(10):
        if fresh(group).attempt_number == 2:
            break
        world.step()
    for _ in range(8):
        rest(world)
        assert check()[0] == 0
        world.step()
    world.settle()
    rest(world)
    assert findings() == []
    assert (fresh(group).attempt_number, fresh(group).present_status) == (2, "RUNNING")


DEEDS = {
    "a pod is removed": (
        lambda world, group, pod: world.cluster.remove(POD, pod, namespace="osmo"),
        ("lost", "unnoticed"),
    ),
    "no worker is to reconcile it any more": (
        lambda world, group, pod: TaskGroup.objects.update(next_reconcile_at=None),
        ("lost", "no-look"),
    ),
    "the ComputeDomain is deleted": (
        lambda world, group, pod: world.cluster.delete(
            COMPUTE_DOMAIN, names.compute_domain(group.pk), uid=None, namespace="osmo"
        ),
        ("half-made", "no-domain"),
    ),
    "the pod group is removed": (
        lambda world, group, pod: world.cluster.remove(
            KAI_POD_GROUP, names.pod_group(group.pk), namespace="osmo"
        ),
        ("half-made", "no-pod-group"),
    ),
    "a Secret of no group appears": (
        lambda world, group, pod: stray(world, SECRET, "osmo", {names.GROUP_LABEL: "0" * 32}),
        ("leaked", "unknown"),
    ),
    "a queue of no pool appears": (
        lambda world, group, pod: stray(world, KAI_QUEUE, "", {}),
        ("leaked", "unneeded"),
    ),
    "a status is set back": (
        lambda world, group, pod: Task.objects.filter(pod_name=pod).update(status="SCHEDULING"),
        ("backwards", "steps"),
    ),
    "the workflow says something else": (
        lambda world, group, pod: Workflow.objects.update(status="FAILED"),
        ("inconsistent", "workflow-status"),
    ),
}


def stray(world, kind, namespace, labels):
    labels = {names.INSTALLATION_LABEL: installation().hex, **labels}
    world.cluster.put(kind, {"metadata": {"name": "stray", "namespace": namespace, "labels": labels}})


@pytest.mark.parametrize("name", DEEDS)
def test_it_tells_when(world, name):
    world.cluster._now = lambda: datetime.now(UTC) - timedelta(seconds=30)
    group = running(world)
    deed, want = DEEDS[name]
    assert findings() == []
    deed(world, group, group.tasks.get(position=0).pod_name)
    assert findings() == [want]


def test_a_release_that_is_not_true_is_told_of_each_object(world):
    group = running(world, pods=1)
    now = timezone.now()
    Event.objects.all().delete()
    Task.objects.update(status="COMPLETED")
    TaskGroup.objects.update(status="COMPLETED", end_time=now, released_at=now, next_reconcile_at=None)
    Workflow.objects.update(status="COMPLETED", end_time=now)
    world.cluster._now = lambda: now - timedelta(minutes=5)
    code, said = check()
    assert code == 1
    assert {finding["rule"] for finding in said["findings"]} == {"released-early"}
    assert {finding["object"].split()[0] for finding in said["findings"]} == {
        "Pod",
        "PodGroup",
        "ComputeDomain",
        "ResourceClaimTemplate",
    }
    assert {finding["group"] for finding in said["findings"]} == {group.name}


def test_repair_does_what_the_product_does(world):
    world.cluster._now = lambda: datetime.now(UTC) - timedelta(minutes=5)
    group = running(world)
    stray(world, SECRET, "osmo", {names.GROUP_LABEL: "0" * 32})
    stray(world, KAI_QUEUE, "", {})
    TaskGroup.objects.update(next_reconcile_at=None)
    code, said = check("--grace", "0", "--repair")
    assert (code, said["repaired"]) == (1, {"enqueued": 1, "deleted": 1, "synced": 1, "failed": []})
    assert "stray" not in {*world.cluster.names(SECRET), *world.cluster.names(KAI_QUEUE)}
    assert fresh(group).next_reconcile_at is not None
    rest(world)
    assert findings() == []


def test_without_repair_nothing_is_written(world):
    running(world)
    stray(world, SECRET, "osmo", {names.GROUP_LABEL: "0" * 32})
    version, rows = world.cluster._version, list(TaskGroup.objects.values())
    check("--grace", "0")
    assert world.cluster._version == version
    assert list(TaskGroup.objects.values()) == rows


def test_a_cluster_that_does_not_answer_is_no_clean_one(world):
    running(world)
    with world.cluster.unreachable():
        code, said = check("--grace", "0")
    assert (code, said["findings"], len(said["not_looked"])) == (2, [], 1)


def test_the_words_of_a_cluster_forge_no_finding(world):
    running(world)
    world.cluster.fail(ClusterUnreachable(HOSTILE), verb="list", kind=POD)
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--grace", "0", stdout=out)
    (line,) = [line for line in out.getvalue().splitlines() if "gone" in line]
    assert IN_ONE_LINE in line


@pytest.mark.parametrize("error", [ClusterUnreachable("reset"), NotServed("404 page not found")])
def test_a_cluster_that_cannot_be_listed_whole_is_not_judged(world, error):
    running(world)
    world.cluster.fail(error, verb="list", kind=POD)
    code, said = check("--grace", "0")
    assert (code, said["findings"]) == (2, [])


def test_rights_in_the_namespaces_of_backends_are_enough(world):
    """What deploy/rbac grants: no list over all namespaces."""
    world.cluster._now = lambda: datetime.now(UTC) - timedelta(seconds=30)
    running(world)
    stray(world, SECRET, "osmo", {names.GROUP_LABEL: "0" * 32})
    everywhere = world.cluster.scan

    def scan(kind, reduce, *, namespace="", **selectors):
        if kind.namespaced and not namespace:
            raise RequestForbidden("cannot list at the cluster scope", status=403)
        return everywhere(kind, reduce, namespace=namespace, **selectors)

    world.cluster.scan = scan
    assert findings() == [("leaked", "unknown")]


def test_no_list_reads_what_is_in_secrets(world):
    """Files of tasks, up to a MiB each: a page of them would fill a process."""
    scan, reads_contents = world.cluster.scan, []

    def recorded(kind, reduce, **options):
        if kind == SECRET:
            reads_contents.append(not options.get("metadata_only"))
        return scan(kind, reduce, **options)

    world.cluster.scan = recorded
    world.cluster.fail(ClusterUnreachable("cut"), verb="create", kind=SERVICE)  # then it lists what is there
    group = running(world)
    orphans.sweep(world.cluster, uid=world.uid, namespaces=["osmo"])
    findings()
    request_stop(Q(pk=group.pk), status="FAILED_CANCELED", message="Cancelled.", force=False)
    world.settle()
    assert fresh(group).released_at is not None
    assert len(reads_contents) >= 4
    assert not any(reads_contents)


def test_groups_that_wait_for_busy_workers_are_one_line_and_no_finding(world, monkeypatch):
    monkeypatch.setattr(turns, "EACH", timedelta(minutes=2))
    world.cluster._now = lambda: datetime.now(UTC) - timedelta(minutes=5)
    late = [running(world, pods=1) for _ in range(2)]
    due = timezone.now() - timedelta(seconds=130)
    TaskGroup.objects.update(next_reconcile_at=due)
    assert check("--confirm", "0")[1]["counts"]["lost"] == 2
    note_sweep()
    code, report = check("--confirm", "0")
    assert (code, report["findings"], report["waiting"]) == (0, [], len(late))
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--confirm", "0", stdout=out)
    assert "2 groups wait for workers, for at most 1" in out.getvalue()

    TaskGroup.objects.filter(pk=late[0].pk).update(next_reconcile_at=due - timedelta(minutes=9))
    code, report = check("--confirm", "0")
    assert [(finding["rule"], finding["group"]) for finding in report["findings"]] == [("due", late[0].name)]
    assert (code, report["waiting"]) == (1, 1)


HEARD = {
    "lately": (timedelta(), "fresh", False),
    "long ago": (timedelta(minutes=5), "old", True),
    "never": (None, "never", True),
}


@pytest.mark.parametrize("case", HEARD)
def test_it_says_of_which_clusters_the_observations_are_not_fresh(world, case):
    ago, want, is_told = HEARD[case]
    running(world)
    at = None if ago is None else timezone.now() - ago
    note_lists({NODES: None if at is None else ""}, heartbeat_at=at)
    code, report = check("--grace", "0")
    assert (code, report["looked"][0]["freshness"]) == (0, want)
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--grace", "0", stdout=out)
    assert ("not fresh: backend" in out.getvalue()) == is_told
    assert not is_told or report["looked"][0]["observed"] in out.getvalue()


def test_an_unknown_backend_is_answered_with_those_there_are(world):
    group = running(world)
    code, said = check("--backend", "west")
    assert code == 2
    assert group.backend.name in said


def test_one_backend_is_looked_at_alone(world):
    group = running(world)
    elsewhere = BackendFactory(name="elsewhere")
    assert check("--backend", group.backend.name)[0] == 0
    assert check("--backend", elsewhere.name)[0] == 2  # its address leads to another cluster


def test_people_read_a_line_for_each_finding_and_what_repair_does(world):
    world.cluster._now = lambda: datetime.now(UTC) - timedelta(minutes=5)
    group = running(world)
    stray(world, SECRET, "osmo", {names.GROUP_LABEL: "0" * 32})
    world.cluster.remove(POD, group.tasks.get(position=0).pod_name, namespace="osmo")
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", "--grace", "0", "--repair", stdout=out)
    lost, leaked, repair, total = out.getvalue().splitlines()
    assert lost.startswith(
        f"lost         {group.workflow.name} {group.name}: Task task-0 is RUNNING and its pod"
    )
    assert lost.endswith(" does not exist. (--repair: enqueue the group, so that a worker reconciles it now)")
    assert leaked.startswith("leaked       Secret osmo/stray exists although no task group needs it. (since ")
    assert repair == "repair: groups enqueued: 1, deletes sent: 1, clusters synced: 0"
    assert total.startswith("groups: 1, objects: ")
    assert total.endswith("clusters: 1; findings: 1 lost, 1 leaked")


STEPS = """
workflow:
  name: steps
  tasks:
  - {name: first, image: i, command: [c]}
  - {name: second, image: i, command: [c], inputs: [{task: first}]}
"""


def test_nothing_is_found_of_a_restart_that_carries_groups_over(world):
    pool = world.pool(nvlink=True)
    client = APIClient()
    client.force_authenticate(User.objects.create_superuser("root"))
    made = client.post(f"/api/pool/{pool.name}/workflow", {"file": STEPS}, format="json").json()["name"]
    for name, code in (("first-group", 0), ("second-group", 4)):
        world.settle()
        world.finish(TaskGroup.objects.get(workflow__name=made, name=name), code)
    world.settle()
    again = client.post(f"/api/pool/{pool.name}/workflow/{made}/restart").json()["name"]
    rest(world)
    assert findings() == []
    world.settle()
    groups = dict(TaskGroup.objects.filter(workflow__name=again).values_list("name", "status"))
    assert groups == {"first-group": "COMPLETED", "second-group": "RUNNING"}
    world.finish(TaskGroup.objects.get(workflow__name=again, name="second-group"))
    world.settle()
    rest(world)
    assert findings() == []
    assert Workflow.objects.get(name=again).status == "COMPLETED"
    assert world.cluster.kinds() <= {"ConfigMap", "PriorityClass", "Queue", "Topology"}
