"""Why a gang waits, from texts schedulers really write."""

import pytest

from scheduling.backends.base import BindFailure, Waiting
from scheduling.backends.default import Default
from scheduling.backends.kai import Kai
from scheduling.backends.kubernetes import Kubernetes
from tests.unit.scheduling.build import GROUP, gang, levels, request

POOL = levels("zone rack")
RENDERED = Kai().render(request(gang("a b c d: zone! z, rack! r1", "e f: zone! z"), POOL))
RACK = RENDERED.pod_groups[0]["spec"]["subGroups"][0]["name"]


def waiting(pod_group=None, *, rendered=RENDERED, **changes):
    expected = tuple(g["metadata"]["name"] for g in rendered.pod_groups)
    found = rendered.pod_groups[0] if pod_group is None else pod_group
    fields = {
        "placed": False,
        "expected": expected,
        "pod_groups": (found,) if found else (),
        "pods": 6,
        "pods_expected": 6,
        "levels": POOL,
        "sets": rendered.sets,
    }
    return Waiting(**{**fields, **changes})


def said_by_kai(*messages, reason="PodSchedulingErrors"):
    return {
        **RENDERED.pod_groups[0],
        "status": {
            "schedulingConditions": [
                {
                    "type": "UnschedulableOnNodePool",
                    "transitionID": str(i),
                    "message": message,
                    "reasons": [{"reason": reason, "message": message}],
                }
                for i, message in enumerate(messages)
            ]
        },
    }


KAI = {
    "a set that fits no rack": (
        (
            f"topology t, requirement topology/rack couldn't be satisfied for job <osmo/{GROUP.hex}>, "
            f"subgroup {RACK}"
        ),
        "TopologyNotSatisfied",
        'No rack has room for rack "r1" in zone "z" at the moment; one rack is required.',
    ),
    "a group that fits no zone": (
        f"topology t, requirement topology/zone couldn't be satisfied for job <osmo/{GROUP.hex}>",
        "TopologyNotSatisfied",
        "No zone has room for the whole task group at the moment; one zone is required.",
    ),
    "a domain that is too small": (
        "node-group a can allocate only 8 of 9 required pods",
        "DomainTooSmall",
        "Domain a has room for 8 of 9 tasks.",
    ),
    "a Topology that is gone": (
        "Requested topology nope does not exist",
        "TopologyMissing",
        "Topology object nope is missing from the cluster; the service creates it again.",
    ),
    "a queue that is gone": (
        "Queue 'q' does not exist",
        "QueueMissing",
        "Queue q does not exist in the cluster yet.",
    ),
    "too few nodes for the gang": (
        "Resources were found for 3 pods while 4 are required for gang scheduling.",
        "TopologyNotSatisfied",
        "No zone has room for all 4 tasks at the moment; one zone is required.",
    ),
    "too few nodes for one set": (
        f"Resources were found for 5 pods from all sub-groups while sub-group {RACK} requires 4 pods",
        "NotEnoughRoom",
        'There is not enough room for the 4 tasks of rack "r1" in zone "z".',
    ),
    "a queue at its limit": (
        "q quota has reached the allowable limit of GPUs. Limit is 4 GPUs, currently 4 GPUs allocated",
        "OverQuota",
        "The pool may use at most 4 GPUs, and 4 are in use.",
    ),
    "a group that needs what is left of its queue and more": (
        (
            "q quota has reached the allowable limit of GPUs. Limit is 8 GPUs, currently 6 GPUs allocated "
            "and workload requested 4 GPUs"
        ),
        "OverQuota",
        "The pool may use at most 8 GPUs; 6 are in use, and the group asks for 4.",
    ),
    "a group larger than its queue": (
        (
            "OverLimit: q quota has reached the allowable limit of GPUs. Limit is 8 GPUs, currently 0 GPUs "
            "allocated and workload requested 16 GPUs"
        ),
        "OverQuota",
        "The group asks for 16 GPUs, but the pool may use at most 8; it waits until that is raised.",
    ),
    "a limit without numbers": ("OverLimit: no more", "OverQuota", "The pool has reached its limit."),
    "no free GPUs": (
        "no nodes with enough resources were found: 4 node(s) didn't have enough resources: GPUs",
        "NotEnoughRoom",
        "Not enough free GPUs on the nodes these tasks may use.",
    ),
    "a channel that is taken": (
        "4 cannot allocate all claims",
        "ChannelInUse",
        "Nodes have one NVLink channel each; some are in use by others, or no driver offers any.",
    ),
    "a claim that is not there yet": (
        "no resource claim name found for pod osmo/p and claim reference channel",
        "ClaimMissing",
        "Resource claims of its pods do not exist yet.",
    ),
    "no reason given": (
        "Unable to schedule podgroup.",
        "Unschedulable",
        (
            "The scheduler cannot place the group and gives no reason; its queue, its topology levels or a "
            "lack of room may be the cause."
        ),
    ),
    "a text nobody has seen": (
        "moon in the wrong phase",
        "Unrecognised",
        "The scheduler says: moon in the wrong phase",
    ),
}


