"""Objects as OSMO's service, Grove, KAI's podgrouper and Kueue's integrations write them: tree and verdict.

Their shapes were read in the sources of 2026 (OSMO ``topology.py``, Grove ``scheduler/kai``, podgrouper
``pytorch`` and ``ray``, Kueue's workloads of Job, JobSet and LeaderWorkerSet); the objects are written here.
"""

from dataclasses import replace

import pytest

from scheduling.backends.kubernetes.gang import WITH_COMPOSITES
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Answer, judge
from tests.builders.others_gangs import changed_pods, codes, gang_kept, pod_kept, read
from tests.fakes.kueue_objects import cluster_queue, flavor, local_queue, readings
from tests.unit.scheduling.fit.worlds import RACK, ZONE, draw
from tests.unit.scheduling.foreign.objects import (
    TOPOLOGIES,
    constraint,
    group_of,
    kai_pods,
    native_pods,
    on_kai,
    on_kueue,
    pod_group,
    pod_set,
    workload,
)

RACKS_OF_4 = "a/r1: a1 a2 a3 a4\n a/r2: a5 a6 a7 a8\n b/r3: b1 b2 b3 b4"
NOTHING_WHOLE = "a/r1: a1 a2 a3x\n a/r2: a4 a5x a6x\n b/r3: b1 b2x"


def tree(gang):
    """The tree in one line: ``whole(rack!: decode 4, master 1)``, a mark behind each level."""
    return _line(gang.demand.tree, gang.demand.tree.root)


def _line(tree, node):
    constraint = node.constraint
    words = [
        f"{tree.levels[rank].key}{mark}"
        for rank, mark in ((constraint.required, "!"), (constraint.preferred, "?"))
        if rank is not None
    ]
    inner = [
        f"{part.path[-1][1]} {_line(tree, part)}" if part else str(len(node.tasks)) for part in node.parts
    ]
    return "".join(words) + "(" + ", ".join(inner) + ")"


def verdict(gang, picture=RACKS_OF_4):
    """The answer for the gang on these nodes of 8 GPUs, all with the label of a flavor."""
    nodes = draw(picture).edited(_labelled).nodes
    return judge(Snapshot.of(nodes, gang.levels, paths=True), gang.demand).answer


def _labelled(node):
    return replace(node, labels={**node.labels, "gpus": "y"})


# KAI ---------------------------------------------------------------------------------------------


def test_osmo_with_racks_in_a_zone_is_read_with_its_inner_minimum_ignored():
    """OSMO writes all tasks below an inner sub-group into its minimum, and levels without a preference."""
    gang = on_kai(
        pod_group(
            priorityClassName="osmo-normal",
            minMember=8,
            topologyConstraint=constraint(required=ZONE),
            subGroups=[
                {"name": "m-r1", "minMember": 4, "topologyConstraint": constraint(required=RACK)},
                {"name": "m-r2", "minMember": 4, "topologyConstraint": constraint(required=RACK)},
            ],
        ),
        kai_pods(4, "m-r1"),
        kai_pods(4, "m-r2"),
    )
    assert tree(gang) == "zone!(m-r1 rack!(4), m-r2 rack!(4))"
    assert (gang.queue, gang.priority, gang.minimum, gang.tasks, gang.gpus) == (
        "team",
        "osmo-normal",
        8,
        8,
        64,
    )
    assert (gang.unread, gang.faults) == ((), ())
    assert verdict(gang) is Answer.NOW
    assert verdict(gang, "a/r1: a1 a2 a3 a4\n b/r2: b1 b2 b3 b4") is Answer.NEVER


def test_osmo_without_topology_is_one_set():
    gang = on_kai(pod_group(minMember=3), kai_pods(3))
    assert tree(gang) == "(3)"
    assert verdict(gang, NOTHING_WHOLE) is Answer.NOW
    assert verdict(gang, "a/r1: a1 a2x a3x") is Answer.NOT_NOW


