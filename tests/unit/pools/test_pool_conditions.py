"""What is said of a pool's topology, from labels and Topology objects as values."""

from dataclasses import replace

import pytest

from pools.conditions.topology import (
    DRIFT,
    INCOMPLETE,
    QUEUE,
    SHARED,
    EvaluatedPool,
    TopologyObject,
    evaluate,
)
from scheduling.queues.joined_queues import JoinedQueue, NodeFlavor, QueueFault
from scheduling.topology.levels import Level

ZONE, RACK = Level("zone", "z"), Level("rack", "r")
LEVELS = (ZONE, RACK)


def topologies(*found):
    return tuple(
        TopologyObject(name=f"t{rank}", levels=LEVELS[: rank + 1], labels=labels)
        for rank, labels in enumerate(found)
    )


POOL = EvaluatedPool(
    name="east",
    scheduler="kai-scheduler",
    node_selector={},
    levels=LEVELS,
    paths=True,
    external=False,
    topologies=topologies(["z"], ["z", "r"]),
)
NODES = {"n1": {"z": "a", "r": "1"}, "n2": {"z": "a", "r": "2"}}


def said(kind, *pools, nodes=NODES):
    found = evaluate(pools, nodes)[pools[0].name]
    return next((condition for condition in found if condition.type == kind), None)


DRIFTS = {
    "as they should be": (POOL, "False", "InSync", ""),
    "one lists less": (
        replace(POOL, topologies=topologies(["z"], ["z"])),
        "True",
        "Drift",
        "Topology t1 lists z where z, r is expected. It is managed",
    ),
    "one is not there": (
        replace(POOL, topologies=topologies(["z"], None)),
        "Unknown",
        "TopologyNotFound",
        "Topology t1 is not in the cluster. It is managed: the service creates it again.",
    ),
    "a wrong one is worse than a missing one": (
        replace(POOL, topologies=topologies(None, ["r", "z"])),
        "True",
        "Drift",
        "Topology t1 lists r, z where z, r is expected.",
    ),
    "somebody else's": (
        replace(POOL, external=True, topologies=topologies(["r"])),
        "True",
        "Drift",
        "never writes it: correct it there, or set the pool's keys",
    ),
    "never listed": (replace(POOL, topologies=None), "Unknown", "NotObserved", "have not been listed yet"),
}


@pytest.mark.parametrize("phrase", DRIFTS)
def test_topology_objects_are_compared_level_by_level(phrase):
    pool, status, reason, message = DRIFTS[phrase]
    found = said(DRIFT, pool)
    assert (found.status, found.reason) == (status, reason)
    assert message in found.message


def test_without_keys_or_without_topology_objects_nothing_can_drift():
    assert said(DRIFT, replace(POOL, levels=(), topologies=())) is None
    assert said(DRIFT, replace(POOL, topologies=())) is None
    assert said(INCOMPLETE, replace(POOL, levels=())) is None


def test_nodes_that_lack_a_label_are_counted_and_named_for_each_level():
    nodes = NODES | {f"x{i}": {"z": "a"} for i in range(5)} | {"bare": {}}
    found = said(INCOMPLETE, POOL, nodes=nodes)
    assert (found.status, found.reason) == ("True", "NodesLackLabels")
    assert '1 of the pool\'s 8 nodes lacks label z of key "zone", so no requirement on it sees it: bare.' in (
        found.message
    )
    assert "6 of the pool's 8 nodes lack label r" in found.message
    assert "bare, x0, x1 and 3 more." in found.message


@pytest.mark.parametrize(
    ("paths", "meaning"), [(True, "count as different domains"), (False, "cannot tell them apart")]
)
def test_a_value_under_two_parents_is_told_with_what_the_scheduler_makes_of_it(paths, meaning):
    nodes = {"n1": {"z": "a", "r": "1"}, "n2": {"z": "b", "r": "1"}}
    found = said(INCOMPLETE, replace(POOL, paths=paths), nodes=nodes)
    assert (found.status, found.reason) == ("True", "ValuesUnderTwoParents")
    assert 'rack "1" stands under zone a and b' in found.message
    assert meaning in found.message


def test_complete_labels_are_said_to_be_so():
    assert said(INCOMPLETE, POOL).status == "False"


def test_nothing_is_known_of_the_labels_of_a_pool_without_nodes():
    condition = said(INCOMPLETE, replace(POOL, node_selector={"pool": "eats"}))
    assert (condition.status, condition.reason) == ("Unknown", "NoNodes")


def test_only_the_pools_own_nodes_count():
    assert (
        said(INCOMPLETE, replace(POOL, node_selector={"z": "a"}), nodes=NODES | {"n3": {}}).status == "False"
    )


OTHER = replace(POOL, name="west", scheduler="default-scheduler", node_selector={"r": "2"})


def test_nodes_of_two_schedulers_are_told_to_both_pools():
    found = said(SHARED, POOL, OTHER)
    assert (found.status, found.reason) == ("True", "SeveralSchedulers")
    assert 'also of "west" (scheduler default-scheduler)' in found.message
    assert ": n2. Give" in found.message
    assert '"east" (scheduler kai-scheduler)' in said(SHARED, OTHER, POOL).message