@pytest.mark.parametrize("phrase", KAI)
def test_kai_is_translated(phrase):
    raw, code, want = KAI[phrase]
    (reason,) = Kai().waiting_reasons(waiting(said_by_kai(raw)))
    assert (reason.code, reason.message, reason.raw) == (code, want, raw)


def test_kais_quota_reasons_are_known_by_their_name():
    (reason,) = Kai().waiting_reasons(waiting(said_by_kai("GPUs 9", reason="NonPreemptibleOverQuota")))
    assert reason.code == "OverQuota"
    assert "guaranteed GPUs" in reason.message


def test_a_message_of_several_parts_gives_several_reasons_newest_condition_first():
    text = (
        "node-group a can allocate only 8 of 9 required pods. \n"
        f"topology t, requirement topology/zone couldn't be satisfied for job <osmo/{GROUP.hex}>"
    )
    reasons = Kai().waiting_reasons(waiting(said_by_kai("Requested topology t does not exist", text)))
    assert [reason.code for reason in reasons] == [
        "TopologyNotSatisfied",
        "DomainTooSmall",
        "TopologyMissing",
    ]


def test_kais_leftover_condition_is_not_shown_once_all_pods_have_nodes():
    left = said_by_kai("Requested topology nope does not exist")
    assert Kai().waiting_reasons(waiting(left, placed=True)) == ()


def test_a_gang_that_is_not_complete_says_so_from_the_event():
    event = {
        "reason": "NotReady",
        "message": f"Job is not ready for scheduling. "
        f"Waiting for 4 pods for SubGroup {RACK}, currently 2 exist, 0 are gated.",
    }
    count, reason = Kai().waiting_reasons(waiting(events=(event,), pods=4))
    assert count.message == "4 of 6 pods exist; the gang waits for the rest."
    assert reason.message == '2 of 4 pods of rack "r1" in zone "z" exist; the gang waits for the rest.'


def test_a_reason_of_missing_pods_is_over_once_all_are_there_and_another_one_is_given():
    event = {
        "reason": "NotReady",
        "message": f"Job is not ready for scheduling. "
        f"Waiting for 4 pods for SubGroup {RACK}, currently 2 exist, 0 are gated.",
    }
    pod_group = all_in_one("no nodes with enough resources were found", requiredTopologyLevel="x")
    codes = [
        reason.code
        for reason in Kai().waiting_reasons(waiting(pod_group, events=(event,), pods=4, pods_expected=4))
    ]
    assert "PodsMissing" not in codes
    assert codes
    assert Kai().waiting_reasons(waiting(events=(event,))) == ()


@pytest.mark.parametrize("backend", [Kai(), Kubernetes()], ids=lambda b: b.name)
def test_reasons_that_schedulers_keep_silent_about_come_from_our_own_counts(backend):
    rendered = backend.render(request(gang("a b"), POOL))
    reasons = backend.waiting_reasons(waiting({}, rendered=rendered, pods=1, pods_expected=2))
    assert [reason.code for reason in reasons] == ["PodGroupMissing", "PodsMissing"]
    assert "1 of 2 pods exist" in reasons[1].message


@pytest.mark.parametrize(("pods", "codes"), [(1152, ["QueuesPodByPod"]), (288, [])])
def test_a_gang_that_kubernetes_queues_for_minutes_is_told_why_until_it_answers(pods, codes):
    rendered = Kubernetes().render(request(gang("a b"), POOL))
    (group,) = rendered.pod_groups
    unplaced = {"type": "PodGroupInitiallyScheduled", "status": "False", "message": "odd"}
    answered = group | {"status": {"conditions": [unplaced]}}

    def said(pod_group):
        seen = waiting(pod_group, rendered=rendered, pods=pods, pods_expected=pods)
        return [reason.code for reason in Kubernetes().waiting_reasons(seen)]

    assert said(group) == codes
    assert said(answered) == ["Unrecognised"]


