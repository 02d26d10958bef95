"""A preference that waits: held as required, relaxed when its time is over, and never tightened again."""

import pytest
from django.db.models import Q

from cluster.errors import ClusterUnreachable, WriteConflict
from cluster.kinds import POD
from pools.models import Cluster
from tests.builders.crashes import Killed, death_at, expire_leases
from tests.builders.gangs import preferred, required, retried, topology_gang
from tests.builders.losses import evict
from tests.builders.patience import later
from tests.builders.pod_groups import bind, patches, pod_group
from tests.factories import RACK, ZONE
from tests.fakes.kinds import KAI_BIND_REQUEST, KAI_POD_GROUP
from tests.worker.world import World, fresh, statuses
from workflows.models import Event
from workflows.services.stop import request_stop

AGAIN = retried("1-3,3000-3010")
STAGE = "osmo.nvidia.com/stage"


def picky(cluster):
    """A scheduler in whose cluster nothing that is required can be given."""
    for group in cluster.all(KAI_POD_GROUP):
        if "requiredTopologyLevel" not in str(group["spec"]):
            bind(cluster, group["metadata"]["name"])


@pytest.fixture
def world(db):
    world = World(scheduled=False)
    world.cluster.players.insert(0, picky)
    return world


def holds(world):
    """The labels that the pod group requires, broadest first, and the stage it is marked with."""
    found = pod_group(world)
    nodes = [found["spec"], *found["spec"].get("subGroups", ())]
    required = [node.get("topologyConstraint", {}).get("requiredTopologyLevel") for node in nodes]
    return [label for label in required if label], found["metadata"].get("annotations", {}).get(STAGE)


def relaxed(group):
    """The relaxed flag of each constraint in the row, by key."""
    return {line["key"]: line["relaxed"] for line in fresh(group).constraints if "relaxed" in line}


def said(group):
    wanted = ("PatienceBegan", "Relaxed", "RelaxationLeftOut")
    rows = Event.objects.filter(group=group, reason__in=wanted).order_by("id")
    return list(rows.values_list("reason", flat=True))


def test_a_preference_is_required_until_its_time_is_over_and_then_relaxed(world):
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    assert holds(world) == ([RACK.label], None)
    assert fresh(group).unplaced_since is not None
    assert statuses(group) == ["SCHEDULING", "SCHEDULING"]
    assert (said(group), relaxed(group)) == (["PatienceBegan"], {"rack": False})
    pods = world.cluster.all(POD)
    later(40)
    world.settle()
    assert holds(world) == ([], "1")
    assert (fresh(group).form["stage"], relaxed(group)) == (1, {"rack": True})
    assert statuses(group) == ["RUNNING", "RUNNING"]
    assert said(group) == ["PatienceBegan", "Relaxed"]
    assert [p["metadata"]["labels"] for p in world.cluster.all(POD)] == [
        p["metadata"]["labels"] for p in pods
    ]
    assert fresh(group).unplaced_since is None
    (event,) = Event.objects.filter(group=group, reason="Relaxed")
    assert 'rack "default" (required for 40 seconds)' in event.message


def test_a_group_is_reconciled_again_when_its_next_stage_begins(world):
    group = topology_gang(world, preferred("rack", wait=7.0))
    world.settle()
    assert world.reconcile(group).seconds <= 7.0


def test_each_wait_has_its_own_time(world):
    group = topology_gang(world, preferred("zone", wait=60.0), preferred("rack", wait=20.0))
    world.settle()
    assert holds(world) == ([RACK.label], None)
    later(20)
    world.settle()
    assert holds(world) == ([ZONE.label], "1")
    assert relaxed(group) == {"zone": False, "rack": True}
    later(40)
    world.settle()
    assert holds(world) == ([], "2")
    assert statuses(group) == ["RUNNING", "RUNNING"]


def test_waits_that_are_over_while_no_worker_ran_are_relaxed_at_once(world):
    group = topology_gang(world, preferred("zone", wait=60.0), preferred("rack", wait=20.0))
    world.settle()
    later(100)
    before = patches(world)
    world.settle()
    assert (fresh(group).form["stage"], holds(world), patches(world)) == (2, ([], "2"), before + 1)


