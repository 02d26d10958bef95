"""What a pool relies on of Kueue's queues: the flavors that its gangs may get, or why they get none."""

from decimal import Decimal
from functools import partial

import pytest

from scheduling.backends.kueue import Kueue
from scheduling.queues.queue_state import QuotaAnswer
from scheduling.topology.levels import HOSTNAME_LABEL, Level
from tests.fakes.kueue_objects import (
    cluster_queue,
    flavor,
    local_queue,
    readings,
)

KUEUE = Kueue()
WHOLE = {"cluster queue": cluster_queue("cq", ("h100", 64)), "flavor": flavor("h100", {"pool": "p"}, "floor")}


def joined(*objects, selector=None):
    selector = {"pool": "p"} if selector is None else selector
    return KUEUE.joined_queue("osmo", "team", selector=selector, objects=readings(*objects))


def test_a_local_queue_leads_to_flavors_and_their_topologies():
    queue = joined(local_queue("osmo/team", "cq"), *WHOLE.values())
    assert queue.faults == ()
    assert [(flavor.name, flavor.node_labels) for flavor in queue.flavors] == [("h100", {"pool": "p"})]
    assert queue.topologies == ("floor",)


CASES = {
    "no local queue": ([], "LocalQueueNotFound", 'no LocalQueue "team" in namespace osmo'),
    "one of another namespace": ([local_queue("other/team", "cq")], "LocalQueueNotFound", "team"),
    "a local queue without a cluster queue": (
        [local_queue("osmo/team", "cq")],
        "ClusterQueueNotFound",
        'no ClusterQueue "cq", which LocalQueue "team" names',
    ),
    "a stopped local queue": (
        [local_queue("osmo/team", "cq", stop="Hold"), *WHOLE.values()],
        "LocalQueueStopped",
        'LocalQueue "team" is stopped (stopPolicy Hold)',
    ),
    "a stopped cluster queue": (
        [
            local_queue("osmo/team", "cq"),
            cluster_queue("cq", ("h100", 64), stop="HoldAndDrain"),
            WHOLE["flavor"],
        ],
        "ClusterQueueStopped",
        "stopPolicy HoldAndDrain",
    ),
    "an inactive cluster queue": (
        [
            local_queue("osmo/team", "cq"),
            cluster_queue("cq", ("h100", 64), inactive="no check"),
            WHOLE["flavor"],
        ],
        "ClusterQueueInactive",
        'ClusterQueue "cq" is inactive: no check',
    ),
    "a cluster queue for no namespace": (
        [
            local_queue("osmo/team", "cq"),
            cluster_queue("cq", ("h100", 64), selector=False),
            WHOLE["flavor"],
        ],
        "NoNamespaceSelected",
        'ClusterQueue "cq" has no namespaceSelector',
    ),
    "a flavor that is missing": (
        [local_queue("osmo/team", "cq"), WHOLE["cluster queue"]],
        "FlavorNotFound",
        'names ResourceFlavor "h100", which does not exist',
    ),
    "a flavor without a topology": (
        [local_queue("osmo/team", "cq"), WHOLE["cluster queue"], flavor("h100", {"pool": "p"})],
        "NoTopology",
        "has a topologyName",
    ),
    "a flavor of other nodes": (
        [local_queue("osmo/team", "cq"), WHOLE["cluster queue"], flavor("h100", {"pool": "q"}, "floor")],
        "FlavorsExcludePool",
        'ResourceFlavor "h100" has pool=q where the pool has p',
    ),
}


@pytest.mark.parametrize(("objects", "reason", "words"), CASES.values(), ids=CASES)
def test_a_queue_that_admits_nothing_says_why(objects, reason, words):
    queue = joined(*objects)
    assert queue.faults[0].reason == reason
    assert words in queue.faults[0].message


def test_a_flavor_that_contradicts_the_pool_is_left_out_beside_another():
    objects = [
        local_queue("osmo/team", "cq"),
        cluster_queue("cq", ("a100", 8), ("h100", 64)),
        flavor("a100", {"pool": "q"}, "old floor"),
        WHOLE["flavor"],
    ]
    queue = joined(*objects)
    assert (queue.faults, queue.topologies) == ((), ("floor",))


APART = {
    "both with a topology": (
        flavor("basic", {"pool": "p"}, "floor"),
        ["cpu", "memory"],
        'flavor "basic" has cpu and memory',
    ),
    "the other without": (flavor("basic", {}), ["pods"], 'flavor "basic" has pods'),
}


@pytest.mark.parametrize(("other", "resources", "words"), APART.values(), ids=APART)
def test_resources_of_tasks_in_two_groups_of_flavors_are_named(other, resources, words):
    """Kueue names nodes only where all that a pod set requests is of one flavor."""
    split = cluster_queue("cq", ("h100", 64), others=[("basic", resources)], uncounted=())
    queue = joined(local_queue("osmo/team", "cq"), split, WHOLE["flavor"], other)
    assert queue.faults == ()
    (fault,) = [fault for fault in queue.partial_faults if fault.reason == "ResourcesInSeveralFlavors"]
    assert 'flavor "h100" has nvidia.com/gpu' in fault.message
    assert words in fault.message
    assert queue.quota({"gpu": 8.0, "cpu": 4000.0}).answer is QuotaAnswer.UNKNOWN