def test_a_required_level_alone_is_a_fault_only_while_the_nodes_share_a_narrower_domain():
    gang = on_kai(pod_group(minMember=2, topologyConstraint=constraint(required=ZONE)), kai_pods(2))
    assert gang.faults_on(draw("a/r1: a1 a2\n a/r2: a3").nodes) == ()
    (fault,) = gang.faults_on(draw("a/r1: a1 a2").nodes)
    assert f'share one "{RACK}"' in fault


def test_grove_with_cliques_in_scaling_groups_is_read_in_order_of_names():
    """Grove makes a sub-group of each scaling group, whose minSubGroup counts its cliques."""
    gang = on_kai(
        pod_group(
            owner=("PodGang", "dynamo-0"),
            minMember=6,
            minSubGroup=2,
            topologyConstraint=constraint(preferred=ZONE),
            subGroups=[
                {
                    "name": "prefill",
                    "minSubGroup": 2,
                    "topologyConstraint": constraint(required=RACK, preferred=RACK),
                },
                {"name": "prefill-leader", "parent": "prefill", "minMember": 1},
                {"name": "prefill-worker", "parent": "prefill", "minMember": 3},
                {"name": "decode", "minMember": 2, "topologyConstraint": constraint(preferred=RACK)},
            ],
        ),
        kai_pods(1, "prefill-leader", gpus=0),
        kai_pods(3, "prefill-worker"),
        kai_pods(2, "decode"),
    )
    assert tree(gang) == "zone?(decode rack?(2), prefill rack!(prefill-leader (1), prefill-worker (3)))"
    assert (gang.owner, gang.unread) == (("PodGang", "dynamo-0"), ())
    assert verdict(gang) is Answer.NOW


def test_kai_before_0_15_places_inner_sub_groups_first():
    obj = pod_group(
        subGroups=[
            {"name": "a", "minMember": 1},
            {"name": "b"},
            {"name": "c", "parent": "b", "minMember": 1},
            {"name": "d", "parent": "b", "minMember": 1},
        ]
    )
    pods = [kai_pods(1, name) for name in "acd"]
    assert tree(on_kai(obj, *pods, version="0.13")) == "(b (c (1), d (1)), 1)"
    assert tree(on_kai(obj, *pods, version="0.17")) == "(1, b (c (1), d (1)))"


def test_a_pytorchjob_in_segments_is_read_as_racks_of_workers():
    """The podgrouper writes a master, and workers whose segments are sub-groups below them."""
    segment = {
        "parent": "worker",
        "minMember": 2,
        "topologyConstraint": constraint(required=RACK, preferred=RACK),
    }
    gang = on_kai(
        pod_group(
            owner=("PyTorchJob", "llm"),
            minMember=5,
            topologyConstraint={},
            subGroups=[
                {"name": "master", "minMember": 1},
                {"name": "worker", "minMember": 4},
                {"name": "worker-0", **segment},
                {"name": "worker-1", **segment},
            ],
        ),
        kai_pods(1, "master"),
        kai_pods(2, "worker-0"),
        kai_pods(2, "worker-1"),
    )
    assert tree(gang) == "(1, worker (worker-0 rack!(2), worker-1 rack!(2)))"
    assert verdict(gang, NOTHING_WHOLE) is Answer.NOT_NOW
    assert verdict(gang) is Answer.NOW


def test_a_raycluster_counts_the_minimum_of_each_group_and_not_the_pods_beyond():
    gang = on_kai(
        pod_group(
            owner=("RayCluster", "ray"),
            minMember=3,
            subGroups=[
                {"name": "headgroup", "minMember": 1},
                {"name": "small", "minMember": 2},
                {"name": "idle"},
            ],
        ),
        kai_pods(1, "headgroup", gpus=0),
        kai_pods(5, "small"),
        kai_pods(3, "idle"),
    )
    assert tree(gang) == "(headgroup (1), small (2))"
    assert (gang.minimum, gang.tasks, gang.unread) == (3, 3, ())
    assert verdict(gang, "a/r1: a1 a2 a3x") is Answer.NOW


def test_a_bare_pod_of_the_podgrouper_is_a_gang_of_one_with_its_owner():
    gang = on_kai(pod_group(minMember=1), kai_pods(1, owner=("ReplicaSet", "web")))
    assert (tree(gang), gang.owner) == ("(1)", ("ReplicaSet", "web"))


