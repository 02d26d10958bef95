"""What else the KAI stand-in holds to: resources, queues, priorities, claims, and what it tells."""

import dataclasses

import pytest

from localcluster.standins.affinity import Match
from localcluster.standins.kai.values import (
    GPU,
    Claim,
    Device,
    PodClaim,
    Queue,
    QueueLimit,
    Topology,
)
from localcluster.standins.quantities import UNIT
from localcluster.standins.taints import Taint, Toleration
from tests.standins.worlds import (
    CHANNEL,
    CLASSES,
    DRIVER,
    UNLIMITED,
    after,
    both,
    channels,
    claiming,
    domains,
    edit,
    group,
    leaf,
    message,
    node,
    placed,
    pod,
    pods,
    reasons,
    run,
    shape,
    world,
)

FOUR = "a/r1: n1 n2 n3 n4"
TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")


def only_node(snapshot, **changes):
    changed = dataclasses.replace(snapshot.nodes[0], **changes)
    return dataclasses.replace(snapshot, nodes=(changed, *snapshot.nodes[1:]))


def single(**more):
    return world("a/r1: n1", groups=(group(min_member=1),), pods=(pod("p", **more),))


def test_a_gang_without_room_for_all_gets_nothing_and_says_how_many_fitted():
    decisions = run(world(FOUR, groups=(group(min_member=5),), pods=pods(5)))

    assert placed(decisions) == {}
    assert message(decisions) == (
        "PodSchedulingErrors: Resources were found for 4 pods while 5 are required for gang scheduling. "
        "Additional pods cannot be scheduled due to: no nodes with enough resources were found: "
        "4 node(s) didn't have enough resources: GPUs.."
    )


def test_pods_above_the_minimum_follow_as_far_as_there_is_room():
    decisions = run(world(FOUR, groups=(group(min_member=2),), pods=pods(6)))

    assert len(placed(decisions)) == 4
    assert decisions.group_conditions == (), "a group with pods on nodes gets no condition"
    assert "Unschedulable" in reasons(decisions, "PodGroup")


def test_a_group_short_of_pods_gets_an_event_and_no_condition():
    decisions = run(world(FOUR, groups=(group(subgroups=(leaf("s0", 3),)),), pods=pods(2, subgroup="s0")))

    (event,) = decisions.events
    assert (event.kind, event.reason) == ("PodGroup", "NotReady")
    assert event.message == (
        "Job is not ready for scheduling. Waiting for 3 pods for SubGroup s0, currently 2 exist, 0 are gated."
    )
    assert decisions.group_conditions == ()


def test_a_retry_after_its_peers_have_finished_waits_for_ever():
    finished = tuple(dataclasses.replace(each, state="succeeded") for each in pods(3))
    decisions = run(world(FOUR, groups=(group(min_member=4),), pods=(*finished, pod("retry"))))

    assert placed(decisions) == {}
    assert reasons(decisions) == ["NotReady"]


def test_gated_pods_do_not_count_until_their_gates_are_gone():
    members = (*pods(3), pod("p9", state="gated"))
    snapshot = world(FOUR, groups=(group(min_member=4),), pods=members)
    assert placed(run(snapshot)) == {}

    opened = dataclasses.replace(snapshot, pods=(*pods(3), pod("p9")))
    assert len(placed(run(opened))) == 4


def test_a_pod_of_a_group_that_does_not_exist_is_ignored_in_silence():
    decisions = run(world(FOUR, pods=pods(1, group="nobody")))

    assert placed(decisions) == {}
    assert decisions.events == ()


def test_pods_of_another_scheduler_are_left_alone_but_take_room():
    snapshot = world(FOUR, groups=(group(min_member=1),), pods=pods(1, is_kai=False))

    assert placed(run(snapshot)) == {}


def test_a_pod_without_annotation_is_scheduled_alone_in_the_queue_of_its_label():
    snapshot = world("a/r1: n1", pods=(pod("bare", group=None, queue_label="q"), pod("lost", group=None)))

    decisions = run(snapshot)

    assert placed(decisions) == {"bare": "n1"}
    (told,) = decisions.pod_conditions
    assert told.message == "QueueDoesNotExist: Queue 'default-queue' does not exist."


@pytest.mark.parametrize(
    ("version", "skips", "want"),
    [("0.13", False, 0), ("0.13", True, 0), ("0.17", False, 0), ("0.17", True, 2)],
)
def test_a_pod_with_an_owner_is_taken_out_of_its_group_unless_v0_17_is_told_not_to(version, skips, want):
    members = pods(2, owned=True, skips_grouper=skips)

    decisions = run(world(FOUR, groups=(group(min_member=2),), pods=members), version=version)

    assert len(placed(decisions)) == want