@pytest.mark.parametrize("missing", ["cpu", "memory", "ephemeral-storage"])
def test_a_resource_of_tasks_without_quota_is_a_fault(missing):
    """Kueue admits nothing that requests it: ``storage`` of a task is ephemeral-storage."""
    covered = sorted({"cpu", "ephemeral-storage", "memory"} - {missing})
    queue = joined(
        local_queue("osmo/team", "cq"), cluster_queue("cq", ("h100", 64), uncounted=covered), WHOLE["flavor"]
    )
    assert queue.faults == ()
    (fault,) = queue.partial_faults
    assert fault.reason == "ResourcesWithoutQuota"
    assert f'ClusterQueue "cq" has no quota for {missing}' in fault.message


def test_another_resource_in_a_group_of_its_own_harms_no_task():
    split = cluster_queue("cq", ("h100", 64), others=[("tapes", ["example.com/tape"])])
    queue = joined(local_queue("osmo/team", "cq"), split, WHOLE["flavor"], flavor("tapes", {}))
    assert (queue.faults, queue.partial_faults) == ((), ())


def test_a_queue_that_an_older_release_read_has_no_such_fault():
    split = cluster_queue("cq", ("h100", 64), others=[("basic", ["cpu"])])
    objects = readings(local_queue("osmo/team", "cq"), split, WHOLE["flavor"], flavor("basic", {}))
    for reading in objects.values():
        reading["settings"].pop("resources", None)
    assert KUEUE.joined_queue("osmo", "team", selector={}, objects=objects).partial_faults == ()


def test_the_host_is_needed_below_the_pools_levels_and_once():
    rack, host = Level("rack", "r"), Level("node", HOSTNAME_LABEL)
    assert [level.label for level in KUEUE.levels_needed((rack,))] == ["r", HOSTNAME_LABEL]
    assert KUEUE.levels_needed((rack, host)) == (rack, host)


def test_usage_does_not_change_what_conditions_follow_from():
    idle, busy = (cluster_queue("cq", ("h100", 64), used=used, waiting=used, uncounted=()) for used in (0, 8))
    kind = KUEUE.joined_kinds[1]
    before, after = (KUEUE.read_joined(kind, obj, quantity=Decimal) for obj in (idle, busy))
    assert before["settings"] == after["settings"]
    assert after["usage"] == {
        "waiting": 8,
        "resources": [
            {
                "flavor": "h100",
                "resource": "nvidia.com/gpu",
                "quota": 64.0,
                "most": 64.0,
                "used": 8.0,
                "borrowed": 0.0,
            }
        ],
    }


TAINTS = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]


def quota(*flavors, requested, is_first=False, taints=None, **changes):
    objects = [flavor(name, {"pool": "p"}, "floor", taints=taints) for name in dict(flavors)]
    queue = joined(local_queue("osmo/team", "cq"), cluster_queue("cq", *flavors, **changes), *objects)
    return queue.quota({"gpu": float(requested), "cpu": 0.0, "memory": 0.0}, is_first=is_first)


def test_a_gang_within_the_quota_of_the_only_flavor_is_admitted():
    assert quota(("h100", 64), requested=56, used=8).answer is QuotaAnswer.ADMITS


def test_a_gang_beyond_what_is_unused_is_short_until_other_work_ends():
    verdict = quota(("h100", 64), requested=57, used=8)
    (shortage,) = verdict.shortages
    assert (verdict.answer, verdict.is_lasting) == (QuotaAnswer.SHORT, False)
    assert (shortage.queue, shortage.amount, shortage.used, shortage.requested) == ("cq", 64, 8, 57)


def test_a_gang_beyond_the_whole_quota_is_short_for_good():
    assert quota(("h100", 64), requested=65).is_lasting


def test_the_quota_that_a_cohort_lends_is_not_known():
    assert quota(("h100", 64), requested=65, cohort="all").answer is QuotaAnswer.UNKNOWN


def test_which_of_two_flavors_a_gang_gets_is_not_known_but_both_bound_it():
    assert quota(("h100", 64), ("b200", 64), requested=100).answer is QuotaAnswer.UNKNOWN
    assert quota(("h100", 64), ("b200", 64), requested=129).is_lasting


def test_the_treatment_of_a_resource_that_no_flavor_has_is_kueues_configuration():
    only_gpus = cluster_queue("cq", ("h100", 64), uncounted=())
    queue = joined(local_queue("osmo/team", "cq"), only_gpus, WHOLE["flavor"])
    assert queue.quota({"gpu": 1.0, "cpu": 4000.0, "memory": 0.0}).answer is QuotaAnswer.UNKNOWN


def test_nothing_is_said_of_the_quota_of_a_queue_with_a_fault():
    for changes in ({"stop": "HoldAndDrain"}, {"inactive": "no check"}):
        assert quota(("h100", 64), requested=8, **changes).answer is QuotaAnswer.UNKNOWN
    without_flavor = joined(local_queue("osmo/team", "cq"), WHOLE["cluster queue"])
    assert without_flavor.quota({"gpu": 8.0}).answer is QuotaAnswer.UNKNOWN


def test_a_strict_queue_in_which_others_wait_admits_nobody_for_certain():
    assert quota(("h100", 64), requested=8, strategy="StrictFIFO").answer is QuotaAnswer.ADMITS
    strict = partial(quota, ("h100", 64), requested=8, strategy="StrictFIFO", waiting=1)
    assert strict().answer is QuotaAnswer.UNKNOWN
    assert strict(is_first=True).answer is QuotaAnswer.ADMITS


def test_whether_a_gang_tolerates_the_taints_of_a_flavor_is_not_known():
    assert quota(("h100", 64), requested=8, taints=TAINTS).answer is QuotaAnswer.UNKNOWN


def test_a_queue_that_leads_nowhere_says_nothing_of_quota():
    assert joined().quota({"gpu": 1.0}).answer is QuotaAnswer.UNKNOWN