def test_a_running_gang_whose_further_pod_waits_is_asked_for_that_pod_alone():
    allocated = {"resourcesStatus": {"allocated": {"cpu": "3", "nvidia.com/gpu": "24"}}}
    gang = on_kai(pod_group(minMember=3, status=allocated), kai_pods(1))
    assert (tree(gang), gang.tasks, codes(gang)) == ("(1)", 1, {"pods"})


def test_a_gang_whose_pods_are_not_all_made_has_no_demand_and_says_how_many_wait():
    gang = on_kai(pod_group(minMember=4), kai_pods(3))
    assert gang.demand is None
    assert [entry.message for entry in gang.unread] == [
        "The PodGroup needs 4 pods, of which 3 wait; the others are placed, or not made yet."
    ]


def test_a_constraint_sees_only_nodes_with_all_labels_of_its_topology():
    gang = on_kai(pod_group(minMember=2, topologyConstraint=constraint(preferred=ZONE)), kai_pods(2))
    assert tree(gang) == "zone?(2)"
    assert verdict(gang, "a/r1: a1\n a/-: a2 a3") is Answer.NOT_NOW
    assert verdict(gang, "a/r1: a1 a2") is Answer.NOW


NEVER_PLACED = {
    "a Topology that does not exist": (constraint(required=RACK, topology="nope"), "does not exist"),
    "a Topology and no level": (constraint(), "no level"),
    "a preference broader than what is required": (constraint(RACK, ZONE), "prefers a broader level"),
    "a level of no Topology": (constraint("block"), 'level "block"'),
}


@pytest.mark.parametrize("case", NEVER_PLACED)
def test_kai_never_meets_a_constraint_with(case):
    written, words = NEVER_PLACED[case]
    gang = on_kai(pod_group(minMember=2, topologyConstraint=written), kai_pods(2), version="0.13")
    assert tree(gang) == "(2)"
    (fault,) = gang.faults
    assert words in fault


def test_an_unknown_level_may_be_an_alias_where_kai_has_aliases():
    gang = on_kai(pod_group(minMember=2, topologyConstraint=constraint("block")), kai_pods(2), version="0.17")
    assert (gang.faults, codes(gang)) == ((), {"topology"})


def test_a_required_level_broader_than_around_it_is_never_met_without_a_preference():
    groups = [
        {"name": "a", "minMember": 1, "topologyConstraint": constraint(ZONE)},
        {"name": "b", "minMember": 1},
    ]
    obj = pod_group(topologyConstraint=constraint(RACK, RACK), subGroups=groups)
    (fault,) = on_kai(obj, kai_pods(1, "a"), kai_pods(1, "b")).faults
    assert 'required for sub-group "a"' in fault


@pytest.mark.parametrize("part", ["", "unknown", "inner"])
def test_kai_never_places_pods_of_no_leaf(part):
    groups = [{"name": "inner"}, {"name": "leaf", "parent": "inner", "minMember": 1}]
    (fault,) = on_kai(pod_group(subGroups=groups), kai_pods(1, "leaf"), kai_pods(1, part)).faults
    assert "KAI never places them" in fault


def test_pods_without_a_label_belong_to_the_leaf_default():
    gang = on_kai(pod_group(subGroups=[{"name": "default", "minMember": 2}]), kai_pods(2))
    assert (tree(gang), gang.faults) == ("(2)", ())


def test_constraints_on_unrelated_topologies_are_examined_on_the_longest():
    groups = [
        {"name": "a", "minMember": 1, "topologyConstraint": constraint(RACK, RACK)},
        {"name": "b", "minMember": 1, "topologyConstraint": constraint("block", "block", "blocks")},
    ]
    gang = read(
        "kai",
        gang_kept("kai", pod_group(subGroups=groups), [*kai_pods(1, "a"), *kai_pods(1, "b")]),
        topologies={**TOPOLOGIES, "blocks": ("block",)},
    )
    assert (tree(gang), codes(gang)) == ("(a rack!(1), 1)", {"topology"})


