"""A scheduler to which a domain is one label value: what is held back, and where a retry goes."""

import pytest

from cluster.kinds import NODE, POD
from pools.values.completeness import NODES
from scheduling.topology.requirements import Requirement
from tests.builders.completeness import note_lists
from tests.builders.gangs import NATIVE, retried
from tests.factories import LEVELS, TaskFactory
from tests.fakes.kinds import POD_GROUP
from tests.worker.world import fresh

RETRY = retried("2")
ZONE, RACK = LEVELS[0].label, LEVELS[1].label


def node(world, name, zone, rack):
    world.cluster.put(NODE, {"metadata": {"name": name, "labels": {ZONE: zone, RACK: rack}}})


def rack(group, *above):
    return (*above, Requirement("rack", group, required=True))


def a_group(world, *tasks, **frozen):
    """A group on Kubernetes' own scheduler; ``tasks`` are what each task asks for. None leads."""
    pool = world.pool(backend=NATIVE, levels=LEVELS)
    group = world.group(pods=0, pool=pool, frozen=frozen | RETRY, ignore_nonlead_status=False)
    for asked in tasks:
        TaskFactory(group=group, placement__requirements=asked)
    return group


def selector_of(world, group, name):
    pod = group.tasks.get(name=name, latest=True).pod_name
    obj = world.cluster.get(POD, pod, namespace="osmo")
    return obj["spec"].get("nodeSelector", {})


def pod_groups(world):
    found = [obj for obj in world.cluster.objects.values() if obj["kind"] == "PodGroup"]
    return {g["metadata"]["name"][33:]: g["spec"]["schedulingPolicy"]["gang"]["minCount"] for g in found}


def test_a_retry_in_a_new_pod_group_is_kept_in_its_peers_domain(world):
    node(world, "n1", "a", "r1")
    group = a_group(world, rack("r"), rack("r"), rack("r"))
    world.settle()
    assert pod_groups(world) == {"0": 3}
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    assert pod_groups(world) == {"0": 3, "1": 1}
    assert selector_of(world, group, "task-1") == {ZONE: "a", RACK: "r1"}
    assert selector_of(world, group, "task-2") == {}
    assert group.tasks.get(name="task-1", latest=True).status == "RUNNING"


def test_a_retry_that_joins_its_old_pod_group_needs_no_pin(world):
    node(world, "n1", "a", "r1")
    group = a_group(world, rack("r"), rack("r"))
    world.settle()
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    assert pod_groups(world) == {"0": 2}
    assert selector_of(world, group, "task-1") == {}


def test_a_retry_without_a_peer_that_runs_is_free_to_go_anywhere(world):
    node(world, "n1", "a", "r1")
    group = a_group(world, rack("r"), rack("r"))
    world.settle()
    world.finish(group, 0, tasks=["task-0"])
    world.settle()
    world.finish(group, 2, tasks=["task-1"])
    world.settle()
    assert pod_groups(world) == {"0": 2, "1": 1}
    assert selector_of(world, group, "task-1") == {}


@pytest.mark.parametrize("observed", [True, False])
def test_a_gang_accepted_without_nodes_is_not_made_while_racks_cannot_be_told_apart(world, observed):
    node(world, "n1", "a", "r1")
    node(world, "n2", "b", "r1")
    group = a_group(world, rack("r"), rack("r"))
    if not observed:
        note_lists({NODES: None})
        world.reconcile(group)
    else:
        world.settle()
    assert world.cluster.names(POD) == []
    assert pod_groups(world) == {}
    reason = fresh(group).waiting_reason
    assert "topology.path_domains" in reason
    assert '"r1"' in reason
    node(world, "n2", "b", "r2")
    world.settle()
    assert fresh(group).status == "RUNNING"


def test_the_broadest_key_is_never_held_back(world):
    node(world, "n1", "a", "r1")
    node(world, "n2", "b", "r1")
    group = a_group(world, (Requirement("zone", "z", required=True),))
    world.settle()
    assert fresh(group).status == "RUNNING"


def test_a_cluster_without_its_api_is_told_in_one_line_and_left_alone(world):
    world.cluster.unserved.add(POD_GROUP)
    node(world, "n1", "a", "r1")
    group = a_group(world, rack("r"), rack("r"))
    outcome = world.reconcile(group)
    assert outcome.slow
    assert "does not serve scheduling.k8s.io/v1beta1" in fresh(group).waiting_reason
    assert "GenericWorkload" in fresh(group).waiting_reason
    assert world.cluster.names(POD) == []
    world.cluster.unserved.clear()
    world.settle()
    assert fresh(group).status == "RUNNING"
