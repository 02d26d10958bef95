import pytest

from scheduling.gang.nvlink import (
    ChannelClaim,
    channel_claims,
    check_nvlink,
    claim_faults,
    raised_gpus,
)
from scheduling.topology.levels import Level
from tests.unit.scheduling.build import gang, nvlink_tasks

POOL = (
    Level("rack", "t/rack"),
    Level("clique", "nvidia.com/gpu.clique"),
    Level("host", "kubernetes.io/hostname"),
)

CLAIMS = {
    # tasks as name:GPUs@platform=word, the group's word: the claims, in order
    "two tasks with GPUs": ("a:4@gb200 b:4@gb200", None, "several several"),
    "one task with GPUs": ("a:4@gb200 b:0@gb200", None, "alone no_gpu"),
    "a driver without GPU": ("a:0@gb200 b:4@gb200 c:4@gb200", None, "no_gpu several several"),
    "two platforms": ("a:4@gb200 b:4@gb200 c:8@h100", None, "several several platform_false"),
    "one task on NVLink": ("a:4@gb200 b:8@h100", None, "alone platform_false"),
    "no platform with NVLink": ("a:8@h100 b:8@h100", None, "platform_false platform_false"),
    "a lone task that says so": ("a:1@gb200=true", None, "task_true"),
    "a task that leaves": ("a:4@gb200=false b:4@gb200 c:4@gb200", None, "task_false several several"),
    "a task that leaves its only peer": ("a:4@gb200=false b:4@gb200", None, "task_false alone"),
    "a group of one that says so": ("a:1@gb200", True, "group_true"),
    "a task against its group": ("a:4@gb200=false b:4@gb200", True, "task_false group_true"),
    "a group without ComputeDomain": ("a:4@gb200 b:4@gb200", False, "no_domain no_domain"),
}


def decide(phrase, word, *, pool_has_nvlink=True):
    """The claims by task, and the codes of faults with the steps at which they stand."""
    tasks = nvlink_tasks(phrase)
    claims = channel_claims(tasks, group_word=word, has_domain=pool_has_nvlink and word is not False)
    faults = claim_faults(
        tasks,
        claims,
        group_word=word,
        group_path=("workflow", "groups", 0),
        pool="p",
        pool_has_nvlink=pool_has_nvlink,
    )
    return claims, [(fault.code, fault.path[3:]) for fault in faults]


@pytest.mark.parametrize("case", CLAIMS)
def test_the_claim_of_a_task_follows_from_task_group_platform_and_pool(case):
    phrase, word, want = CLAIMS[case]
    claims, faults = decide(phrase, word)
    assert " ".join(claims.values()) == want
    assert faults == []


