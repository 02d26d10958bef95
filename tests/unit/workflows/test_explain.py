"""A waiting group says what it waits for, the first obstacle on its way and no stale one."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from scheduling.backends.base import Waiting, WaitingReason, WaitKind
from scheduling.backends.registry import scheduler_backend
from scheduling.topology.coverage import cover
from scheduling.topology.drift import Drift
from scheduling.topology.levels import Level
from workflows.explain.finders import waiting_reason
from workflows.explain.levels import uncovered
from workflows.explain.observed_group import ObservedGroup
from workflows.explain.obstacles import (
    ANOTHER_WORKFLOW,
    BusyNode,
    OccupiedNode,
    TopologyDrift,
    UnpreparedClaim,
    WaitingContainer,
    occupied_sentence,
)
from workflows.explain.reasons import HELP, Why, upstream_reason
from workflows.explain.unplaced import of_one_cause
from workflows.lifecycle.domain_health import DomainHealth
from workflows.lifecycle.statuses import TERMINAL

KAI = scheduler_backend("kai")
ZONE, RACK = Level("zone", "topo/zone"), Level("rack", "topo/rack")
TEN = datetime(2026, 1, 1, 10, tzinfo=UTC)
NO_RACK = "topology t, requirement topo/rack couldn't be satisfied for job <osmo/g>"


def waiting(*, placed=False, message=NO_RACK):
    group = {
        "metadata": {"name": "g"},
        "status": {"schedulingConditions": [{"reasons": [{"message": message}]}]},
    }
    return Waiting(
        placed=placed,
        expected=("g",),
        pod_groups=(group,),
        pods=4,
        pods_expected=4,
        levels=(ZONE, RACK),
        sets={},
    )


def seen(**changes):
    return ObservedGroup(
        **{"status": "SCHEDULING", "backend": "east", "scheduler": KAI, "waiting": waiting(), **changes}
    )


def said(**changes):
    reason = waiting_reason(seen(**changes))
    return reason.sentence if reason else ""


NO_CHANNEL = (
    "Resources were found for 0 pods while 2 are required for gang scheduling. Additional pods cannot be "
    "scheduled due to: no nodes with enough resources were found: 2 cannot allocate all claims"
)
BAD_IMAGE = WaitingContainer(task="a", image="nowhere/x:1", reason="ErrImagePull", message="no such host")
HELD = OccupiedNode(node="n1", domain="osmo-1", workflow="old-1", ended=True, removing=True)
GONE = "None of the pool's 2 nodes carries label topo/zone"

CASES = {
    "a silent cluster": (
        {"unreachable_since": TEN},
        'The cluster of backend "east" has not answered since 2026-01-01T10:00:00 UTC',
    ),
    "a level that is gone": (
        {"missing_levels": GONE},
        f"{GONE} You can wait until it is back, cancel the workflow, or",
    ),
    "a refused object": ({"trouble": "quota exceeded"}, "a minute later: quota exceeded."),
    "a missing template": ({"template": "osmo-1-channel"}, "It waits for claim template osmo-1-channel"),
    "nothing made yet": ({"waiting": None}, "Its objects are being created"),
    "a rack without room": ({}, "No rack has room for the whole task group at the moment"),
    "a silent scheduler": ({"waiting": waiting(message="")}, "has given no reason"),
    "an image": (
        {"waiting": waiting(placed=True), "starting": [BAD_IMAGE, replace(BAD_IMAGE, task="b")]},
        "Image nowhere/x:1 of tasks a and b cannot be pulled (ErrImagePull). The node says: no such host.",
    ),
    "an image of one task while the others run": (
        {"status": "RUNNING", "starting": [replace(BAD_IMAGE, reason="InvalidImageName", message="")]},
        "Image nowhere/x:1 of task a is not a valid image name (InvalidImageName).",
    ),
    "containers that start": (
        {
            "waiting": waiting(placed=True),
            "starting": [WaitingContainer(task="a", reason="ContainerCreating")],
        },
        "starting: 1 waits for ContainerCreating.",
    ),
    "a Topology object with a level more": (
        {"drift": TopologyDrift("t", Drift(("topo/rack",), ("topo/zone", "topo/rack")))},
        "Only nodes that carry all of its labels can be used. No rack has room",
    ),
    "a node that a former ComputeDomain holds": (
        {"waiting": waiting(message=NO_CHANNEL), "occupied": [HELD, replace(HELD, node="n2")]},
        "Nodes n1 and n2 are still held by ComputeDomain osmo-1 of workflow old-1, which has ended; it",
    ),
    "a scheduler that waits for what is being deleted": (
        {"waiting": waiting(message=""), "occupied": [HELD]},
        "Node n1 is still held by ComputeDomain osmo-1 of workflow old-1",
    ),
    "a node that a foreign ComputeDomain holds": (
        {"waiting": waiting(placed=True), "occupied": [replace(HELD, workflow="", domain="u-1")]},
        "cannot start there yet. Node n1 is still held by ComputeDomain u-1, which this service did not",
    ),
    "channels that running work holds": (
        {"waiting": waiting(message=NO_CHANNEL), "occupied": [replace(HELD, ended=False)]},
        "Each node has one NVLink channel, and running work uses too many of them.",
    ),
    "no driver": (
        {"waiting": waiting(message=NO_CHANNEL)},
        "No node has a free NVLink channel for it, and no ComputeDomain is known to hold one",
    ),
    "no ComputeDomains at all": (
        {"trouble": "The cluster does not serve ComputeDomain.", "compute_domains_unserved": True},
        'The cluster of backend "east" does not serve ComputeDomains: The cluster does not serve',
    ),
}


@pytest.mark.parametrize(("changes", "want"), CASES.values(), ids=CASES)
def test_a_group_says_what_it_waits_for(changes, want):
    assert want in said(**changes)


def test_a_reason_that_two_pod_groups_share_is_told_once():
    twice = replace(waiting(), pod_groups=waiting().pod_groups * 2, expected=waiting().expected * 2)
    assert said(waiting=twice).count("No rack has room") == 1


NOT_READY = {
    "reason": "NotReady",
    "message": "Job is not ready for scheduling. Waiting for 4 pods, currently 3 exist, 0 are gated.",
}
NO_ROOM = "Resources were found for 3 pods while 4 are required for gang scheduling."


def test_missing_pods_are_not_told_beside_room_once_all_pods_exist():
    """The scheduler's event stays when the last pod is created; by then it is wrong."""
    complete = replace(waiting(message=NO_ROOM), events=(NOT_READY,))
    assert said(waiting=complete) == "There is room for 3 tasks, but 4 must start together."
    late = replace(waiting(message=f"{NOT_READY['message']} {NO_ROOM}"))
    assert said(waiting=late) == "There is room for 3 tasks, but 4 must start together."


