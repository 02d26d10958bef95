"""The four use cases: what KAI is told, and what it makes of it on clusters drawn here."""

from textwrap import dedent

import pytest

from scheduling.backends.kai import Kai
from scheduling.backends.kubernetes import Kubernetes
from tests.unit.scheduling.build import levels, request
from tests.unit.scheduling.kai_reader import V013, V017, draw, place, read
from tests.unit.scheduling.picture import picture
from tests.unit.scheduling.use_cases import CASES, KEYS

GOLDEN = {
    1: """
        gang | required clique preferred clique on [zone rack clique] | min 4: a b c d
    """,
    2: """
        gang
          00 | required clique preferred clique on [zone rack clique] | min 4: a b c d
          01 | required clique preferred clique on [zone rack clique] | min 4: e f g h
    """,
    3: """
        gang | required zone preferred zone on [zone]
          00 | required clique preferred clique on [zone rack clique] | min 4: a b c d
          01 | required clique preferred clique on [zone rack clique] | min 4: e f g h
    """,
    4: """
        gang | preferred spine on [zone spine]
          00 | preferred rack on [zone spine rack] | min 4: a b c d
          01 | preferred rack on [zone spine rack] | min 4: e f g h
    """,
}


def render(case: int):
    return Kai().render(request(CASES[case], levels(KEYS[case])))


@pytest.mark.parametrize("case", CASES)
def test_kai_is_told(case):
    assert picture(render(case)) == dedent(GOLDEN[case]).strip()


NODES = {
    "one clique is large enough": (
        1,
        """
        zone a
          rack r1
            clique c1 ...
            clique c2 ....
        """,
        {"c2"},
    ),
    "no clique is large enough": (
        1,
        """
        zone a
          rack r1
            clique c1 ...
            clique c2 ...
        """,
        None,
    ),
    "each set has its clique": (
        2,
        """
        zone a
          rack r1
            clique c1 ....
        zone b
          rack r2
            clique c2 ....
        """,
        {"c1", "c2"},
    ),
    "only zone b is large enough": (
        3,
        """
        zone a
          rack r1
            clique c1 ....
        zone b
          rack r2
            clique c2 ....
          rack r3
            clique c3 ....
        """,
        {"c2", "c3"},
    ),
    "the large zone is busy": (
        3,
        """
        zone a
          rack r1
            clique c1 ....
        zone b
          rack r2
            clique c2 ....
          rack r3
            clique c3 x...
        """,
        None,
    ),
    "a spine holds both racks": (
        4,
        """
        zone a
          spine s1
            rack r1 ....
          spine s2
            rack r2 ....
            rack r3 ....
        """,
        {"r2", "r3"},
    ),
    "the racks stand on two spines": (
        4,
        """
        zone a
          spine s1
            rack r1 ....
          spine s2
            rack r2 ....
        """,
        {"r1", "r2"},
    ),
    "no rack is large enough and all are placed the same": (
        4,
        """
        zone a
          spine s1
            rack r1 ...
            rack r2 ...
          spine s2
            rack r3 ..
        """,
        {"r1", "r2", "r3"},
    ),
}


@pytest.mark.parametrize("version", [V013, V017])
@pytest.mark.parametrize("phrase", NODES)
def test_placed_where(phrase, version):
    case, nodes, want = NODES[phrase]
    rendered = render(case)
    narrowest = f"topology/{KEYS[case].split()[-1]}"

    got = place(read(rendered.pod_groups[0], rendered.pods, rendered.topologies), draw(nodes), version)

    assert (got and {node.labels[narrowest] for node in got.values()}) == want
    if got and "no rack" not in phrase:
        for tasks in ("abcd", "efgh"):
            assert len({got[task].labels[narrowest] for task in tasks if task in got}) <= 1


ON_KUBERNETES = {
    "case 1 is held": (1, set()),
    "case 2 is no gang": (2, {"gang.multi_set"}),
    "case 3 is nested": (3, {"gang.multi_set", "topology.nested"}),
    "case 4 is held, for preferences are no sets": (4, set()),
}


@pytest.mark.parametrize("phrase", ON_KUBERNETES)
def test_on_kubernetes(phrase):
    case, want_missing = ON_KUBERNETES[phrase]
    backend = Kubernetes()

    checked = backend.check(
        CASES[case],
        levels(KEYS[case]),
        capabilities=backend.capabilities(None),
        domains=[("a", "r1", "c1"), ("a", "r1", "c2")] if case < 4 else [("a", "s1", "r1")],
    )

    assert {fault.capability for fault in checked.faults} == want_missing
    assert checked.notices == ()
    for fault in checked.faults:
        assert fault.capability in fault.message
