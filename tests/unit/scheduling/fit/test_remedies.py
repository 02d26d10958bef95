"""Nodes that a gang may not use are a cause only where it would fit with them."""

from dataclasses import replace

import pytest

from scheduling.fit.remedies import RemedyKind, remedies, without_work
from scheduling.fit.verdict import Answer, judge
from tests.unit.scheduling.build import gang
from tests.unit.scheduling.fit.worlds import draw, gang_demand

TAINT = ({"key": "k", "effect": "NoSchedule"},)
CORDON = ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},)
"""As Kubernetes puts it on a cordoned node."""


def world(picture, *, closed="", tainted=""):
    return draw(picture).edited(
        lambda node: replace(
            node,
            closed="cordoned" if node.name in closed.split() else "",
            taints=(TAINT if node.name in tainted.split() else ())
            + (CORDON if node.name in closed.split() else ()),
        )
    )


OPEN, LABEL, TOLERATE = RemedyKind
TWO = gang("a b*8: rack! r")
CASES = {
    "every node may be used": ("a/r: n1 n2x", {}, TWO, []),
    "a closed node of the rack is free": ("a/r: n1 n2", {"closed": "n2"}, TWO, [(OPEN, 1, False, False)]),
    "a closed node is as full as all others": (
        "a/r: n1 n2x",
        {"closed": "n2"},
        TWO,
        [(OPEN, 1, True, False)],
    ),
    "a closed node elsewhere, where waiting is enough": (
        "a/r: n1 n2x\na/s: m1",
        {"closed": "m1"},
        TWO,
        [],
    ),
    "a tainted node of the rack is free": (
        "a/r: n1 n2",
        {"tainted": "n2"},
        TWO,
        [(TOLERATE, 1, False, False)],
    ),
    "a node without its label is free": ("a/r: n1\na/-: n2", {}, TWO, [(LABEL, 1, False, False)]),
    "nodes that have the zone alone": ("a/-: n1 n2", {}, TWO, [(LABEL, 2, False, False)]),
    "a node without its label is full, and so is all": ("a/r: n1x n2x\na/-: n3x", {}, TWO, []),
    "either of two": (
        "a/r: n1 n2 n3",
        {"closed": "n2", "tainted": "n3"},
        TWO,
        [(OPEN, 1, False, False), (TOLERATE, 1, False, False)],
    ),
    "both of two": (
        "a/r: n1 n2 n3",
        {"closed": "n2", "tainted": "n3"},
        gang("a b c*8: rack! r"),
        [(OPEN, 1, False, True), (TOLERATE, 1, False, True)],
    ),
    "more than there is with all of them": (
        "a/r: n1 n2\na/-: n3",
        {"closed": "n2"},
        gang("a b c d*8: rack! r"),
        [],
    ),
}


@pytest.mark.parametrize("phrase", CASES)
def test_named_are_nodes_with_which_the_gang_fits_and_no_others(phrase):
    picture, change, wanted_gang, want = CASES[phrase]
    snapshot, demand = world(picture, **change), gang_demand(wanted_gang)
    assert judge(snapshot, demand).answer is not Answer.NOW
    found = remedies(snapshot, demand)
    assert [(r.kind, r.nodes, r.after_work, r.together) for r in found] == want
    base = without_work(snapshot) if found and found[0].after_work else snapshot
    for chosen in [found] if found and found[0].together else [(remedy,) for remedy in found]:
        kinds = {name: remedy for remedy in chosen for name in remedy.names}
        changed = base.edited(lambda node, of=kinds: of[node.name].applied(node) if node.name in of else node)
        assert judge(changed, demand).answer is Answer.NOW