def test_missing_pods_alone_are_not_told_once_all_pods_exist():
    complete = replace(waiting(message=""), events=(NOT_READY,))
    assert said(waiting=complete) == "The scheduler has not placed it yet and has given no reason."


def test_the_schedulers_word_on_room_is_not_told_while_pods_are_missing():
    """Its condition is of a time when the gang was complete; it judges none that is not."""
    incomplete = replace(waiting(message=NO_ROOM), pods=3, events=(NOT_READY,))
    assert said(waiting=incomplete) == "3 of 4 pods exist; the gang waits for the rest."


def test_a_task_that_is_tried_again_waits_for_one_thing_as_well():
    again = replace(waiting(message=NO_ROOM), pods=3, events=(NOT_READY,))
    assert said(status="RUNNING", waiting=again, retried=("a",)) == (
        'Task "a" is tried again and waits for a place. 3 of 4 pods exist; the gang waits for the rest.'
    )


def test_a_task_that_is_tried_again_says_how_many_groups_go_before_it():
    """Their number alone: the caller may not be allowed to list them."""
    queued = seen(status="RUNNING", waiting=waiting(message=NO_ROOM), retried=("a",), queued_behind=2)
    reason = waiting_reason(queued)
    assert reason.sentence.startswith(
        'Task "a" is tried again and waits for a place. It is queued behind 2 groups of the pool that have '
        "no task running: the scheduler serves these first."
    )
    assert reason.evidence["queued_behind"] == 2