CONTRADICTIONS = {
    "a platform without NVLink": ("a:8@h100=true", None, True, "nvlink_not_on_platform", ("tasks", 0)),
    "a group with such a platform": ("a:8@h100 b:4@gb200", True, True, "nvlink_not_on_platform", ()),
    "a group without ComputeDomain": ("a:4@gb200=true", False, True, "nvlink_contradiction", ("tasks", 0)),
    "a task without GPU": ("a:0@gb200=true", None, True, "nvlink_without_gpu", ("tasks", 0)),
    "a task in a pool without NVLink": ("a:4@gb200=true", None, False, "nvlink_not_in_pool", ("tasks", 0)),
    "a group in a pool without NVLink": ("a:4@gb200", True, False, "nvlink_not_in_pool", ()),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_a_claim_that_cannot_be_is_refused_where_it_is_written(case):
    phrase, word, pool_has_nvlink, code, place = CONTRADICTIONS[case]
    assert decide(phrase, word, pool_has_nvlink=pool_has_nvlink)[1] == [(code, (*place, "nvlink"))]


def claims_of(asked):
    """Claims of tasks with GPUs, as a group of any size makes them that says ``nvlink: true``."""
    return {t.name: ChannelClaim.GROUP if t.gpus else ChannelClaim.NO_GPU for t in asked.tasks}


GROUPS = {
    "a required clique": (gang("a b*4: clique! c"), []),
    "a required level narrower than the clique": (gang("a b*4: host! h"), []),
    "nothing required": (gang("a b*4"), ["nvlink_without_clique"]),
    "only a rack required": (gang("a b*4: rack! r"), ["nvlink_without_clique"]),
    "only a preferred clique": (gang("a b*4: clique? c"), ["nvlink_without_clique"]),
    "one claiming task": (gang("a*4", "b"), []),
    "no claiming task": (gang("a b"), ["nvlink_unused"]),
    "part of a node": (gang("a b*2: clique! c"), ["nvlink_partial_node"]),
}


@pytest.mark.parametrize("phrase", GROUPS)
def test_warned_of(phrase):
    asked, want = GROUPS[phrase]
    notices = check_nvlink(asked, POOL, claims=claims_of(asked), node_gpus={"a": 4, "b": 4}, raised={})
    assert [notice.code for notice in notices] == want


def test_a_pool_without_a_clique_key_says_which_label_is_missing():
    asked = gang("a b*4: rack! r")
    (notice,) = check_nvlink(asked, POOL[:1], claims=claims_of(asked), node_gpus={}, raised={})
    assert "nvidia.com/gpu.clique" in notice.message


def test_a_claim_for_part_of_a_node_counts_the_gpus_that_stand_idle_through_it():
    asked = gang("a b*1: clique! c")
    (notice,) = check_nvlink(asked, POOL, claims=claims_of(asked), node_gpus={"a": 4, "b": 4}, raised={})
    assert "The other 6 GPUs" in notice.message


def test_a_domain_that_nobody_uses_is_mentioned_with_the_reason():
    asked = gang("a*4")
    (notice,) = check_nvlink(asked, POOL, claims={"a": ChannelClaim.ALONE}, node_gpus={}, raised={})
    assert notice.code == "nvlink_unused"
    assert ChannelClaim.ALONE.sentence in notice.message
    assert "`nvlink: true`" in notice.message


RAISED = {
    "one GPU of four each": ({"a": 1, "b": 1}, {"a": 4, "b": 4}, {"a": 3, "b": 3}),
    "half a node each": ({"a": 2, "b": 2}, {"a": 4, "b": 4}, {"a": 3, "b": 3}),
    "more than half": ({"a": 3, "b": 3}, {"a": 4, "b": 4}, {}),
    "a small one beside a large one": ({"a": 1, "b": 3}, {"a": 4, "b": 4}, {"a": 3}),
    "a small one beside a whole node": ({"a": 1, "b": 4}, {"a": 4, "b": 4}, {}),
    "an odd number": ({"a": 2, "b": 2, "c": 5}, {"a": 5, "b": 5, "c": 5}, {"a": 3, "b": 3}),
    "one claim": ({"a": 1}, {"a": 4}, {}),
    "no claim": ({}, {}, {}),
    "nodes not seen": ({"a": 1, "b": 1}, {"a": 0, "b": 0}, {}),
    "platforms that can share small nodes": ({"a": 1, "b": 1}, {"a": 4, "b": 8}, {"a": 3, "b": 5}),
    "small ones on the larger platform alone": (
        {"a": 1, "b": 4, "c": 4, "d": 4},
        {"a": 4, "b": 4, "c": 8, "d": 8},
        {"a": 3, "c": 5, "d": 5},
    ),
    "platforms with no such node": ({"a": 3, "b": 2}, {"a": 8, "b": 4}, {}),
}


@pytest.mark.parametrize("phrase", RAISED)
def test_claims_that_could_share_a_node_ask_for_more_than_half_of_it(phrase):
    gpus, node_gpus, want = RAISED[phrase]
    assert raised_gpus(gpus, node_gpus) == want


def test_the_author_is_told_what_the_queue_counts_for_such_claims():
    asked = gang("a b*1: clique! c")
    notices = check_nvlink(
        asked, POOL, claims=claims_of(asked), node_gpus={"a": 4, "b": 4}, raised={"a": 3, "b": 3}
    )
    (message,) = [notice.message for notice in notices if notice.code == "nvlink_raised_gpus"]
    assert '"a" and "b" ask its queue for 3 GPUs each' in message
    assert "4 GPUs of the queue's quota more" in message
    (message,) = [notice.message for notice in notices if notice.code == "nvlink_partial_node"]
    assert "The other 2 GPUs of these nodes are left to tasks that claim no channel" in message
