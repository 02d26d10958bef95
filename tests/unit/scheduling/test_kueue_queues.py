"""What a pool relies on of Kueue's queues: the flavors that its gangs may get, or why they get none."""

from decimal import Decimal

import pytest

from scheduling.backends.kueue import Kueue
from scheduling.levels import HOSTNAME_LABEL, Level
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
    assert [(one.name, one.node_labels) for one in queue.flavors] == [("h100", {"pool": "p"})]
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


def test_the_host_is_needed_below_the_pools_levels_and_once():
    rack, host = Level("rack", "r"), Level("node", HOSTNAME_LABEL)
    assert [level.label for level in KUEUE.levels_needed((rack,))] == ["r", HOSTNAME_LABEL]
    assert KUEUE.levels_needed((rack, host)) == (rack, host)


def test_usage_does_not_change_what_conditions_follow_from():
    idle, busy = (cluster_queue("cq", ("h100", 64), used=used, waiting=used) for used in (0, 8))
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
                "most": None,
                "used": 8.0,
                "borrowed": 0.0,
            }
        ],
    }
