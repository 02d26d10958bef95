"""The stand-in for Kueue behaves as running Kueue was seen to."""

import dataclasses

import pytest

from localcluster.standins.affinity import Match
from localcluster.standins.kueue import guards, reader
from localcluster.standins.kueue.encoding import decode, encode
from localcluster.standins.kueue.values import (
    HOSTNAME,
    Assignment,
    ClusterQueue,
    Condition,
    Flavor,
    FlavorQuota,
    Guard,
    LocalQueue,
    Pod,
    Topology,
)
from localcluster.standins.quantities import UNIT, shortest
from tests.standins.kueue_worlds import (
    CLUSTER,
    GPU,
    NOW,
    RACK,
    ZONE,
    after,
    edit,
    message,
    named,
    nodes,
    places,
    pod_set,
    racks,
    workload,
    world,
)

EVICTED_AT = "2026-01-03T00:00:00Z"


def test_a_workload_without_pods_is_admitted_and_names_its_nodes():
    admitted = after(world(workload("w", pod_set(2, required=RACK))))

    assert named(admitted, "w").holds("QuotaReserved")
    assert named(admitted, "w").holds("Admitted")
    assert places(admitted, "w") == {"main": {"a1-0": 1, "a1-1": 1}}


def test_without_hosts_as_the_last_level_no_node_is_named():
    topology = Topology("topology", (ZONE, RACK))
    admitted = after(world(workload("w", pod_set(4, required=RACK)), topologies=(topology,)))

    (assigned,) = named(admitted, "w").admission.pod_sets
    assert assigned.assignment == Assignment((ZONE, RACK), ((("a", "a1"), 4),))


ENCODED = {
    "one node": ([("n1", 2)], {"universal": 2}, {"universal": "n1"}),
    "equal counts": ([("a1-0", 1), ("a1-1", 1)], {"universal": 1}, {"prefix": "a1-", "roots": ["0", "1"]}),
    "own counts": ([("x", 1), ("y", 2)], {"individual": [1, 2]}, {"roots": ["x", "y"]}),
    "a common end": (
        [("a.dc", 1), ("b.dc", 1)],
        {"universal": 1},
        {"suffix": ".dc", "roots": ["a", "b"]},
    ),
}


@pytest.mark.parametrize(("domains", "counts", "values"), ENCODED.values(), ids=ENCODED)
def test_an_assignment_is_written_by_level(domains, counts, values):
    assignment = Assignment((HOSTNAME,), tuple(((name,), pods) for name, pods in domains))

    body = encode(assignment)

    want = values if "universal" in values else {"individual": values}
    assert body == {
        "levels": [HOSTNAME],
        "slices": [{"domainCount": len(domains), "podCounts": counts, "valuesPerLevel": [want]}],
    }
    assert decode(body) == assignment


def test_five_pods_that_fill_nodes_do_not_fit_a_rack_of_four():
    waiting = after(world(workload("w", pod_set(5, required=RACK))))

    assert places(waiting, "w") == {}
    assert 'topology "topology" allows to fit only 4 out of 5 pod(s)' in message(waiting, "w")


@pytest.mark.parametrize("sets", [1, 2, 3])
def test_each_set_with_a_required_rack_gets_one_of_its_own(sets):
    pod_sets = [pod_set(4, f"s{number}", required=RACK) for number in range(sets)]
    placed = places(after(world(workload("w", *pod_sets))), "w")

    assert [len(racks(each)) for each in placed.values()] == [1] * sets
    assert len({rack for each in placed.values() for rack in racks(each)}) == sets


def test_a_workload_is_admitted_whole_or_not_at_all():
    pod_sets = [pod_set(4, f"s{number}", required=RACK) for number in range(4)]

    assert places(after(world(workload("w", *pod_sets))), "w") == {}


def test_slices_of_a_rack_stand_together_in_the_required_zone():
    request = {"required": ZONE, "slice_level": RACK, "slice_size": 4}
    placed = places(after(world(workload("w", pod_set(8, **request)))), "w")["main"]

    assert list(placed) == [f"{rack}-{number}" for rack in ("a1", "a2") for number in range(4)]