def test_a_gang_of_one_without_a_key_waits_for_room_and_not_for_a_domain():
    gang_of_one = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    message = "0/1 placements are available: 1 Insufficient nvidia.com/gpu"
    condition = {"type": "PodGroupInitiallyScheduled", "status": "False", "message": message}
    group = {"metadata": {"name": "g"}, "spec": gang_of_one, "status": {"conditions": [condition]}}
    rendered = Kubernetes().render(request(gang("a"), POOL))
    (reason,) = Kubernetes().waiting_reasons(waiting(group, rendered=rendered, expected=("g",)))
    assert reason.code == "NotEnoughRoom"
    assert reason.message.startswith("There is no room for the task of")


KUBERNETES = {
    "no domain has room": (
        "0/3 placements are available: 3 Insufficient nvidia.com/gpu",
        'No rack has room for the 2 tasks of rack "r" at the moment; one rack is required.',
    ),
    "no node has the label": (
        (
            "no feasible placements found, workload aware preemption is not "
            "supported for pod groups with scheduling constraints"
        ),
        "No node carries label topology/rack of key rack.",
    ),
    "a text nobody has seen": ("odd", 'The scheduler says of rack "r": odd'),
}


@pytest.mark.parametrize("phrase", KUBERNETES)
def test_kubernetes_is_translated(phrase):
    raw, want = KUBERNETES[phrase]
    rendered = Kubernetes().render(request(gang("a b: rack! r"), POOL))
    status = {
        "conditions": [
            {
                "type": "PodGroupInitiallyScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": raw,
            }
        ]
    }
    (reason,) = Kubernetes().waiting_reasons(
        waiting({**rendered.pod_groups[0], "status": status}, rendered=rendered)
    )
    assert (reason.message, reason.raw) == (want, raw)


def test_the_default_scheduler_speaks_through_its_pods():
    rendered = Default().render(request(gang("a"), ()))
    quiet = waiting(
        {},
        rendered=RENDERED,
        sets=rendered.sets,
        pod_messages=("0/3 nodes are available.", "0/3 nodes are available."),
    )
    (reason,) = Default().waiting_reasons(quiet)
    assert reason.raw == "0/3 nodes are available."


SHORT = (
    "node-group a.r9 can allocate only 4 of 5 required pods. node-group z.r1 can allocate only 3 of 5 "
    "required pods"
)


def test_domains_of_other_pools_are_not_told():
    """KAI counts every node with the labels; those a selector keeps out mean nothing to a pool's user."""
    domains = {"z": "zone z", "z.r1": "rack r1 in zone z"}
    (reason,) = Kai().waiting_reasons(waiting(said_by_kai(SHORT), domains=domains))
    assert reason.message == "Only 3 of 5 tasks fit in rack r1 in zone z at the moment."


def test_a_reason_is_left_when_only_other_pools_domains_are_named():
    (reason,) = Kai().waiting_reasons(waiting(said_by_kai(SHORT), domains={"q": "zone q"}))
    assert reason.message == "No domain of the pool has room for all 5 tasks at the moment."
    assert "z.r1" in reason.raw


def all_in_one(*messages, **constraint):
    """One condition, as KAI writes it: a reason for each domain and the one that sums them up last."""
    reasons = [{"reason": "NotEnoughResources", "message": message} for message in messages]
    return {
        **RENDERED.pod_groups[0],
        "spec": {"topologyConstraint": constraint},
        "status": {"schedulingConditions": [{"transitionID": "1", "reasons": reasons}]},
    }


SHORT_OF_2 = [f"node-group {name} can allocate only {fit} of 2 required pods" for name, fit in
              (("a.r8", 0), ("z.r1", 0), ("a.r9", 0), ("z.r2", 1))]  # fmt: skip
NO_RACK = f"topology t, requirement topology/rack couldn't be satisfied for job <osmo/{GROUP.hex}>"