def test_pods_that_wait_behind_gates_or_ask_for_more_than_room_are_named():
    gang = on_kai(pod_group(minMember=1), kai_pods(1, gates=1, unread=("claims", "node affinity")))
    assert codes(gang) == {"gates", "pod_conditions"}


# Kubernetes --------------------------------------------------------------------------------------


def on_kubernetes(*gangs):
    return read("kubernetes", gangs[0], version=str(WITH_COMPOSITES), beside=gangs)


def test_a_pod_group_with_a_key_is_one_set():
    gang = on_kubernetes(gang_kept("kubernetes", group_of("train", 4, key=RACK), native_pods(4, "train")))
    assert (tree(gang), gang.unread, gang.minimum) == ("rack!(4)", (), 4)
    assert verdict(gang) is Answer.NOW


def test_pod_groups_of_one_composite_are_one_gang_in_order_of_creation():
    root = group_of("root", 2, key=ZONE, field="minGroupCount")
    late = group_of("a", 4, key=RACK, parent="root", created="2026-01-01T00:00:05Z")
    first = group_of("b", 4, key=RACK, parent="root")
    gangs = [
        gang_kept("kubernetes", each, native_pods(4, each["metadata"]["name"]), above=[root])
        for each in (late, first)
    ]
    gang = on_kubernetes(*gangs)
    assert (tree(gang), gang.unread, gang.tasks) == ("zone!(b rack!(4), a rack!(4))", (), 8)
    assert (verdict(gang), verdict(gang, NOTHING_WHOLE)) == (Answer.NOW, Answer.NEVER)


def test_a_composite_of_which_a_group_is_not_there_has_no_demand():
    root = group_of("root", 2, key=ZONE, field="minGroupCount")
    gang = on_kubernetes(
        gang_kept("kubernetes", group_of("a", 1, parent="root"), native_pods(1, "a"), above=[root])
    )
    assert (gang.demand, codes(gang)) == (None, {"pods"})


def test_a_priority_other_than_its_pods_keeps_a_pod_group_waiting():
    group = group_of("g", 1, priority=100)
    (fault,) = on_kubernetes(gang_kept("kubernetes", group, native_pods(1, "g", priority=0))).faults
    assert "priority 100 and its pods have 0" in fault


# Kueue -------------------------------------------------------------------------------------------


def test_a_job_with_a_required_rack_is_one_pod_set():
    gang = on_kueue(
        workload(pod_set("main", 4, required=RACK), priorityClassRef={"name": "high"}, priority=5)
    )
    assert tree(gang) == "rack!(4)"
    assert (gang.owner, gang.queue, gang.priority, gang.gpus) == (("Job", "train"), "lq", "high", 32)
    assert (gang.unread, gang.faults) == ((), ())
    assert (verdict(gang), verdict(gang, NOTHING_WHOLE)) == (Answer.NOW, Answer.NEVER)


def test_a_jobset_is_a_pod_set_for_each_replicated_job():
    gang = on_kueue(
        workload(pod_set("driver", 1, gpus=0), pod_set("workers", 4, preferred=RACK), owner=("JobSet", "s"))
    )
    assert tree(gang) == "(1, workers rack?(4))"
    assert verdict(gang) is Answer.NOW


def test_a_leader_with_workers_of_its_kind_is_one_set_of_one_rack():
    both = {"required": RACK, "podSetGroupName": "0"}
    gang = on_kueue(
        workload(pod_set("leader", 1, **both), pod_set("workers", 3, **both), owner=("LeaderWorkerSet", "l"))
    )
    assert (tree(gang), gang.unread) == ("rack!(4)", ())


def test_a_leader_of_another_kind_is_examined_apart_and_named():
    both = {"required": RACK, "podSetGroupName": "0"}
    gang = on_kueue(workload(pod_set("leader", 1, gpus=0, **both), pod_set("workers", 3, **both)))
    assert (tree(gang), codes(gang)) == ("(leader rack!(1), workers rack!(3))", {"topology"})