def test_resources_selectors_and_names_decide_where_a_pod_goes():
    snapshot = single(shape=shape(selector=(("pool", "p"),)))
    assert placed(run(snapshot)) == {}
    assert "1 node(s) didn't match Pod's node affinity/selector" in run(snapshot).pod_conditions[0].message

    assert placed(run(only_node(snapshot, labels={"pool": "p"}))) == {"p": "n1"}


@pytest.mark.parametrize(
    ("match", "want"),
    {
        Match("kubernetes.io/hostname", "NotIn", ("n1",)): False,
        Match("kubernetes.io/hostname", "In", ("n1", "n2")): True,
        Match("metadata.name", "In", ("n1",), field=True): True,
        Match("topo/spine", "Exists", ()): False,
        Match("topo/spine", "DoesNotExist", ()): True,
    }.items(),
)
def test_required_node_affinity_is_obeyed(match, want):
    assert bool(placed(run(single(shape=shape(affinity=((match,),)))))) is want


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        (None, False),
        (Toleration("nvidia.com/gpu", "Exists", "", ""), True),
        (Toleration("nvidia.com/gpu", "Equal", "absent", "NoSchedule"), False),
        (Toleration("", "Exists", "", "NoExecute"), False),
    ],
)
def test_taints_need_a_toleration(toleration, want):
    tolerations = (toleration,) if toleration else ()
    snapshot = only_node(single(shape=shape(tolerations=tolerations)), taints=(TAINT,))

    assert bool(placed(run(snapshot))) is want


@pytest.mark.parametrize("change", [{"unschedulable": True}, {"conditions": ("NotReady",)}])
def test_cordoned_and_unready_nodes_take_nothing(change):
    assert placed(run(only_node(single(), **change))) == {}


def test_terminating_pods_hold_their_room_and_the_next_gang_keeps_its_place():
    leaving = pod("old", group="gone", node="n1", state="releasing", is_kai=False)
    snapshot = world("a/r1: n1", groups=(group(min_member=1),), pods=(leaving, pod("new")))

    waiting = run(snapshot)
    assert placed(waiting) == {}
    assert reasons(waiting) == ["Pipelined"]

    assert placed(run(dataclasses.replace(snapshot, pods=(pod("new"),)))) == {"new": "n1"}


def test_places_held_for_a_pipelined_gang_are_not_given_to_the_next_group():
    leaving = pod("old", group="gone", node="n1", state="releasing", is_kai=False)
    groups = (group("first", min_member=2, created="t0"), group("second", min_member=1, created="t1"))
    members = (leaving, *pods(2, "x", group="first"), pod("y", group="second"))

    assert placed(run(world("a/r1: n1 n2", groups=groups, pods=members))) == {}


def test_small_groups_are_packed_into_the_fullest_domain_that_holds_them():
    picture = """
        a/r1: n1 n2 n3 n4
        a/r2: m1x m2x m3 m4
    """
    snapshot = world(picture, groups=(group(min_member=2, constraint=both("t", "topo/rack")),), pods=pods(2))

    assert domains(run(snapshot), snapshot, "topo/rack") == ["r2", "r2"]


def test_pods_without_gpus_go_to_nodes_without_gpus_first():
    snapshot = world("a/r1: a1", groups=(group(min_member=1),), pods=(pod("p", shape=shape(gpus=0)),))
    plain = node("z-cpu-only", gpus=0)
    plain = dataclasses.replace(plain, allocatable={k: v for k, v in plain.allocatable.items() if k != GPU})

    assert placed(run(dataclasses.replace(snapshot, nodes=(*snapshot.nodes, plain)))) == {"p": "z-cpu-only"}


def test_a_required_level_holds_a_retried_pod_in_the_domain_of_its_running_peers():
    picture = """
        a/r1: n1 n2 n3x
        a/r2: m1 m2 m3
    """
    peers = tuple(pod(f"p{n}", state="active", node=f"n{n}") for n in (1, 2))
    gang = group(min_member=3, constraint=both("t", "topo/rack"))
    snapshot = world(picture, groups=(gang,), pods=(*peers, pod("retry")))
    assert placed(run(snapshot)) == {}, "n3 is busy and the other rack is not offered"

    freed = dataclasses.replace(snapshot, pods=tuple(p for p in snapshot.pods if p.name != "busy-n3"))
    assert placed(run(freed)) == {"retry": "n3"}