@pytest.mark.parametrize("applied", [False, True], ids=["before the edit arrived", "after it was done"])
@pytest.mark.parametrize(
    "error", [Killed(), ClusterUnreachable("the reply was lost", maybe_applied=True)], ids=repr
)
def test_a_decision_whose_worker_dies_is_carried_out_by_the_next_reconcile(world, error, applied):
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    later(40)
    world.cluster.players.remove(picky)
    world.cluster.fail(error, verb="patch", applied=applied)
    try:
        world.step()
    except Killed:
        expire_leases()
    assert (fresh(group).form["stage"], relaxed(group)) == (1, {"rack": True})
    world.settle()
    assert holds(world) == ([], "1")
    assert said(group) == ["PatienceBegan", "Relaxed"]
    assert patches(world) == (1 if applied else 2)


def test_a_worker_that_dies_between_decision_and_edit_is_taken_over_from(world):
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    later(40)
    with death_at("after-relax-decision"):
        world.step()
    assert (fresh(group).form["stage"], holds(world), patches(world)) == (1, ([RACK.label], None), 0)
    world.settle()
    assert (holds(world), patches(world)) == (([], "1"), 1)
    assert said(group) == ["PatienceBegan", "Relaxed"]
    assert statuses(group) == ["RUNNING", "RUNNING"]


def test_an_edit_that_meets_another_ones_edit_is_made_again(world):
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    later(40)
    world.cluster.fail(WriteConflict("the object has been modified", status=409), verb="patch")
    world.settle()
    assert holds(world) == ([], "1")
    assert statuses(group) == ["RUNNING", "RUNNING"]


def test_a_gang_that_got_a_node_just_before_is_not_edited_and_the_event_says_so(world):
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    later(40)
    bind(world.cluster, group.uuid.hex, first=1)  # nobody has observed it
    world.reconcile(group)
    assert holds(world) == ([RACK.label], None)
    assert said(group) == ["PatienceBegan", "Relaxed", "RelaxationLeftOut"]
    assert (fresh(group).form["stage"], relaxed(group)) == (1, {"rack": False})
    bind(world.cluster, group.uuid.hex)
    world.settle()
    assert statuses(group) == ["RUNNING", "RUNNING"]
    assert (holds(world), patches(world)) == (([RACK.label], None), 0)
    assert said(group) == ["PatienceBegan", "Relaxed", "RelaxationLeftOut"]


def test_a_gang_whose_binder_was_given_a_node_is_not_edited(db):
    world = World(scheduled=False, further=(KAI_BIND_REQUEST,))
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    later(40)
    pod = group.tasks.first().pod_name
    request = {
        "apiVersion": KAI_BIND_REQUEST.api_version,
        "kind": "BindRequest",
        "metadata": {"name": pod, "namespace": "osmo"},
        "spec": {"podName": pod, "selectedNode": "node-0", "backoffLimit": 2},
    }
    world.cluster.create(KAI_BIND_REQUEST, request)
    world.reconcile(group)
    assert holds(world) == ([RACK.label], None)
    assert said(group) == ["PatienceBegan", "Relaxed", "RelaxationLeftOut"]


def test_a_binder_that_has_given_up_holds_nothing_up(db):
    world = World(scheduled=False, further=(KAI_BIND_REQUEST,))
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    later(40)
    pod = group.tasks.first().pod_name
    request = {
        "apiVersion": KAI_BIND_REQUEST.api_version,
        "kind": "BindRequest",
        "metadata": {"name": pod, "namespace": "osmo"},
        "spec": {"podName": pod, "selectedNode": "node-0", "backoffLimit": 2},
        "status": {"phase": "Failed", "failedAttempts": 2},
    }
    world.cluster.create(KAI_BIND_REQUEST, request)
    world.reconcile(group)
    assert holds(world) == ([], "1")


@pytest.mark.parametrize("pod_group_too", [False, True])
def test_a_gang_made_anew_after_an_eviction_starts_relaxed(world, pod_group_too):
    group = topology_gang(world, preferred("rack", wait=40.0), frozen=AGAIN)
    world.settle()
    later(40)
    bind(world.cluster, group.uuid.hex, first=1)
    world.reconcile(group)
    bind(world.cluster, group.uuid.hex)
    world.settle()
    assert holds(world) == ([RACK.label], None)
    evict(world, group)
    if pod_group_too:
        world.cluster.remove(KAI_POD_GROUP, group.uuid.hex, namespace="osmo")
    world.settle()
    assert holds(world) == ([], "1")
    assert (fresh(group).form["stage"], relaxed(group)) == (1, {"rack": True})
    assert statuses(group) == ["RUNNING", "RUNNING"]
    assert said(group) == ["PatienceBegan", "Relaxed", "RelaxationLeftOut", "Relaxed"]