def test_a_quota_and_a_lack_of_room_are_not_told_as_one():
    over = "Non-preemptible workload is over quota"
    reason = waiting_reason(seen(waiting=waiting(message=f"{over}. {NO_ROOM}")))
    assert (reason.why, reason.sentence) == (
        Why.CAPACITY,
        "There is room for 3 tasks, but 4 must start together.",
    )
    assert over in reason.evidence["scheduler_says"][0]


OTHER_ROOM = "node-group z1.r2 can allocate only 1 of 4 required pods"


@pytest.mark.parametrize(
    ("messages", "on_pod", "more"),
    [
        ((NO_ROOM,), f"PodSchedulingErrors: {NO_ROOM}.", False),
        ((NO_RACK, OTHER_ROOM), f"Unable to schedule podgroup: {NO_RACK}. \n2 {OTHER_ROOM}.", False),
        ((NO_RACK,), f"Unable to schedule podgroup: {NO_RACK}. \n{OTHER_ROOM}.", True),
        ((NO_RACK,), "Unable to schedule pod", True),
    ],
)
def test_the_schedulers_words_stand_once_though_it_writes_them_on_group_and_pods(messages, on_pod, more):
    """KAI writes each error on the pod group, and all of them joined, behind their kind, on each pod."""
    on_group = {"schedulingConditions": [{"reasons": [{"message": message} for message in messages]}]}
    group = {"metadata": {"name": "g"}, "status": on_group}
    observed = replace(waiting(), pod_groups=(group,), pod_messages=(on_pod,))
    reason = waiting_reason(seen(waiting=observed))
    assert sorted(reason.evidence["scheduler_says"]) == sorted([*messages, *([on_pod] if more else [])])


@pytest.mark.parametrize("status", sorted({"RUNNING", *TERMINAL}))
def test_a_group_that_runs_or_has_ended_waits_for_nothing(status):
    assert said(status=status, missing_levels=GONE) == ""


def test_a_condition_that_the_scheduler_left_behind_is_not_told_once_the_pods_have_nodes():
    assert "rack" not in said(waiting=waiting(placed=True))
    assert "topo/zone" not in said(waiting=waiting(placed=True), missing_levels=GONE)


def test_a_cluster_that_does_not_answer_comes_before_what_its_scheduler_once_said():
    assert "rack" not in said(unreachable_since=TEN)


UNLABELLED = {
    "n1": {"topo/zone": "a", "topo/rack": "1"},
    "n2": {"topo/zone": "a"},
    "n3": {"topo/rack": "1"},
}


def test_nodes_that_a_label_keeps_out_are_no_cause_where_room_is_missing():
    """The verdict names them where they would help; on a full pool they do not."""
    group = seen(coverage=cover(UNLABELLED, (ZONE, RACK), named=3, paths=True))
    reason = waiting_reason(group)
    assert reason.sentence == "No rack has room for the whole task group at the moment; one rack is required."
    assert [entry["not_seen"] for entry in reason.evidence["labels"]] == [1, 2]


def test_nodes_that_a_label_keeps_out_are_counted_and_named_where_no_reason_is_known():
    coverage = cover(UNLABELLED, (ZONE, RACK), named=3, paths=True)
    text = said(waiting=waiting(message=""), coverage=coverage)
    assert "1 of the pool's 3 nodes lacks label topo/zone" in text
    assert '2 of the pool\'s 3 nodes lack label topo/rack of key "rack" or of a broader one' in text
    assert "n2 and n3." in text


def test_of_many_nodes_a_few_are_named():
    nodes = {f"n{i}": {} for i in range(10)} | {"carrier": {"topo/zone": "a"}}
    (sentence,) = uncovered(cover(nodes, (ZONE,), named=3, paths=True))
    assert sentence.endswith("for these tasks: n0, n1, n2 and 7 more.")


