import pytest

from scheduling.levels import Level
from scheduling.nvlink import ChannelClaim, NvlinkTask, channel_claims, check_nvlink, claim_faults
from tests.unit.scheduling.build import gang

POOL = (
    Level("rack", "t/rack"),
    Level("clique", "nvidia.com/gpu.clique"),
    Level("host", "kubernetes.io/hostname"),
)

HARDWARE = {"gb200": True, "h100": False}

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


def nvlink_tasks(phrase):
    tasks = []
    for word in phrase.split():
        name, _, rest = word.partition(":")
        gpus, _, rest = rest.partition("@")
        platform, _, own = rest.partition("=")
        tasks.append(
            NvlinkTask(
                name=name,
                gpus=int(gpus),
                word={"": None, "true": True, "false": False}[own],
                platform=platform,
                platform_has_nvlink=HARDWARE[platform],
                path=("workflow", "groups", 0, "tasks", len(tasks)),
            )
        )
    return tasks


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
def test_who_claims_follows_from_task_group_platform_and_pool(case):
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
    notices = check_nvlink(
        asked, POOL, claims=claims_of(asked), node_gpus={"a": 4, "b": 4}, counts_channels=True
    )
    assert [notice.code for notice in notices] == want


def test_a_pool_without_a_clique_key_says_which_label_is_missing():
    asked = gang("a b*4: rack! r")
    (notice,) = check_nvlink(asked, POOL[:1], claims=claims_of(asked), node_gpus={}, counts_channels=True)
    assert "nvidia.com/gpu.clique" in notice.message


def test_a_claim_for_part_of_a_node_counts_the_gpus_that_stand_idle_through_it():
    asked = gang("a b*1: clique! c")
    (notice,) = check_nvlink(
        asked, POOL, claims=claims_of(asked), node_gpus={"a": 4, "b": 4}, counts_channels=True
    )
    assert "The other 6 GPUs" in notice.message


def test_a_domain_that_nobody_uses_is_mentioned_with_the_reason():
    asked = gang("a*4")
    (notice,) = check_nvlink(
        asked, POOL, claims={"a": ChannelClaim.ALONE}, node_gpus={}, counts_channels=True
    )
    assert notice.code == "nvlink_unused"
    assert ChannelClaim.ALONE.sentence in notice.message
    assert "`nvlink: true`" in notice.message


@pytest.mark.parametrize(("gpus", "warned"), [(1, True), (2, True), (3, False), (4, False)])
def test_claims_that_a_scheduler_may_put_on_one_node_are_warned_of(gpus, warned):
    asked = gang(f"a b*{gpus}: clique! c")
    nodes = {"a": 4, "b": 4}
    notices = check_nvlink(asked, POOL, claims=claims_of(asked), node_gpus=nodes, counts_channels=False)
    messages = [notice.message for notice in notices if notice.code == "nvlink_shared_node"]
    assert bool(messages) == warned
    assert all("With 3 GPUs for each of them no two share a node" in message for message in messages)