def test_pools_of_one_scheduler_may_overlap():
    assert said(SHARED, POOL, replace(OTHER, scheduler="kai-scheduler")).status == "False"


def test_pools_of_two_schedulers_that_exclude_each_other_share_nothing():
    assert said(SHARED, replace(POOL, node_selector={"r": "1"}), OTHER).status == "False"


def test_a_message_stays_short_however_many_nodes_there_are():
    nodes = {f"n{i:05}": {"r": "2"} for i in range(5000)}
    for pool in (POOL, OTHER):
        for condition in evaluate([POOL, OTHER], nodes)[pool.name]:
            assert len(condition.message) < 600


HOST = Level("host", "h")
FLOOR = NodeFlavor("floor", {"z": "a"}, "t1")
JOINS = replace(
    POOL,
    external=True,
    joins=True,
    hides_unlabelled=True,
    queue=JoinedQueue(name="team", flavors=(FLOOR,)),
    topologies=(TopologyObject(name="t1", levels=(*LEVELS, HOST), labels=["z", "r", "h"]),),
)


def listing(*labels):
    return (TopologyObject(name="t1", levels=(*LEVELS, HOST), labels=labels),)


QUEUES = {
    "it admits": (JOINS, "True", "Ready", ""),
    "never listed": (
        replace(JOINS, queue=None, topologies=None),
        "Unknown",
        "NotObserved",
        "not been listed",
    ),
    "it is gone": (
        replace(
            JOINS, queue=JoinedQueue(name="team", faults=(QueueFault("Gone", "It is gone."),)), topologies=()
        ),
        "False",
        "Gone",
        "It is gone.",
    ),
    "without the host": (
        replace(JOINS, topologies=listing("z", "r")),
        "False",
        "NoHostLevel",
        "Topology t1 does not end with h, so its scheduler names no nodes",
    ),
    "without the host where the pool has no keys": (
        replace(JOINS, levels=(), topologies=(TopologyObject(name="t1", levels=(HOST,), labels=["z", "r"]),)),
        "False",
        "NoHostLevel",
        "does not end with h",
    ),
    "resources of a task in several flavors": (
        replace(JOINS, queue=replace(JOINS.queue, partial_faults=(QueueFault("Apart", "They are apart."),))),
        "False",
        "Apart",
        "They are apart.",
    ),
    "nodes of another flavor, too": (
        replace(
            JOINS, counts_by_flavor=True, queue=replace(JOINS.queue, others=(replace(FLOOR, name="attic"),))
        ),
        "False",
        "FlavorsOverlap",
        "2 nodes of the pool are also of flavor attic.",
    ),
    "nodes of two flavors of its queue": (
        replace(
            JOINS,
            counts_by_flavor=True,
            queue=replace(JOINS.queue, flavors=(FLOOR, replace(FLOOR, name="attic", node_labels={"r": "1"}))),
        ),
        "False",
        "FlavorsOverlap",
        "1 node of the pool is also of flavor attic.",
    ),
    "nodes of another flavor, of which use counts across flavors": (
        replace(JOINS, queue=replace(JOINS.queue, others=(replace(FLOOR, name="attic"),))),
        "True",
        "Ready",
        "",
    ),
    "nodes of another flavor that has none of them": (
        replace(
            JOINS,
            counts_by_flavor=True,
            queue=replace(JOINS.queue, others=(replace(FLOOR, name="attic", node_labels={"r": "9"}),)),
        ),
        "True",
        "Ready",
        "",
    ),
    "nodes of no flavor": (
        replace(JOINS, queue=JoinedQueue(name="team", flavors=(replace(FLOOR, node_labels={"r": "1"}),))),
        "False",
        "NodesOutsideFlavors",
        "1 of the pool's 2 nodes is of none of its queue's flavors (floor), so no group gets it: n2.",
    ),
}


@pytest.mark.parametrize("phrase", QUEUES)
def test_the_queue_that_a_pool_joins_is_judged(phrase):
    pool, status, reason, message = QUEUES[phrase]
    found = said(QUEUE, pool)
    assert (found.status, found.reason) == (status, reason)
    assert message in found.message


def test_a_pool_that_joins_no_queue_has_no_such_condition():
    assert said(QUEUE, POOL) is None


def test_the_topology_of_a_queue_drifts_as_an_external_one():
    found = said(DRIFT, replace(JOINS, topologies=listing("z", "h")))
    assert (found.status, found.reason) == ("True", "Drift")
    assert "Topology t1 lists z, h where z, r, h is expected. The service never writes it" in found.message


def test_nodes_that_lack_a_label_are_invisible_where_the_scheduler_reads_all_of_them():
    found = said(INCOMPLETE, JOINS, nodes=NODES | {"bare": {"z": "a"}})
    assert 'lacks label r of key "rack", so its scheduler does not see it: bare.' in found.message
