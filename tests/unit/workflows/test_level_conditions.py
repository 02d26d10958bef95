"""Whether a group's levels are still there: the cluster alone decides, and the message names which."""

import pytest

from scheduling.topology.levels import Level
from workflows.explain.levels import ExternalTopology, NamedLevels, condition_of, coverage_of

ZONE, RACK, HOST = LEVELS = (Level("zone", "z"), Level("rack", "r"), Level("host", "h"))
FULL = {"z": "a", "r": "1", "h": "n"}


def judge(*nodes, labels=("r",), paths=True, external=None):
    named = NamedLevels(levels=LEVELS, labels=frozenset(labels), paths=paths, external=external)
    return condition_of(named, coverage_of(named, {f"n{i}": node for i, node in enumerate(nodes)}))


def without(*labels):
    return {label: value for label, value in FULL.items() if label not in labels}


def theirs(*found):
    return ExternalTopology(name="site", labels=found, expected=LEVELS)


GONE = ExternalTopology(name="site", labels=None, expected=LEVELS)
CASES = {
    "all there": (judge(FULL), "Available", ""),
    "one node is enough": (judge(FULL, {}, {}), "Available", ""),
    "a narrower level than it names": (judge(without("h")), "Available", ""),
    "its own level": (
        judge(without("r")),
        "NoNodeCarriesLabel",
        'carries label r of topology key "rack", so',
    ),
    "a broader level": (
        judge(without("z")),
        "NoNodeCarriesLabel",
        'carries label z of topology key "zone", so',
    ),
    "a broader level that needs no path": (judge(without("z"), paths=False), "Available", ""),
    "no node with the whole path": (
        judge(without("z"), without("r")),
        "NoNodeCarriesLabel",
        'label r of topology key "rack" together with those of the broader keys',
    ),
    "no node at all": (judge(), "NoNodes", "The pool has no node now"),
    "an external one as it was": (judge(FULL, external=theirs("z", "r", "h")), "Available", ""),
    "an external one that lost a narrower level": (
        judge(without("h"), external=theirs("z", "r")),
        "Available",
        "",
    ),
    "an external one that lists a level that no node carries": (
        judge(without("h"), external=theirs("z", "r", "h")),
        "NoNodeCarriesLabel",
        'label h of topology key "host"',
    ),
    "an external one that lost its level": (
        judge(FULL, external=theirs("z", "h")),
        "TopologyLostLevel",
        'Topology "site" does not list label r of topology key "rack"',
    ),
    "an external one that is gone": (judge(FULL, external=GONE), "TopologyNotFound", "is not in the cluster"),
}


@pytest.mark.parametrize("phrase", CASES)
def test_a_lost_level_is_named(phrase):
    condition, reason, message = CASES[phrase]
    assert (condition.reason, condition.status) == (reason, "False" if reason == "Available" else "True")
    assert message in condition.message
    assert condition.status == "False" or condition.message.endswith("running work is not affected.")