@pytest.mark.parametrize(("count", "want"), [(8, {"a1", "a2"}), (12, {"a1", "a2", "b1"})])
def test_a_preferred_zone_of_slices_is_left_when_it_is_too_small(count, want):
    request = {"preferred": ZONE, "slice_level": RACK, "slice_size": 4}

    assert racks(places(after(world(workload("w", pod_set(count, **request)))), "w")["main"]) == want


def test_the_second_pod_set_of_a_group_is_a_leader_of_one_pod():
    pod_sets = (
        pod_set(4, "x", gpus=1, required=RACK, group="g"),
        pod_set(4, "y", gpus=1, required=RACK, group="g"),
    )
    placed = places(after(world(workload("w", *pod_sets))), "w")

    assert sum(placed["x"].values()) == 4
    assert list(placed["y"].values()) == [1]


def test_a_preferred_rack_goes_up_one_level_before_it_spreads():
    placed = places(after(world(workload("w", pod_set(6, preferred=RACK)))), "w")["main"]

    assert racks(placed) == {"a1", "a2"}
    assert sum(placed.values()) == 6


def test_a_preference_spreads_at_last():
    placed = places(after(world(workload("w", pod_set(12, preferred=RACK)))), "w")["main"]

    assert racks(placed) == {"a1", "a2", "b1"}


@pytest.mark.parametrize("free", [{}, {"unconstrained": True}], ids=["no request", "unconstrained"])
def test_pods_without_requirement_get_nodes_beside_a_set(free):
    placed = places(after(world(workload("w", pod_set(4, "s", required=RACK), pod_set(2, "f", **free)))), "w")

    assert sum(placed["f"].values()) == 2
    assert not placed["f"].keys() & placed["s"].keys()


def test_nodes_that_a_template_excludes_by_affinity_get_no_pod():
    terms = ((Match(HOSTNAME, "NotIn", ("a1-0", "a2-0")),),)
    asked = dataclasses.replace(pod_set(4, required=RACK), affinity=terms)
    placed = places(after(world(workload("w", asked))), "w")["main"]

    assert racks(placed) == {"b1"}


def test_nodes_without_a_level_are_not_seen_by_unconstrained_pods_either():
    picture = f"{CLUSTER}\n    a/-: u0 u1 u2 u3"

    assert places(after(world(workload("w", pod_set(14, unconstrained=True)), picture=picture)), "w") == {}
    assert places(after(world(workload("w", pod_set(12, unconstrained=True)), picture=picture)), "w")


def test_a_level_that_the_topology_lacks_leaves_no_more_than_no_reservation():
    waiting = after(world(workload("w", pod_set(1, required="topo/spine"))))

    (condition,) = named(waiting, "w").conditions
    assert (condition.type, condition.status, condition.reason) == ("Admitted", False, "NoReservation")


def test_a_pod_set_whose_requests_are_of_two_flavors_is_not_admitted():
    """By Kueue's source, where ``onlyFlavor`` refuses it; not seen running."""
    groups = (
        ((GPU,), (FlavorQuota("flavor", ((GPU, 8 * UNIT),)),)),
        (("cpu",), (FlavorQuota("basic", (("cpu", 8 * UNIT),)),)),
    )
    both = Flavor("flavor", {"pool": "p"}, topology="topology"), Flavor("basic", {}, topology="topology")
    request = dataclasses.replace(pod_set(1, required=RACK), requests={GPU: UNIT, "cpu": UNIT})
    waiting = after(world(workload("w", request), cluster_queues=(ClusterQueue("cq", groups),), flavors=both))
    assert places(waiting, "w") == {}
    assert message(waiting, "w").endswith("more than one flavor assigned: basic, flavor")


@pytest.mark.parametrize(("annotated", "want"), [(True, ["n1"]), (False, ["n2"])])
def test_a_pod_without_the_annotation_counts_beside_its_workload(annotated, want):
    picture = "a/r: n1 n2"
    first = after(world(workload("w1", pod_set(1, gpus=2, required=HOSTNAME)), picture=picture))
    assert places(first, "w1") == {"main": {"n1": 1}}

    pods = (Pod("n1", {GPU: 2 * UNIT}, topology_aware=annotated),)
    second = workload("w2", pod_set(1, gpus=2, required=HOSTNAME), created="2026-01-02T00:00:00Z")
    both = after(dataclasses.replace(first, pods=pods, workloads=(*first.workloads, second)))

    assert list(places(both, "w2")["main"]) == want