def test_a_reason_that_holds_of_all_domains_comes_before_each_of_them_and_the_nearest_first():
    domains = {"z.r1": "rack r1 in zone z", "z.r2": "rack r2 in zone z"}
    pod_group = all_in_one(" ".join(SHORT_OF_2), *SHORT_OF_2, NO_RACK)
    said = [reason.message for reason in Kai().waiting_reasons(waiting(pod_group, domains=domains))]
    assert said == [
        "No rack has room for the whole task group at the moment; one rack is required.",
        "Only 1 of 2 tasks fit in rack r2 in zone z at the moment.",
        "Only 0 of 2 tasks fit in rack r1 in zone z at the moment.",
    ]


def test_of_domains_that_are_all_other_pools_it_is_said_once_that_none_of_ours_has_room():
    domains = {"q": "zone q"}
    (whole,) = Kai().waiting_reasons(waiting(all_in_one(*SHORT_OF_2, NO_RACK), domains=domains))
    assert whole.message == "No rack has room for the whole task group at the moment; one rack is required."
    (alone,) = Kai().waiting_reasons(waiting(all_in_one(*SHORT_OF_2), domains=domains))
    assert alone.message == "No domain of the pool has room for all 2 tasks at the moment."
    required = all_in_one(*SHORT_OF_2, requiredTopologyLevel="topology/rack")
    (named,) = Kai().waiting_reasons(waiting(required, domains=domains, pods=2, pods_expected=2))
    assert named.message == "No rack has room for all 2 tasks at the moment; one rack is required."


def test_where_only_nodes_of_other_pools_are_named_no_domain_of_ours_has_room():
    """KAI looks at none of our nodes then, and those of other pools never match."""
    text = "Resources were not found for pod ns/p due to: no nodes with enough resources were found: "
    text += "48 node(s) didn't match Pod's node affinity/selector."
    required = all_in_one(text, requiredTopologyLevel="topology/rack")
    (of_one,) = Kai().waiting_reasons(waiting(required, pods=1, pods_expected=1))
    assert of_one.code == "TopologyNotSatisfied"
    assert of_one.message == "No rack has room for the task at the moment; one rack is required."
    (unconstrained,) = Kai().waiting_reasons(waiting(all_in_one(text), pods=1, pods_expected=1))
    assert unconstrained.code == "NodeSelector"


@pytest.mark.parametrize(
    ("bound_at", "want"),
    [
        ("2026-11-22T21:00:02Z", ["TopologyNotSatisfied"]),
        ("2026-11-22T21:00:04Z", ["TopologyNotSatisfied", "BindFailed"]),
        ("2026-11-22T21:00:05.000001Z", ["TopologyNotSatisfied", "BindFailed"]),
        ("2026-11-22T21:00:07Z", ["TopologyNotSatisfied", "BindFailed"]),
        ("2026-11-22T21:00:08Z", ["BindFailed"]),
        ("no time", ["TopologyNotSatisfied", "BindFailed"]),
        ("", ["TopologyNotSatisfied", "BindFailed"]),
    ],
)
def test_a_failure_to_bind_counts_until_the_scheduler_reports_again(bound_at, want):
    """The condition stays on the pod for ever, and would hide every reason that follows it."""
    rendered = Kai().render(request(gang("a b c d: "), POOL))
    report = said_by_kai("topology t, requirement topology/zone couldn't be satisfied for job <osmo/g>")
    (condition,) = report["status"]["schedulingConditions"]
    condition["lastTransitionTime"] = "2026-11-22T21:00:05Z"
    group = {**rendered.pod_groups[0], "status": report["status"]}
    failures = (BindFailure("could not", bound_at),)
    reasons = Kai().waiting_reasons(
        waiting(group, rendered=rendered, pods=4, pods_expected=4, bind_failures=failures)
    )
    assert [reason.code for reason in reasons] == want


@pytest.mark.parametrize(
    ("fit", "want"),
    [
        (0, "There is no room for the 4 tasks, which must start together."),
        (3, "There is room for 3 tasks, but 4 must start together."),
    ],
)
def test_a_gang_without_a_requirement_is_told_how_many_fit(fit, want):
    rendered = Kai().render(request(gang("a b c d: "), POOL))
    said = f"Resources were found for {fit} pods while 4 are required for gang scheduling."
    group = {**rendered.pod_groups[0], "status": said_by_kai(said)["status"]}
    (reason,) = Kai().waiting_reasons(waiting(group, rendered=rendered, pods=4, pods_expected=4))
    assert (reason.code, reason.message) == ("NotEnoughRoom", want)
