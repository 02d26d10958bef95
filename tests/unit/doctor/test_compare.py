"""Every way in which rows and clusters may disagree, one at a time on a world in which all is well."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from doctor.compare import compare, confirmed, counts
from doctor.facts import (
    AttemptRow,
    Backwards,
    ClusterObject,
    Facts,
    GroupRow,
    ObservedCluster,
    PoolRow,
    Tolerances,
    TryRow,
    Workers,
    WorkflowRow,
    WriteRefusal,
)
from doctor.timelines import forwards
from doctor.turns import waiting

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
GROUP, TASK = UUID(int=1), UUID(int=2)
KAI_GROUP = "PodGroup.scheduling.run.ai"
QUEUE, TOPOLOGY = "Queue.scheduling.run.ai", "Topology.kai.scheduler"
DOMAIN = "ComputeDomain.resource.nvidia.com"
CLAIM = "ResourceClaim.resource.k8s.io"


def ago(seconds):
    return NOW - timedelta(seconds=seconds)


def attempt(**changes):
    values = {
        "task": TASK,
        "name": "train",
        "retry_id": 0,
        "latest": True,
        "lead": True,
        "status": "RUNNING",
        "pod_name": "pod-0",
        "scheduling_since": ago(1000),
    }
    return TryRow(**{**values, **changes})


def row(**changes):
    values = {
        "uuid": GROUP,
        "name": "group",
        "workflow": "train-1",
        "backend": "east",
        "cluster": "c1",
        "namespace": "osmo",
        "status": "RUNNING",
        "pod_group": KAI_GROUP,
        "nvlink": True,
        "queue": "q",
        "topologies": frozenset({("zone",)}),
        "touched": True,
        "submitted": ago(2000),
        "processing_since": ago(1900),
        "scheduling_since": ago(1000),
        "exec_since": ago(900),
        "created_at": ago(1000),
        "due": NOW + timedelta(seconds=60),
        "tries": (attempt(),),
    }
    return GroupRow(**{**values, **changes})


def ended(**changes):
    tries = (attempt(status="COMPLETED"),)
    return row(**{"status": "COMPLETED", "ended_at": ago(700), "tries": tries, **changes})


def awaiting(*upstream):
    """A group that awaits one of its upstream groups."""
    return row(status="WAITING", due=None, awaits=True, touched=False, tries=(), upstream=upstream)


def second(**changes):
    """A group whose first attempt ran long ago; what users see of it is RUNNING."""
    attempts = {"number": 2, "status": "SCHEDULING", "since": ago(60), "begins": ago(60), **changes}
    tries = (
        attempt(status="RESCHEDULED", latest=False),
        attempt(
            retry_id=1, first_retry=1, pod_name="pod-1", status=attempts["status"], processing_since=ago(60)
        ),
    )
    return row(
        attempt=AttemptRow(**attempts), tries=tries, queue_timeout=100.0, exec_timeout=1000.0, exec_since=None
    )


def released(**changes):
    return ended(**{"released_at": ago(600), "due": None, "tries": (), **changes})


def thing(api, name, **changes):
    values = {"namespace": "osmo", "group": GROUP, "created": ago(1000)}
    return ClusterObject(api=api, name=name, **{**values, **changes})


def shared(api, name, **changes):
    return thing(api, name, **{"group": None, "is_shared": True, **changes})


def pod(name="pod-0", **changes):
    return thing("Pod", name, **{"task": TASK.hex, "phase": "Running", "node": "n1", **changes})


POD_GROUP = thing(KAI_GROUP, GROUP.hex, is_pod_group=True)
COMPUTE_DOMAIN = thing(DOMAIN, "domain")
WHOLE = (pod(), POD_GROUP, COMPUTE_DOMAIN)


def facts(group=None, things=WHOLE, *, workflow=None, **changes):
    group = group or row()
    workflow = workflow or {"RUNNING": "RUNNING", "COMPLETED": "COMPLETED"}.get(group.status, "PENDING")
    values = {
        "now": NOW,
        "installation": UUID(int=9),
        "groups": {group.uuid: group},
        "workflows": (
            WorkflowRow(
                name="train-1", status=workflow, submitted=ago(2000), ended_at=None, groups=(group.status,)
            ),
        ),
        "clusters": (ObservedCluster(uid="c1", backend="east", listed_at=ago(5), objects=tuple(things)),),
    }
    return Facts(**{**values, **changes})


def rules(given):
    return [(finding.kind, finding.rule) for finding in compare(given, Tolerances())]


WELL = {
    "a group that runs with all it needs": facts(),
    "a group that was released, with nothing left": facts(released(), ()),
    "a group that a worker has": facts(row(due=ago(1000), leased_until=NOW + timedelta(seconds=5))),
    "a group that waits for its turn": facts(
        row(status="PROCESSING", touched=False, tries=(attempt(status="PROCESSING"),)), ()
    ),
    "a gang that is being made": facts(
        row(
            status="PROCESSING",
            processing_since=ago(10),
            tries=(attempt(status="PROCESSING", processing_since=ago(10)),),
        ),
        (POD_GROUP, COMPUTE_DOMAIN),
    ),
    "a pod made after the list": facts(
        row(tries=(attempt(scheduling_since=ago(1)),)), (POD_GROUP, COMPUTE_DOMAIN)
    ),
    "a group that ended a moment ago": facts(ended(ended_at=ago(10)), WHOLE),
    "an object that went while it was listed": facts(released(released_at=ago(2)), WHOLE),
    "a ComputeDomain whose end began after its pods were listed": facts(
        ended(ended_at=ago(10)), (pod(), POD_GROUP, replace(COMPUTE_DOMAIN, deleting_since=ago(5)))
    ),
    "a young object of a group that nobody knows": facts(
        things=(*WHOLE, thing("Secret", "s", group=UUID(int=7), created=ago(20)))
    ),
    "a claim of a running pod": facts(
        things=(*WHOLE, thing(CLAIM, "pod-0-x", group=None, pod="pod-0")), owners={"pod-0": GROUP}
    ),
    "a claim of somebody else": facts(things=(*WHOLE, thing(CLAIM, "other", group=None, pod="theirs"))),
    "a claim of a pod elsewhere that has the name of one of ours": facts(
        things=(*WHOLE, thing(CLAIM, "pod-0-y", group=None, pod="pod-0", namespace="elsewhere")),
        owners={"pod-0": GROUP},
    ),
    "an old pod that goes while its successor comes": facts(
        row(tries=(attempt(status="RESCHEDULED", latest=False), attempt(retry_id=1, pod_name="pod-1"))),
        (pod(deleting_since=ago(3)), pod("pod-1"), POD_GROUP, COMPUTE_DOMAIN),
    ),
    "a queue and a topology of a pool": facts(
        things=(
            *WHOLE,
            shared(QUEUE, "osmo-pool-osmo-a"),
            shared(QUEUE, "osmo-default-osmo"),
            shared(TOPOLOGY, "t", levels=("zone", "rack")),
        ),
        pools=(
            PoolRow(
                cluster="c1",
                name="a",
                objects=frozenset({(QUEUE, "osmo-pool-osmo-a"), (QUEUE, "osmo-default-osmo")}),
                levels=frozenset({("zone",), ("zone", "rack")}),
            ),
        ),
    ),
    "a queue and a topology of a deleted pool that a group still uses": facts(
        things=(
            *WHOLE,
            shared(QUEUE, "q", leads_to=((QUEUE, "above"),)),
            shared(QUEUE, "above"),
            shared(TOPOLOGY, "t", levels=("zone",)),
        )
    ),
    "a second attempt that waits for room": facts(second(), (pod("pod-1"), POD_GROUP, COMPUTE_DOMAIN)),
    "a second attempt that waits for the end of the first": facts(
        second(status="PROCESSING", clearing=True), (pod(deleting_since=ago(50)), POD_GROUP, COMPUTE_DOMAIN)
    ),
    "a second attempt in its pause": facts(
        replace(
            second(status="PROCESSING", since=ago(900), begins=NOW + timedelta(seconds=60)), touched=False
        ),
        (),
    ),
    "a first attempt that was cleared away while it was listed": facts(
        replace(second(status="PROCESSING", cleared_at=ago(2)), touched=False), WHOLE
    ),
    "a second attempt that runs": facts(
        replace(second(status="RUNNING"), exec_since=ago(900)), (pod("pod-1"), POD_GROUP, COMPUTE_DOMAIN)
    ),
    "a workflow between two groups": facts(
        row(status="WAITING", tries=(), upstream=(("RUNNING", None),)), (), workflow="RUNNING"
    ),
    "a group that awaits an upstream group for hours": facts(
        awaiting(("RUNNING", None)),
        (),
        workflow="RUNNING",
    ),
    "a group one of whose upstream groups failed just now": facts(
        awaiting(("RUNNING", None), ("FAILED", ago(5))),
        (),
        workflow="RUNNING",
    ),
}


@pytest.mark.parametrize("given", WELL.values(), ids=WELL.keys())
def test_nothing_is_said_of(given):
    assert compare(given, Tolerances()) == ()


WRONG = {
    "a due group that no worker takes": (facts(row(due=ago(500))), ("lost", "due")),
    "a group whose worker died long ago": (
        facts(row(due=ago(5000), leased_until=ago(500))),
        ("lost", "due"),
    ),
    "a group that no worker will reconcile": (facts(row(due=None)), ("lost", "no-look")),
    "a group that sleeps for hours": (facts(row(due=NOW + timedelta(hours=3))), ("lost", "asleep")),
    "a group that waits for what has ended": (
        facts(row(status="WAITING", touched=False, tries=(), upstream=(("COMPLETED", ago(900)),)), ()),
        ("lost", "upstream"),
    ),
    "a group that awaits an upstream group and would fail by another": (
        facts(
            awaiting(("RUNNING", None), ("FAILED", ago(900))),
            (),
            workflow="RUNNING",
        ),
        ("lost", "upstream"),
    ),
    "a task whose pod is gone": (facts(things=(POD_GROUP, COMPUTE_DOMAIN)), ("lost", "unnoticed")),
    "a task whose pod has ended": (
        facts(things=(pod(phase="Succeeded"), POD_GROUP, COMPUTE_DOMAIN)),
        ("lost", "unnoticed"),
    ),
    "a group released while its pod was there": (facts(released(), (pod(),)), ("lost", "released-early")),
    "an object made after its group's release": (
        facts(released(), (thing("Secret", "s", created=ago(590)),)),
        ("leaked", "released"),
    ),
    "a claim left by a released group": (
        facts(
            released(),
            (thing(CLAIM, "pod-0-x", group=None, pod="pod-0", created=ago(590)),),
            owners={"pod-0": GROUP},
        ),
        ("leaked", "released"),
    ),
    "an object of a group that nobody knows": (
        facts(things=(*WHOLE, thing("Secret", "s", group=UUID(int=7)))),
        ("leaked", "unknown"),
    ),
    "an object whose label names no group": (
        facts(things=(*WHOLE, thing("Secret", "s", group=None))),
        ("leaked", "unknown"),
    ),
    "an object in another namespace than its group's": (
        facts(things=(*WHOLE, thing("Secret", "s", namespace="elsewhere"))),
        ("leaked", "elsewhere"),
    ),
    "a copy elsewhere of a pod of a released group": (
        facts(released(), (pod(namespace="elsewhere"),)),
        ("leaked", "elsewhere"),
    ),
    "an object of a group that says it made none": (
        facts(row(status="PROCESSING", touched=False, tries=()), (thing("Secret", "s"),)),
        ("leaked", "untouched"),
    ),
    "a pod of no try": (facts(things=(*WHOLE, pod("stray", task="f" * 32))), ("leaked", "stranger")),
    "a queue that no pool needs": (
        facts(things=(*WHOLE, shared(QUEUE, "old"))),
        ("leaked", "unneeded"),
    ),
    "a topology that no pool needs": (
        facts(things=(*WHOLE, shared(TOPOLOGY, "old", levels=("zone", "rack")))),
        ("leaked", "unneeded"),
    ),
    "two pods of one task": (
        facts(
            row(tries=(attempt(), attempt(retry_id=1, latest=False, status="RESCHEDULED", pod_name="pod-1"))),
            (pod(), pod("pod-1"), POD_GROUP, COMPUTE_DOMAIN),
        ),
        ("doubled", "pods"),
    ),
    "two live tries of one task": (
        facts(row(tries=(attempt(), attempt(retry_id=1, latest=False)))),
        ("doubled", "live-tries"),
    ),
    "two ComputeDomains": (facts(things=(*WHOLE, thing(DOMAIN, "second"))), ("doubled", "compute-domains")),
    "pod groups of two schedulers": (
        facts(things=(*WHOLE, thing("PodGroup.scheduling.k8s.io", GROUP.hex, is_pod_group=True))),
        ("doubled", "pod-groups"),
    ),
    "a gang with fewer pods than wanted": (
        facts(
            row(
                status="PROCESSING",
                tries=(attempt(status="PROCESSING", processing_since=ago(900)),),
                created_at=None,
            ),
            (POD_GROUP, COMPUTE_DOMAIN),
        ),
        ("half-made", "fewer-pods"),
    ),
    "pods without their pod group": (facts(things=(pod(), COMPUTE_DOMAIN)), ("half-made", "no-pod-group")),
    "NVLink pods without a ComputeDomain": (facts(things=(pod(), POD_GROUP)), ("half-made", "no-domain")),
    "an ended group that is not released": (facts(ended(), ()), ("stuck", "not-released")),
    "a group that says its release is stuck": (
        facts(ended(ended_at=ago(130), stuck="Still there."), ()),
        ("stuck", "release-stuck"),
    ),
    "a group past its queue timeout": (
        facts(row(status="SCHEDULING", queue_timeout=100.0, tries=(attempt(status="SCHEDULING"),))),
        ("stuck", "overdue"),
    ),
    "a gang that could not be made in time": (
        facts(row(status="PROCESSING", touched_at=ago(900), queue_timeout=100.0, tries=()), ()),
        ("stuck", "overdue"),
    ),
    "a group past its execution timeout": (facts(row(exec_timeout=100.0)), ("stuck", "overdue")),
    "a task that outlives its group": (
        facts(released(tries=(attempt(),)), ()),
        ("inconsistent", "live-tasks"),
    ),
    "a group that outlives its tasks": (
        facts(row(tries=(attempt(status="FAILED"),))),
        ("inconsistent", "no-live-task"),
    ),
    "a group that completed though its lead failed": (
        facts(released(tries=(attempt(status="FAILED"),)), ()),
        ("inconsistent", "lead"),
    ),
    "a workflow that does not follow from its groups": (
        facts(released(), (), workflow="RUNNING"),
        ("inconsistent", "workflow-status"),
    ),
    "a second attempt past its queue timeout": (
        facts(second(since=ago(900), begins=ago(800)), (pod("pod-1"), POD_GROUP, COMPUTE_DOMAIN)),
        ("stuck", "overdue"),
    ),
    "a first attempt that does not go": (
        facts(
            replace(
                second(status="PROCESSING", clearing=True, since=ago(900), begins=ago(900)),
                queue_timeout=None,
            )
        ),
        ("stuck", "not-cleared"),
    ),
    "a first attempt that says that it is stuck": (
        facts(replace(second(status="PROCESSING", clearing=True), stuck="Still there.")),
        ("stuck", "release-stuck"),
    ),
    "a pod of an attempt that was cleared away": (
        facts(
            second(cleared_at=ago(50)),
            (pod(phase="Failed"), pod("pod-1"), POD_GROUP, COMPUTE_DOMAIN),
        ),
        ("leaked", "earlier-attempt"),
    ),
    "a status that went back": (
        facts(backwards=(Backwards(workflow="w", subject="s", steps=("RUNNING", "WAITING"), since=NOW),)),
        ("backwards", "steps"),
    ),
    "a cluster in which nothing may be written": (
        facts(refusals=(WriteRefusal(backend="east", cluster="c1", message="Nothing is written."),)),
        ("stuck", "writes-suspended"),
    ),
    "a ComputeDomain that ends under pods": (
        facts(things=(pod(), POD_GROUP, replace(COMPUTE_DOMAIN, deleting_since=ago(9)))),
        ("unsafe", "domain-ending"),
    ),
}


@pytest.mark.parametrize(("given", "want"), WRONG.values(), ids=WRONG.keys())
def test_it_finds(given, want):
    assert rules(given) == [want]


def test_a_cluster_that_was_not_looked_at_is_no_evidence():
    assert rules(facts(clusters=())) == []


def test_without_grace_everything_counts_but_a_sweep_may_come_by():
    limits = Tolerances.all(timedelta(0), due_at_least=timedelta(seconds=10))
    young = facts(ended(ended_at=ago(1), due=ago(3)), (thing("Secret", "s", group=UUID(int=7), created=NOW),))
    found = {(finding.kind, finding.rule) for finding in compare(young, limits)}
    assert found == {("stuck", "not-released")}
    later = replace(young, now=NOW + timedelta(seconds=1))
    assert ("leaked", "unknown") in {(finding.kind, finding.rule) for finding in compare(later, limits)}


def test_an_object_without_a_time_counts_when_it_is_seen_twice():
    gone = compare(facts(things=(POD_GROUP, COMPUTE_DOMAIN)), Tolerances())
    assert confirmed((), gone) == ()
    assert confirmed(gone, gone) == gone
    due = compare(facts(row(due=ago(500))), Tolerances())
    assert confirmed((), due) == due


def test_the_counts_name_every_kind():
    found = compare(facts(row(due=ago(500))), Tolerances())
    assert counts(found) == {
        "lost": 1,
        "leaked": 0,
        "doubled": 0,
        "half-made": 0,
        "stuck": 0,
        "inconsistent": 0,
        "backwards": 0,
        "unsafe": 0,
    }


BUSY = Workers(swept_at=ago(3), due=5000)
LATE = {
    "due for long": (row(due=ago(500)), WHOLE),
    "its tasks' pods are gone": (row(due=ago(500)), (POD_GROUP, COMPUTE_DOMAIN)),
    "ended, and its objects are there": (ended(ended_at=ago(900), due=ago(890)), WHOLE),
    "its execution timeout has passed": (row(due=ago(500), exec_since=ago(2000), exec_timeout=1600.0), WHOLE),
    "its upstream groups have ended": (
        row(
            status="WAITING",
            touched=False,
            tries=(),
            upstream=(("COMPLETED", ago(900)),),
            due=ago(900),
        ),
        (),
    ),
    "a part of its objects is there": (
        row(
            status="PROCESSING",
            due=ago(1890),
            tries=(attempt(status="PROCESSING", processing_since=ago(1900)),),
        ),
        (POD_GROUP, COMPUTE_DOMAIN),
    ),
}


@pytest.mark.parametrize(("group", "things"), LATE.values(), ids=LATE.keys())
def test_a_group_that_waits_for_its_turn_is_late_and_not_lost(group, things):
    given = facts(group, things, workers=BUSY)
    assert rules(given) == []
    assert len(waiting(given, Tolerances())) == 1
    quiet = replace(given, workers=replace(BUSY, due=1))
    assert rules(quiet) != []
    assert waiting(quiet, Tolerances()) == []


WORKERS = {
    "nobody sweeps": replace(BUSY, swept_at=ago(60)),
    "there was no sweep ever": replace(BUSY, swept_at=None),
    "the workers would have come to it": replace(BUSY, due=100),
}


@pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS.keys())
def test_a_due_group_is_lost_where_no_worker_will_come(workers):
    assert rules(facts(row(due=ago(500)), workers=workers)) == [("lost", "due")]


def test_what_a_group_has_not_done_before_it_waited_is_found():
    never_released = ended(ended_at=ago(5000), due=ago(1))
    assert rules(facts(never_released, WHOLE, workers=BUSY)) == [("stuck", "not-released")]


def test_one_lost_group_is_found_among_thousands_that_wait():
    groups = {
        UUID(int=number): row(uuid=UUID(int=number), due=ago(400), tries=()) for number in range(1, 2000)
    }
    groups[GROUP] = row(due=ago(4000))
    given = facts(groups=groups, workers=replace(BUSY, due=2000))
    assert [finding.group_uuid for finding in compare(given, Tolerances())] == [GROUP]
    assert len(waiting(given, Tolerances())) == 1998


@pytest.mark.parametrize(
    ("steps", "want"),
    [
        (["PROCESSING", "SCHEDULING", "RUNNING", "COMPLETED"], True),
        (["RUNNING", "SCHEDULING"], False),
        (["COMPLETED", "FAILED"], False),
        (["FAILED", "RUNNING"], False),
        (["SUBMITTING", "FAILED_CANCELED"], True),
    ],
)
def test_steps_go_forwards_or_not(steps, want):
    assert forwards(steps) is want


@pytest.mark.parametrize(("group", "want"), [(UUID(int=9), "sweep"), (None, "")])
def test_the_sweep_is_promised_only_for_what_it_deletes(group, want):
    stray = thing("Secret", "stray", group=group, created=ago(3600))
    found = [
        finding
        for finding in compare(facts(things=(*WHOLE, stray)), Tolerances())
        if "stray" in finding.object
    ]
    assert [finding.repair for finding in found] == [want]