KINDS = {
    "an image": Why.IMAGE,
    "a Topology object with a level more": Why.DRIFT,
    "a node that a former ComputeDomain holds": Why.CHANNEL,
    "a node that a foreign ComputeDomain holds": Why.CHANNEL,
    "channels that running work holds": Why.CLAIM,
    "no driver": Why.NOT_SERVED,
    "no ComputeDomains at all": Why.NOT_SERVED,
}


@pytest.mark.parametrize(("case", "why"), KINDS.items(), ids=KINDS)
def test_each_obstacle_is_of_its_own_kind_with_evidence_that_is_json(case, why):
    reason = waiting_reason(seen(**CASES[case][0]))
    assert reason.why == why
    assert reason.evidence
    assert json.loads(json.dumps(reason.evidence)) == reason.evidence


def test_every_kind_says_what_would_help():
    assert set(HELP) == set(Why)


def test_every_kind_of_a_schedulers_reason_is_one_of_the_explanation():
    assert {str(kind) for kind in WaitKind} <= {str(why) for why in Why}


def test_a_former_domain_of_a_hidden_workflow_is_told_without_its_name():
    held = OccupiedNode(node="n1", domain="osmo-1", workflow=ANOTHER_WORKFLOW, ended=True)
    assert occupied_sentence([held]) == (
        "Node n1 is still held by ComputeDomain osmo-1 of another workflow, which has ended; "
        "it has not been removed yet."
    )


def test_a_reason_that_no_room_cures_is_stated_before_a_lack_of_room():
    of_room = WaitingReason("TopologyNotSatisfied", "No rack has room.")
    of_pod = WaitingReason("VolumeMissing", "A claim does not exist.")
    assert of_one_cause([of_room, of_pod], KAI.texts.meanings) == [of_pod]


def test_closed_nodes_are_the_cause_only_where_nothing_else_lacks_room():
    """KAI counts them in every message, on a full pool too."""
    of_room = WaitingReason("NotEnoughRoom", "Not enough free GPUs.")
    closed = WaitingReason("NodesClosed", "Nodes are cordoned.")
    assert of_one_cause([closed, of_room], KAI.texts.meanings) == [of_room]
    assert of_one_cause([closed], KAI.texts.meanings) == [closed]


@pytest.mark.parametrize("text", ["1 node is unschedulable.", "2 node(s) were not ready."])
def test_closed_nodes_that_a_scheduler_counts_are_told_as_what_it_says(text):
    """Lists show the sentence without a verdict, which alone knows whether they would help."""
    text = f"no nodes with enough resources were found: {text}"
    reason = waiting_reason(seen(waiting=waiting(message=text)))
    assert reason.why == Why.NODES
    assert reason.sentence.startswith(
        "Its scheduler finds no place for it and says: Nodes that these tasks may use"
    )


PREPARING = "Failed to prepare dynamic resources: "
OTHER = "label already exists for a different ComputeDomain"
PREPARED = {
    "the domain lists it": (DomainHealth(2, ("n1",)), (), "1 of 2 nodes of its NVLink domain is ready."),
    "the kubelet reports it": (
        None,
        (UnpreparedClaim(task="a", node="n1", message=f"{PREPARING}{OTHER}"),),
        f"The kubelet of n1 cannot prepare the claims of task a: {OTHER}.",
    ),
    "both do": (
        DomainHealth(2, ("n1",)),
        (UnpreparedClaim(task="a", node="n1", message=OTHER),) * 3,
        f"Not ready: n1. The kubelet of n1 cannot prepare the claims of task a: {OTHER}. The same holds",
    ),
    "a message is endless": (
        None,
        (UnpreparedClaim(task="a", node="n", message="x" * 999),),
        f"{'x' * 300}...",
    ),
}