def limited(**more):
    return Queue("q", **{"cpu": UNLIMITED, "memory": UNLIMITED, "gpu": UNLIMITED, **more})


QUEUES = {
    "a queue that does not exist": ((), "QueueDoesNotExist: Queue 'q' does not exist."),
    "a queue whose parent does not exist": (
        (limited(parent="nobody"),),
        "QueueDoesNotExist: Queue 'q' does not exist.",
    ),
    "a queue with children": ((limited(), limited(parent="q")), None),
    "no limit written, which allows nothing": (
        (limited(gpu=QueueLimit()),),
        (
            "OverLimit: q quota has reached the allowable limit of GPUs. "
            "Limit is 0 GPUs, currently 0 GPUs allocated and workload requested 2 GPUs."
        ),
    ),
    "a limit below the request": ((limited(gpu=QueueLimit(quota=-1, limit=UNIT)),), "OverLimit: q quota"),
    "the limit of a parent": (
        (limited(parent="up"), Queue("up", cpu=UNLIMITED, memory=UNLIMITED)),
        "OverLimit: up quota has reached",
    ),
}


@pytest.mark.parametrize("case", QUEUES)
def test_queues_refuse(case):
    queues, want = QUEUES[case]
    if case == "a queue with children":
        queues = (queues[0], dataclasses.replace(queues[1], name="child"))
    decisions = run(world(FOUR, queues=queues, groups=(group(min_member=2),), pods=pods(2)))

    assert placed(decisions) == {}
    assert message(decisions).startswith(want or "Unable to schedule podgroup.")


def test_a_limit_counts_what_already_runs_in_the_queue():
    queue = limited(gpu=QueueLimit(quota=-1, limit=3 * UNIT))
    groups = (group("one", min_member=2, created="t0"), group("two", min_member=2, created="t1"))
    members = (*pods(2, "x", group="one"), *pods(2, "y", group="two"))
    decisions = run(world(FOUR, queues=(queue,), groups=groups, pods=members))

    assert sorted(placed(decisions)) == ["x000", "x001"]
    assert "currently 2 GPUs allocated and workload requested 2 GPUs" in message(decisions)


def test_a_group_that_may_not_be_preempted_needs_quota():
    queue = limited(gpu=QueueLimit(quota=0, limit=-1))
    fixed = group(min_member=1, preemptibility="non-preemptible")
    snapshot = world(FOUR, queues=(queue,), groups=(fixed,), pods=pods(1))

    assert message(run(snapshot)).startswith(
        "NonPreemptibleOverQuota: Non-preemptible workload is over quota."
    )
    assert placed(run(edit(snapshot, preemptibility="preemptible")))


def test_a_priority_class_of_100_makes_a_group_non_preemptible():
    queue = limited(gpu=QueueLimit(quota=0, limit=-1))
    snapshot = world(
        FOUR,
        queues=(queue,),
        priorities={"build": 100},
        groups=(group(min_member=1, priority_class="build"),),
        pods=pods(1),
    )
    assert placed(run(snapshot)) == {}
    assert placed(run(edit(snapshot, priority_class="unknown"))), "an unknown class counts as 50"


def test_higher_priority_goes_first_and_age_decides_among_equals():
    groups = (
        group("old", min_member=3, created="t0"),
        group("urgent", min_member=3, created="t1", priority_class="high"),
    )
    members = (*pods(3, "x", group="old"), *pods(3, "y", group="urgent"))
    snapshot = world(FOUR, priorities={"high": 90}, groups=groups, pods=members)

    assert {name[0] for name in placed(run(snapshot))} == {"y"}
    assert {name[0] for name in placed(run(dataclasses.replace(snapshot, priorities={})))} == {"x"}


def contest(count=2, **high):
    """Two running groups of low priority on four nodes, and a waiting gang of ``count``."""
    running = (
        *(pod(f"x{n}", group="older", state="active", node=f"n{n}") for n in (1, 2)),
        *(pod(f"y{n}", group="younger", state="active", node=f"n{n}") for n in (3, 4)),
    )
    groups = (
        group("older", min_member=2, created="t0"),
        group("younger", min_member=2, created="t1"),
        group("urgent", min_member=count, created="t2", **{"priority_class": "high", **high}),
    )
    members = (*running, *pods(count, "z", group="urgent"))
    return world(FOUR, priorities={"high": 90}, groups=groups, pods=members)