def preempted():
    low = workload("low", pod_set(12, unconstrained=True))
    running = after(world(low, within="LowerPriority"))
    high = workload("high", pod_set(4, required=RACK), priority=10)
    return after(dataclasses.replace(running, workloads=(*running.workloads, high)))


def test_preemption_asks_and_waits():
    waiting = preempted()

    condition = named(waiting, "low").condition("Evicted")
    assert (condition.status, condition.reason) == (True, "Preempted")
    assert named(waiting, "low").holds("QuotaReserved")
    assert places(waiting, "high") == {}
    assert places(after(waiting), "high") == {}, "the pods are still there"


def test_returned_quota_goes_to_the_preemptor_and_the_other_queues_again():
    given_back = (
        named(preempted(), "low").condition("Evicted"),
        Condition("QuotaReserved", False, "Pending", "given back"),
        Condition("Admitted", False, "NoReservation", "given back"),
    )
    admitted = after(edit(preempted(), "low", admission=None, conditions=given_back))
    assert racks(places(admitted, "high")["main"]) == {"a1"}
    assert places(admitted, "low") == {}

    gone = dataclasses.replace(admitted, workloads=(named(admitted, "low"),))
    again = after(gone)
    assert sum(places(again, "low")["main"].values()) == 12
    assert named(again, "low").condition("Evicted").status is False


def test_equal_priority_is_not_preempted():
    running = after(world(workload("first", pod_set(12, unconstrained=True)), within="LowerPriority"))
    second = workload("second", pod_set(4, required=RACK), created="2026-01-02T00:00:00Z")
    waiting = after(dataclasses.replace(running, workloads=(*running.workloads, second)))

    assert named(waiting, "first").condition("Evicted") is None


@pytest.mark.parametrize("how", ["finished", "deleted"])
def test_a_workload_that_ends_frees_its_nodes(how):
    first, second = workload("w1", pod_set(12)), workload("w2", pod_set(12), created="2026-01-02T00:00:00Z")
    waiting = after(world(first, second))
    assert places(waiting, "w2") == {}

    if how == "finished":
        finished = Condition("Finished", True, "Succeeded", "done")
        conditions = (*named(waiting, "w1").conditions, finished)
        ended = edit(waiting, "w1", conditions=conditions)
    else:
        ended = dataclasses.replace(waiting, workloads=(named(waiting, "w2"),))

    assert places(after(ended), "w2")


def without(snapshot, *names):
    return dataclasses.replace(
        snapshot, nodes=tuple(node for node in snapshot.nodes if node.name not in names)
    )


def test_a_removed_node_is_replaced_within_its_rack():
    admitted = after(world(workload("w", pod_set(3, required=RACK))))
    assert places(admitted, "w")["main"] == {"a1-0": 1, "a1-1": 1, "a1-2": 1}

    assert places(after(without(admitted, "a1-0")), "w")["main"] == {"a1-1": 1, "a1-2": 1, "a1-3": 1}


def test_a_node_of_a_slice_is_replaced_within_the_slice():
    request = {"required": ZONE, "slice_level": RACK, "slice_size": 3}
    admitted = after(world(workload("w", pod_set(6, **request))))
    replaced = places(after(without(admitted, "a2-1")), "w")["main"]

    assert sorted(replaced) == ["a1-0", "a1-1", "a1-2", "a2-0", "a2-2", "a2-3"]


def test_a_workload_without_a_replacement_is_evicted():
    admitted = after(world(workload("w", pod_set(4, required=RACK))))
    condition = named(after(without(admitted, "a1-0")), "w").condition("Evicted")

    assert (condition.status, condition.reason) == (True, "NodeFailures")
    assert condition.message == "Workload was evicted as there was no replacement for a failed node: a1-0"


@pytest.mark.parametrize(("seconds", "want"), [(29, "a1-0"), (31, "a1-1")])
def test_a_node_that_is_not_ready_is_replaced_after_a_while(seconds, want):
    admitted = after(world(workload("w", pod_set(1, required=RACK))))
    sick, *others = nodes(CLUSTER)
    sick = dataclasses.replace(sick, ready=False, unready_since=NOW - seconds)

    assert list(places(after(dataclasses.replace(admitted, nodes=(sick, *others))), "w")["main"]) == [want]