def test_slices_are_equal_sets_inside_a_set():
    slices = {"required": ZONE, "podSetSliceRequiredTopology": RACK, "podSetSliceSize": 4}
    gang = on_kueue(workload(pod_set("main", 8, **slices)))
    assert tree(gang) == "zone!(main-0 rack!(4), main-1 rack!(4))"
    assert verdict(gang) is Answer.NOW


def test_pods_that_have_ended_are_not_asked_for_again():
    obj = workload(pod_set("main", 4))
    obj["status"]["reclaimablePods"] = [{"name": "main", "count": 3}]
    assert on_kueue(obj).tasks == 1


def test_a_workload_asks_for_the_nodes_of_its_flavor():
    gang = on_kueue(workload(pod_set("main", 1)))
    (demand,) = gang.demand.demands.values()
    assert dict(demand.selector) == {"gpus": "y"}


@pytest.mark.parametrize("kind", ["QuotaReserved", "Admitted", "Finished"])
def test_a_workload_that_has_room_or_has_ended_is_not_kept(kind):
    obj = workload(pod_set("main", 1), conditions=[{"type": kind, "status": "True"}])
    assert gang_kept("kueue", obj).obj is None


def test_a_queue_that_admits_nothing_is_a_fault():
    queues = readings(
        local_queue("ns/lq", "cq", stop="Hold"), cluster_queue("cq", ("f", 64)), flavor("f", {}, "t")
    )
    (fault,) = on_kueue(workload(pod_set("main", 1)), queues=queues).faults
    assert "stopped" in fault


TAINTS = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
TOLERATES = [{"key": "gpu", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("of_flavor", "of_pods", "is_admitted"),
    [((), (), False), (TOLERATES, (), True), ((), TOLERATES, True)],
    ids=["nobody tolerates it", "the flavor adds a toleration", "its pods tolerate it"],
)
def test_a_flavor_with_taints_is_for_pods_that_tolerate_them(of_flavor, of_pods, is_admitted):
    tainted = flavor("f", {}, "t", taints=TAINTS, tolerations=of_flavor)
    queues = readings(local_queue("ns/lq", "cq"), cluster_queue("cq", ("f", 64)), tainted)
    kept = gang_kept(
        "kueue", workload(pod_set("main", 1)), template=lambda spec: pod_kept(tolerations=tuple(of_pods))
    )
    gang = read("kueue", kept, topologies={"t": (ZONE, RACK)}, queues=queues)
    assert (gang.demand is not None) == is_admitted
    fault = 'Pod set "main" does not tolerate taint gpu:NoSchedule of ResourceFlavor'
    assert [text.partition(' "f"')[0] for text in gang.faults] == ([] if is_admitted else [fault])


def test_without_a_topology_kueue_looks_at_no_node():
    queues = readings(local_queue("ns/lq", "cq"), cluster_queue("cq", ("f", 64)), flavor("f", {}))
    gang = on_kueue(workload(pod_set("main", 1)), queues=queues)
    assert (gang.demand, gang.faults, codes(gang)) == (None, (), {"topology"})


@pytest.mark.parametrize("request_", [{}, {"unconstrained": True}], ids=["asks nothing", "asks"])
def test_beside_flavors_without_a_topology_a_request_alone_leads_to_nodes(request_):
    queues = readings(
        local_queue("ns/lq", "cq"),
        cluster_queue("cq", ("f", 64), ("plain", 64)),
        flavor("f", {}, "t"),
        flavor("plain", {}),
    )
    gang = on_kueue(workload(pod_set("main", 1, **request_)), queues=queues)
    assert (gang.demand is not None) == bool(request_)
    assert codes(gang) == (set() if request_ else {"topology"})


def test_nothing_of_a_pod_but_what_decides_on_its_place_is_kept():
    kept = gang_kept("kueue", workload(pod_set("main", 1))).to_json()
    assert not {"TOKEN", "env", "image"} & set(str(kept).replace("'", " ").split())


def test_changed_pods_change_the_demand_alone():
    gang = gang_kept("kai", pod_group(minMember=1), kai_pods(1))
    assert tree(read("kai", changed_pods(gang, selector={"a": "b"}))) == "(1)"