def test_a_higher_priority_evicts_the_youngest_group_that_suffices():
    snapshot = contest()

    decisions = run(snapshot)

    assert sorted(each.pod.name for each in decisions.evictions) == ["y3", "y4"]
    assert decisions.evictions[0].annotations["evictor-pod-group-name"] == "urgent"
    assert "preempted by higher priority workload ns/urgent" in decisions.evictions[0].message
    assert placed(decisions) == {}
    assert placed(run(after(snapshot, decisions))) == {"z000": "n3", "z001": "n4"}


def test_nothing_is_evicted_where_it_would_not_help_or_is_not_allowed():
    assert run(contest(count=5)).evictions == ()
    assert run(contest(priority_class="")).evictions == ()
    protected = contest()
    groups = tuple(
        dataclasses.replace(each, preemptibility="non-preemptible") if each.name != "urgent" else each
        for each in protected.groups
    )
    assert run(dataclasses.replace(protected, groups=groups)).evictions == ()


def other_queue(name, *, quota):
    return Queue(name, cpu=UNLIMITED, memory=UNLIMITED, gpu=QueueLimit(quota=quota * UNIT, limit=-1))


def claim_of_a_queue(*, theirs=2, ours=2, count=2):
    """As before, but the gang that waits has no priority, and a queue with a quota of its own."""
    snapshot = contest(count=count, queue="ours", priority_class="")
    return dataclasses.replace(
        snapshot, queues=(other_queue("q", quota=theirs), other_queue("ours", quota=ours))
    )


def test_a_queue_takes_back_the_room_that_it_deserves():
    snapshot = claim_of_a_queue()

    decisions = run(snapshot)

    assert sorted(each.pod.name for each in decisions.evictions) == ["y3", "y4"]
    assert decisions.evictions[0].annotations["evictor-action-type"] == "reclaim"
    assert decisions.evictions[0].message == "Pod ns/y3 was preempted by workload ns/urgent"
    assert placed(run(after(snapshot, decisions))) == {"z000": "n3", "z001": "n4"}


@pytest.mark.parametrize(
    "snapshot",
    [
        claim_of_a_queue(theirs=4),
        claim_of_a_queue(theirs=-1),
        claim_of_a_queue(ours=1),
        claim_of_a_queue(theirs=3, count=3, ours=4),
    ],
    ids=["they keep within theirs", "theirs is unlimited", "ours is too small", "too few are above it"],
)
def test_nothing_is_reclaimed(snapshot):
    assert run(snapshot).evictions == ()


def test_each_claim_gets_the_one_channel_of_its_pods_node():
    members, claims = claiming(3)
    snapshot = world(
        FOUR,
        groups=(group(min_member=3),),
        pods=members,
        claims=claims,
        devices=channels("n1", "n2", "n3"),
        device_classes=CLASSES,
    )

    decisions = run(snapshot)

    assert sorted(placed(decisions).values()) == ["n1", "n2", "n3"]
    for binding in decisions.bindings:
        (allocation,) = binding.allocations
        assert allocation.devices == (("channel", (DRIVER, binding.node, "channel-0")),)


def test_a_node_has_one_channel_so_a_second_claiming_pod_does_not_fit_there():
    members, claims = claiming(2)
    snapshot = world(
        "a/r1: n1",
        gpus=8,
        groups=(group(min_member=2),),
        pods=members,
        claims=claims,
        devices=channels("n1"),
        device_classes=CLASSES,
    )

    decisions = run(snapshot)

    assert placed(decisions) == {}
    assert "1 cannot allocate all claims" in message(decisions)


CLAIM_FAULTS = {
    "the claim's name is not known yet": (
        {"reference": None},
        "no resource claim name found for pod ns/p000 and claim reference cd",
    ),
    "the claim does not exist": ({"claims": ()}, "failed to get resource claim ns/p000-cd"),
    "the DeviceClass does not exist": ({"classes": {}}, "1 cannot allocate all claims"),
    "a selector that is not understood": (
        {"classes": {CHANNEL: ("device.attributes.exists(a, a == 1)",)}},
        "1 cannot allocate all claims",
    ),
    "no device on the node": ({"devices": ()}, "1 cannot allocate all claims"),
    "only the daemon's device": ({"devices": channels("n1")[1:]}, "1 cannot allocate all claims"),
}