def test_the_highest_priority_goes_first_and_small_ones_pass_a_big_one_that_waits():
    big = workload("big", pod_set(13), priority=5)
    late = workload("late", pod_set(12), priority=1, created="2026-01-02T00:00:00Z")
    early = workload("early", pod_set(12))
    decided = after(world(early, late, big))

    assert (places(decided, "big"), places(decided, "early")) == ({}, {})
    assert places(decided, "late")


@pytest.mark.parametrize(
    ("reason", "since"),
    [
        ("Preempted", ""),
        ("Deactivated", ""),
        ("PodsReadyTimeout", EVICTED_AT),
        ("AdmissionCheck", EVICTED_AT),
    ],
)
def test_a_workload_keeps_its_place_in_the_queue_through_a_preemption(reason, since):
    condition = {"type": "Evicted", "status": "True", "reason": reason, "message": "m"}
    metadata = {"namespace": "ns", "name": "w", "uid": "u", "resourceVersion": "1", "creationTimestamp": "t"}
    body = {"metadata": metadata, "status": {"conditions": [condition | {"lastTransitionTime": EVICTED_AT}]}}
    assert reader.workload(body).queued_again_at == since


def guarded(snapshot):
    """The objects on which the finalizer goes (True) or from which it comes off, by kind."""
    return {type(change.of).__name__: change.on for change in guards.changes(snapshot)}


def test_every_object_gets_the_finalizer_once():
    bare = world()
    bare = dataclasses.replace(
        bare,
        cluster_queues=tuple(
            dataclasses.replace(each, guard=Guard(on=False)) for each in bare.cluster_queues
        ),
        flavors=tuple(dataclasses.replace(each, guard=Guard(on=False)) for each in bare.flavors),
        topologies=tuple(dataclasses.replace(each, guard=Guard(on=False)) for each in bare.topologies),
    )
    assert guarded(bare) == {"ClusterQueue": True, "Flavor": True, "Topology": True}
    assert guarded(world()) == {}


def ending(snapshot, *fields):
    return dataclasses.replace(
        snapshot,
        **{
            name: tuple(
                dataclasses.replace(each, guard=Guard(deleting=True)) for each in getattr(snapshot, name)
            )
            for name in fields
        },
    )


def test_a_named_queue_is_kept_and_one_with_a_reservation_too():
    admitted = after(world(workload("w", pod_set(2, required=RACK))))
    everything = ending(admitted, "cluster_queues", "flavors", "topologies")
    assert guarded(everything) == {}
    assert guarded(dataclasses.replace(everything, workloads=())) == {"ClusterQueue": False}
    without_queue = dataclasses.replace(everything, workloads=(), cluster_queues=())
    assert guarded(without_queue) == {"Flavor": False}
    assert guarded(dataclasses.replace(without_queue, flavors=())) == {"Topology": False}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"local_queues": (LocalQueue("ns", "lq", "cq", stop="Hold"),)}, "LocalQueue lq is inactive"),
        ({"local_queues": ()}, "LocalQueue lq doesn't exist"),
        ({"cluster_queues": ()}, "ClusterQueue cq doesn't exist"),
    ],
)
def test_a_workload_whose_queue_admits_nothing_says_why(change, want):
    """In the words of Kueue's workload controller (v0.9 to v0.19)."""
    assert message(after(world(workload("w", pod_set(1, required=RACK)), **change)), "w") == want


def test_a_stopped_cluster_queue_is_inactive():
    basis = world(workload("w", pod_set(1, required=RACK)))
    stopped = tuple(dataclasses.replace(queue, stop="Hold") for queue in basis.cluster_queues)
    waiting = after(dataclasses.replace(basis, cluster_queues=stopped))
    assert message(waiting, "w") == "ClusterQueue cq is inactive"


def test_a_queue_that_is_being_deleted_admits_nothing():
    waiting = after(ending(world(workload("w", pod_set(2, required=RACK))), "cluster_queues"))
    assert not named(waiting, "w").holds("QuotaReserved")


SHORTEST = {
    "1000": "1k",
    1000: "1k",
    "1500": "1500",
    "0": "0",
    "1E": "1E",
    "1000k": "1M",
    "4Ti": "4Ti",
    "500m": "500m",
}


@pytest.mark.parametrize(("written", "want"), SHORTEST.items())
def test_quotas_are_rewritten_as_go_writes_them(written, want):
    assert shortest(written) == want
