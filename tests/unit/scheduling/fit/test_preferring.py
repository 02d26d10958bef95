"""Domains to which node affinity leads pods that prefer one."""

import pytest

from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.preferring import preferred_labels
from scheduling.fit.snapshot import FitNode, Snapshot, amounts
from scheduling.gang.tree import grow
from tests.unit.scheduling.build import gang, levels

POOL = levels("zone rack")


def snapshot(racks, *, paths=True):
    """Nodes of one GPU each, by rack; the first letter of a rack is its zone."""
    free = amounts(gpu=1, cpu=1000, memory=2**30, pods=10)
    nodes = [
        FitNode(
            name=f"{rack}-{at}",
            labels={"topology/zone": rack[0], "topology/rack": rack},
            allocatable=free,
        )
        for rack, count in racks.items()
        for at in range(count)
    ]
    return Snapshot.of(nodes, POOL, paths=paths)


def preferred(asked, racks, *, paths=True):
    kind = Demand(amounts(gpu=1, cpu=1, memory=1, pods=1))
    demands = {task.name: kind for task in asked.tasks}
    demand = GangDemand(grow(asked, POOL), demands, counts_largest=False)
    return preferred_labels(snapshot(racks, paths=paths), demand)


def narrowest(labels):
    return labels.get("topology/rack") or labels["topology/zone"]


ZONED = gang("a b: zone? z, rack? r", "c d: zone? z, rack? s")
CASES = {
    "a rack that holds the set": (gang("a b: rack? r"), {"a1": 1, "a2": 2}, {"a": ["a2"], "b": ["a2"]}),
    "no rack does, a zone does": (
        gang("a b: rack? r"),
        {"a1": 1, "a2": 1, "b1": 1},
        {"a": ["a", "a2"], "b": ["a", "a1"]},
    ),
    "nothing holds all of it, and each task has its place": (
        gang("a b: rack? r"),
        {"a1": 1, "b1": 1},
        {"a": ["b1"], "b": ["a1"]},
    ),
    "a set that no rack holds keeps out of the rack of another": (
        gang("c d e: rack? s", "a b: rack? r"),
        {"a1": 2, "a2": 2, "b1": 2},
        {"a": ["b1"], "b": ["b1"], "c": ["a", "a2"], "d": ["a", "a2"], "e": ["a", "a1"]},
    ),
    "a task without preferences keeps out, too": (
        gang("c", "a b: rack? r"),
        {"a1": 2, "b1": 1},
        {"a": ["a1"], "b": ["a1"], "c": ["b1"]},
    ),
    "no place at all": (gang("a b: rack? r"), {"a1": 1}, {}),
    "a required zone alone leads nobody": (gang("a b: zone! z"), {"a1": 2}, {}),
    "a rack in the required zone": (
        gang("a b: zone! z, rack? r", "c: zone! z"),
        {"a1": 2, "b1": 2, "b2": 1},
        {"a": ["b1"], "b": ["b1"], "c": ["b2"]},
    ),
    "racks of one zone, as use case 4": (
        ZONED,
        {"a1": 2, "b1": 2, "b2": 2},
        {"a": ["b", "b1"], "b": ["b", "b1"], "c": ["b", "b2"], "d": ["b", "b2"]},
    ),
    "the zone gives way and the racks stay": (
        ZONED,
        {"a1": 2, "b1": 2},
        {"a": ["a1"], "b": ["a1"], "c": ["b1"], "d": ["b1"]},
    ),
}


@pytest.mark.parametrize("paths", [True, False])
@pytest.mark.parametrize("phrase", CASES)
def test_led(phrase, paths):
    asked, racks, want = CASES[phrase]
    found = preferred(asked, racks, paths=paths)
    assert {task: [narrowest(labels) for labels in led] for task, led in found.items()} == want


def test_a_domain_is_named_by_its_path():
    found = preferred(gang("a b: rack? r"), {"a1": 2})
    assert found["a"] == ({"topology/zone": "a", "topology/rack": "a1"},)
