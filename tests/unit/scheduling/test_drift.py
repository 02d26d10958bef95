"""A Topology found in the cluster against the levels expected."""

import pytest

from scheduling.backends.kai import KAI
from scheduling.backends.registry import BUILT_IN
from scheduling.topology.drift import Drift, InSync, TopologyNotFound, compare
from tests.unit.scheduling.build import INSTALLATION, gang, levels, request

POOL = levels("zone rack")
ZONE, RACK, HOST = "topology/zone", "topology/rack", "kubernetes.io/hostname"


def found(*labels):
    return {"spec": {"levels": [{"nodeLabel": label, "alias": label[-4:]} for label in labels]}}


FOUND = {
    "the same levels": (found(ZONE, RACK), "InSync", ""),
    "another order": (found(RACK, ZONE), "Drift", "level 0 is topology/rack instead of topology/zone"),
    "one level less": (found(ZONE), "Drift", "level 1 is missing instead of topology/rack"),
    "one level more": (
        found(ZONE, RACK, HOST),
        "Drift",
        "level 2 is kubernetes.io/hostname instead of none",
    ),
    "no levels at all": ({"spec": {}}, "Drift", "level 0 is missing"),
    "nothing": (None, "TopologyNotFound", "not in the cluster"),
}


@pytest.mark.parametrize("phrase", FOUND)
def test_compared_level_by_level(phrase):
    manifest, want, words = FOUND[phrase]
    state = compare(manifest and KAI.topologies.levels_in(manifest), expected=POOL)
    assert state.reason == want
    assert words in state.message


def test_the_conditions_status_tells_no_drift_drift_and_not_known():
    assert (InSync().status, Drift((), ()).status, TopologyNotFound().status) == ("False", "True", "Unknown")


def test_a_drift_says_which_levels_are_lost():
    state = compare([RACK, HOST], expected=POOL)
    assert state == Drift((ZONE, RACK), (RACK, HOST))
    assert state.missing == (ZONE,)


def test_an_object_of_our_making_is_in_sync():
    assert (
        compare(KAI.topologies.levels_in(KAI.topologies.of_levels(INSTALLATION, POOL)), expected=POOL)
        == InSync()
    )


def test_only_a_scheduler_with_a_topology_object_owns_one():
    owning = [scheduler.name for scheduler in BUILT_IN if scheduler.owns_topologies]
    assert owning == ["kai"]


def test_constraints_name_an_external_topology_and_none_is_made_beside_it():
    made = KAI.rendering.render(request(gang("a: zone! z", "b: rack? r"), POOL, external_topology="theirs"))
    entries = made.pod_groups[0]["spec"]["subGroups"]
    assert [entry["topologyConstraint"]["topology"] for entry in entries] == ["theirs", "theirs"]
    assert made.topologies == ()