@pytest.mark.parametrize("status", ["SCHEDULING", "RUNNING"])
def test_a_task_that_cannot_get_its_assigned_node_says_who_uses_it_and_what_follows(status):
    busy = BusyNode(
        task="b",
        node="n2",
        message="0/4 nodes are available: 1 Insufficient nvidia.com/gpu.",
        users="1 pod of other tenants uses 4 of its 4 GPUs.",
        until=datetime(2026, 11, 23, 12, 3, 4, tzinfo=UTC),
    )
    reason = waiting_reason(seen(status=status, waiting=waiting(), busy=(busy, busy)))
    assert reason.why == Why.NODE_BUSY
    assert reason.sentence == (
        "Task b cannot be bound to node n2, which the group's scheduler assigned to it (0/4 nodes are "
        "available: 1 Insufficient nvidia.com/gpu). 1 pod of other tenants uses 4 of its 4 GPUs. The same "
        "holds for 1 more task. At 12:03:04 UTC the group's room is given back and asked for again, unless "
        "all its tasks have their nodes."
    )
    assert reason.evidence["assigned_nodes"][0]["node"] == "n2"


MISSING = {
    "refused by the API server": (
        {"trouble": 'pods "x" is forbidden: no PriorityClass with name urgent was found', "waiting": None},
        'Its pods name PriorityClass "urgent", which does not exist in the cluster.',
    ),
    "waited for by the scheduler": (
        {"waiting": waiting(message='VolumeBinding: persistentvolumeclaim "data" not found.')},
        'Its pods name PersistentVolumeClaim "data", which does not exist in namespace "ml".',
    ),
    "a template of claims, told by an event, in a pool with NVLink": (
        {
            "waiting": waiting(message="ResourceClaim not created yet"),
            "occupied": [HELD],
            "reports": ['resource claim template "gpus": resourceclaimtemplate "gpus" not found'],
        },
        'Its pods name ResourceClaimTemplate "gpus", which does not exist in namespace "ml".',
    ),
    "a Secret of a container": (
        {
            "waiting": waiting(placed=True),
            "starting": [
                WaitingContainer(
                    task="a", reason="CreateContainerConfigError", message='secret "token" not found'
                )
            ],
        },
        'Its pods name Secret "token", which does not exist in namespace "ml".',
    ),
    "a ConfigMap of a volume": (
        {
            "waiting": waiting(placed=True),
            "starting": [WaitingContainer(task="a", reason="ContainerCreating")],
            "reports": ['MountVolume.SetUp failed for volume "v" : configmap "settings" not found'],
        },
        'Its pods name ConfigMap "settings", which does not exist in namespace "ml".',
    ),
    "a Secret of a task that is tried again": (
        {
            "status": "RUNNING",
            "starting": [
                WaitingContainer(
                    task="a", reason="CreateContainerConfigError", message='secret "token" not found'
                )
            ],
        },
        'Its pods name Secret "token", which does not exist in namespace "ml".',
    ),
}


CREDENTIAL = "user-0123456789abcdef0123-"
UNCONFIGURED = f'secret "{CREDENTIAL}wandb" not found'
WITHOUT_KEY = f"couldn't find key token in Secret ml/{CREDENTIAL}wandb"
CREDENTIALS = {
    "a credential": (UNCONFIGURED, f'Its pods name credential "wandb" (Secret "{CREDENTIAL}wandb"), which'),
    "a key of it": (WITHOUT_KEY, 'Its pods name key "token" of credential "wandb" (Secret'),
}


@pytest.mark.parametrize("case", CREDENTIALS)
def test_a_credential_of_the_user_is_named_as_the_user_does_and_no_template_is_blamed(case):
    message, want = CREDENTIALS[case]
    starting = [WaitingContainer(task="a", reason="CreateContainerConfigError", message=message)]
    group = seen(
        waiting=waiting(placed=True), starting=starting, namespace="ml", credential_prefix=CREDENTIAL
    )
    reason = waiting_reason(group)
    assert reason.sentence.startswith(want)
    assert "template" not in reason.own_help
    (named,) = reason.evidence["missing_objects"]["named"]
    assert named["credential"] == "wandb"