@pytest.mark.parametrize("case", CLAIM_FAULTS)
def test_a_claim_that_cannot_be_had_keeps_the_pod_waiting(case):
    fault, want = CLAIM_FAULTS[case]
    members, claims = claiming(1)
    if "reference" in fault:
        members = tuple(dataclasses.replace(p, claims=(PodClaim("cd", None),)) for p in members)
    snapshot = world(
        "a/r1: n1",
        groups=(group(min_member=1),),
        pods=members,
        claims=fault.get("claims", claims),
        devices=fault.get("devices", channels("n1")),
        device_classes=fault.get("classes", CLASSES),
    )

    decisions = run(snapshot)

    assert placed(decisions) == {}
    assert want in message(decisions)


def test_an_allocated_claim_binds_its_pod_to_the_node_of_its_device():
    members, (claim,) = claiming(1)
    held = dataclasses.replace(claim, allocated=((DRIVER, "n3", "channel-0"),), node="n3", reserved_for=())
    snapshot = world(
        FOUR,
        groups=(group(min_member=1),),
        pods=members,
        claims=(held,),
        devices=channels("n1", "n2", "n3"),
        device_classes=CLASSES,
    )

    (binding,) = run(snapshot).bindings

    assert binding.node == "n3"
    assert binding.allocations == ()
    assert binding.reserve == (held,)


def test_a_channel_is_free_again_when_its_claim_is_gone():
    members, claims = claiming(1)
    other = Claim(
        "ns", "other", "uid-other", allocated=((DRIVER, "n1", "channel-0"),), node="n1", reserved_for=("u",)
    )
    snapshot = world(
        "a/r1: n1",
        gpus=8,
        groups=(group(min_member=1),),
        pods=members,
        claims=(*claims, other),
        devices=channels("n1"),
        device_classes=CLASSES,
    )
    assert placed(run(snapshot)) == {}
    assert placed(run(dataclasses.replace(snapshot, claims=claims))) == {"p000": "n1"}


def test_nodes_whose_gpus_are_published_as_devices_refuse_the_plain_resource():
    snapshot = dataclasses.replace(single(), devices=(Device("gpu.nvidia.com", "n1", "gpu-0", "n1"),))

    assert placed(run(snapshot)) == {}


def test_a_condition_is_written_once_and_counted_up_when_its_text_changes():
    snapshot = world(FOUR, groups=(group(min_member=5),), pods=pods(5))
    first = run(snapshot)
    again = after(snapshot, first)
    told = {each.pod.uid: each.message for each in first.pod_conditions}
    again = dataclasses.replace(
        again, pods=tuple(dataclasses.replace(p, unschedulable_message=told[p.uid]) for p in again.pods)
    )

    second = run(again)
    assert (second.group_conditions, second.pod_conditions) == ((), ())

    third = run(edit(dataclasses.replace(again, pods=(*again.pods, *pods(1, "q"))), min_member=6))
    assert third.group_conditions[0].conditions[-1]["transitionID"] == "2"
    assert len(third.group_conditions[0].conditions) == 1


def test_mark_unschedulable_false_leaves_pods_without_condition_but_not_without_event():
    decisions = run(world(FOUR, groups=(group(min_member=5, mark_unschedulable=False),), pods=pods(5)))

    assert decisions.pod_conditions == ()
    assert "Unschedulable" in reasons(decisions, "Pod")


def test_many_pods_are_placed_whole_and_in_their_domains():
    """192 pods in 12 rack sets on 648 nodes, and 500 equal pods without constraint."""
    picture = "\n".join(
        f"z{rack % 3}/r{rack}: " + " ".join(f"n{rack}-{number}" for number in range(18)) for rack in range(36)
    )
    racks = Topology("racks", ("topo/zone", "topo/rack"))
    zones = Topology("zones", ("topo/zone",))
    sets = tuple(leaf(f"s{number:02}", 16, both("racks", "topo/rack")) for number in range(12))
    ordered = group("ordered", subgroups=sets, constraint=both("zones", "topo/zone"))
    members = tuple(
        p for each in sets for p in pods(16, f"{each.name}-", subgroup=each.name, group="ordered")
    )
    loose = pods(400, "loose", group="loose")
    snapshot = world(
        picture,
        topologies=(zones, racks),
        groups=(ordered, group("loose", min_member=400, created="t1")),
        pods=(*members, *loose),
    )

    decisions = run(snapshot)

    assert len(placed(decisions)) == 592
    labels = {each.name: each.labels for each in snapshot.nodes}
    by_set = {}
    for name, where in placed(decisions).items():
        if not name.startswith("loose"):
            by_set.setdefault(name.split("-")[0], set()).add(labels[where]["topo/rack"])
    assert all(len(racks) == 1 for racks in by_set.values())