def test_the_clock_begins_anew_with_the_gang(world):
    group = topology_gang(world, preferred("rack", wait=40.0), frozen=AGAIN)
    world.settle()
    later(30)
    bind(world.cluster, group.uuid.hex)
    world.settle()
    assert fresh(group).unplaced_since is None
    evict(world, group)
    world.settle()
    later(30)
    world.settle()
    assert (fresh(group).form["stage"], said(group)) == (0, ["PatienceBegan", "PatienceBegan"])
    later(10)
    world.settle()
    assert (fresh(group).form["stage"], statuses(group)) == (1, ["RUNNING", "RUNNING"])


SETS = [[preferred("rack", wait=40.0, group=name)] for name in ("left", "left", "right", "right")]


def minimums(world):
    return sorted(n["minMember"] for n in pod_group(world)["spec"]["subGroups"] if "minMember" in n)


def test_a_gang_that_is_resized_stays_as_relaxed_as_it_is(world):
    group = topology_gang(world, sets=SETS, ignore_nonlead_status=False)
    world.settle()
    assert (holds(world), minimums(world)) == (([RACK.label, RACK.label], None), [2, 2])
    later(40)
    world.settle()
    world.finish(group, 0, tasks=["task-3"])
    world.settle()
    assert (holds(world), minimums(world)) == (([], "1"), [1, 2])


def test_a_gang_that_was_not_edited_in_time_is_resized_without_relaxing_it(world):
    group = topology_gang(world, sets=SETS, ignore_nonlead_status=False)
    world.settle()
    later(40)
    bind(world.cluster, group.uuid.hex)
    world.reconcile(group)
    world.settle()
    assert (fresh(group).form["stage"], minimums(world)) == (1, [2, 2])
    world.finish(group, 0, tasks=["task-3"])
    world.settle()
    assert (holds(world), minimums(world)) == (([RACK.label, RACK.label], None), [1, 2])


def test_no_clock_begins_while_the_cluster_does_not_answer(world):
    group = topology_gang(world, preferred("rack", wait=40.0))
    backend = group.backend
    backend.conditions = [{**backend.conditions[0], "status": "False"}]
    backend.save()
    world.settle()
    assert statuses(group) == ["SCHEDULING", "SCHEDULING"]
    assert fresh(group).unplaced_since is None
    backend.conditions = [{**backend.conditions[0], "status": "True"}]
    backend.save()
    world.settle()
    assert fresh(group).unplaced_since is not None


def test_time_without_an_answer_counts_and_is_acted_on_once_there_is_one(world):
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    backend = group.backend
    backend.conditions = [{**backend.conditions[0], "status": "False"}]
    backend.save()
    later(40)
    with world.cluster.unreachable():
        world.reconcile(group)
    assert (fresh(group).form["stage"], holds(world)) == (0, ([RACK.label], None))
    backend.conditions = [{**backend.conditions[0], "status": "True"}]
    backend.save()
    world.settle()
    assert (fresh(group).form["stage"], holds(world)) == (1, ([], "1"))


def test_a_group_is_relaxed_without_an_observer_too(world):
    group = topology_gang(world, preferred("rack", wait=40.0))
    Cluster.objects.update(heartbeat_at=None)
    world.reconcile(group)
    later(40)
    world.reconcile(group)
    assert (fresh(group).form["stage"], holds(world)) == (1, ([], "1"))


def test_a_group_without_patience_is_never_edited(world):
    group = topology_gang(world, required("rack"))
    world.settle()
    assert (fresh(group).unplaced_since, said(group), patches(world)) == (None, [], 0)


def test_a_group_that_ends_has_no_clock(world):
    group = topology_gang(world, preferred("rack", wait=40.0))
    world.settle()
    request_stop(Q(pk=group.pk), status="FAILED_CANCELED", message="", force=False)
    world.settle()
    assert fresh(group).unplaced_since is None
    assert world.cluster.kinds() == {"Topology"}