OTHERS_SECRETS = {
    "another user's": ('secret "user-aaaaaaaaaaaaaaaaaaaa-wandb" not found', CREDENTIAL),
    "one of the pool": ('secret "wandb" not found', CREDENTIAL),
    "where no user is known": (UNCONFIGURED, ""),
    "one beside a ConfigMap of the template": (f'{UNCONFIGURED}; configmap "settings" not found', CREDENTIAL),
}


@pytest.mark.parametrize("case", OTHERS_SECRETS)
def test_other_secrets_keep_the_help_for_administrators(case):
    message, prefix = OTHERS_SECRETS[case]
    starting = [WaitingContainer(task="a", reason="CreateContainerConfigError", message=message)]
    group = seen(waiting=waiting(placed=True), starting=starting, credential_prefix=prefix)
    assert waiting_reason(group).help == HELP[Why.MISSING]


def test_what_a_container_says_now_comes_before_a_report_of_its_kubelet():
    starting = [WaitingContainer(task="a", reason="X", message='secret "token" not found')]
    reports = ['MountVolume.SetUp failed for volume "v" : configmap "settings" not found']
    reason = waiting_reason(seen(waiting=waiting(placed=True), starting=starting, reports=reports))
    assert "token" in reason.sentence
    assert "settings" not in reason.sentence


@pytest.mark.parametrize("case", MISSING)
def test_an_object_that_does_not_exist_is_named_as_that_with_the_way_out(case):
    changes, want = MISSING[case]
    reason = waiting_reason(seen(namespace="ml", **changes))
    assert (reason.why, reason.sentence) == (Why.MISSING, want)
    assert "corrects the pod template" in HELP[reason.why]
    assert reason.evidence["missing_objects"]["said"]


def test_an_old_event_on_claims_does_not_count_once_the_scheduler_waits_for_room():
    event = 'resource claim template "gpus": resourceclaimtemplate "gpus" not found'
    assert waiting_reason(seen(reports=[event])).why == Why.TOPOLOGY


def test_objects_of_the_service_that_are_missing_are_no_mistake_of_a_template():
    own = 'secret "osmo-0123456789abcdef0123456789abcdef-files" not found'
    starting = [WaitingContainer(task="a", reason="CreateContainerConfigError", message=own)]
    assert waiting_reason(seen(waiting=waiting(placed=True), starting=starting)).why == Why.STARTING


def test_nodes_that_offer_gpus_through_dra_alone_are_not_told_as_closed():
    text = "2 node(s) expose GPUs through dynamic resource allocation only"
    text = f"no nodes with enough resources were found: {text}"
    reason = waiting_reason(seen(waiting=waiting(message=text)))
    assert reason.why == Why.CAPACITY
    assert "offer their GPUs only through DRA" in reason.sentence
    assert "claim template" in reason.own_help


@pytest.mark.parametrize("case", PREPARED)
def test_a_task_whose_claims_are_not_prepared_says_what_is_known(case):
    domain, unprepared, want = PREPARED[case]
    group = seen(waiting=waiting(placed=True), domain=domain, unprepared=unprepared)
    reason = waiting_reason(group)
    assert reason.why == Why.NVLINK
    assert want in reason.sentence
    assert len(reason.evidence.get("unprepared_claims", ())) == len(unprepared)


@pytest.mark.parametrize(
    ("upstream", "want"),
    [
        (["prep"], 'It starts when group "prep" has completed.'),
        (["a", "b"], 'It starts when all of its 2 upstream groups have completed: "a" and "b".'),
        (
            [f"g{n}" for n in range(900)],
            '900 upstream groups have completed: "g0", "g1", "g2", "g3", "g4"',
        ),
    ],
)
def test_a_group_that_starts_after_others_names_some_of_them(upstream, want):
    reason = upstream_reason(upstream)
    assert want in reason.sentence
    assert reason.evidence["upstream"] == upstream[:20]
