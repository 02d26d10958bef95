"""What each row of keys finds on a pool's nodes, and which labels would fit beside the rows."""

from collections import Counter

import pytest

from scheduling.topology.key_changes import key_changes
from scheduling.topology.key_rows import NodeLabel, Suggestion, candidates, cover_rows, suggest
from scheduling.topology.levels import Level, domain_of
from tests.unit.scheduling.build import levels
from tests.unit.scheduling.kai_reader import draw

POOL = levels("zone spine rack")
ZONE, SPINE, RACK = POOL
SIX = draw("""
zone a
  spine s1
    rack r1 ..
    rack - ..
  spine -
    rack r2 .
zone b
  spine s2
    rack r1 .
""")


def places(nodes, pool):
    return Counter(domain_of(node.labels, pool) for node in nodes)


def seen(nodes):
    found = {}
    for node in nodes:
        for label, value in node.labels.items():
            found.setdefault(label, []).append(value)
    return {label: NodeLabel(label, len(values), len(set(values))) for label, values in found.items()}


def test_each_row_tells_its_nodes_its_domains_and_those_out_of_sight():
    rows = cover_rows(places(SIX, POOL), POOL, paths=True, node_labels=seen(SIX))
    got = [(row.carrying, row.domains, row.hidden, row.more_hidden) for row in rows]
    assert got == [(6, 2, 0, 0), (5, 2, 1, 1), (4, 2, 3, 2)]
    assert [(value.value, value.broader) for value in rows[2].shared] == [("r1", SPINE)]


def test_where_domains_are_single_values_only_the_rows_own_label_counts():
    rows = cover_rows(places(SIX, POOL), POOL, paths=False, node_labels=seen(SIX))
    assert [(row.domains, row.hidden, row.more_hidden) for row in rows] == [(2, 0, 0), (2, 1, 1), (2, 2, 2)]


def test_a_look_alike_is_named_only_where_no_node_carries_the_label_itself():
    nodes = {"nvidia.com/gpu.clique": NodeLabel("nvidia.com/gpu.clique", 4, 2)}
    wrong, right = Level("clique", "nvidia.com/gpu-clique"), Level("clique", "nvidia.com/gpu.clique")
    [row] = cover_rows({(None,): 4}, [wrong], paths=True, node_labels=nodes)
    assert (row.carrying, row.other) == (0, nodes["nvidia.com/gpu.clique"])
    [row] = cover_rows({("c1",): 4}, [right], paths=True, node_labels=nodes)
    assert row.other is None


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        ((), {ZONE.label: 0, SPINE.label: 0, RACK.label: 0}),
        ((ZONE,), {SPINE.label: 1, RACK.label: 1}),
        ((ZONE, RACK), {SPINE.label: 1}),
        ((RACK, ZONE), {SPINE.label: 0}),  # a zone of one rack is narrower than it
        ((ZONE, Level("clique", "nobody/carries"), RACK), {SPINE.label: 1}),
    ],
    ids=["none", "zone", "zone and rack", "wrong order", "a row that finds nothing"],
)
def test_labels_that_nest_are_offered_at_the_place_where_they_would_stand(rows, want):
    nodes = draw("""
zone a
  spine s1
    rack r1 ..
    rack r2 ..
  spine s2
    rack r3 ..
zone b
  spine s3
    rack r4 ..
    rack r5 ..
""")
    offered = candidates(seen(nodes), rows, nodes=len(nodes), most=24)
    further = tuple(Level(level.label, level.label) for level in offered)
    found = suggest(places(nodes, (*rows, *further)), rows, offered, paths=True, host=None)
    assert {row.node_label.label: row.rank for row in found} == want


def test_a_label_that_divides_nothing_or_crosses_a_row_is_not_offered():
    labels = {
        "arch": NodeLabel("arch", 4, 1),
        "serial": NodeLabel("serial", 4, 4),
        "rare": NodeLabel("rare", 1, 1),
        "phase": NodeLabel("phase", 4, 2),
    }
    offered = candidates(labels, [ZONE], nodes=4, most=24)
    assert [level.label for level in offered] == ["phase"]
    crossed = {("a", "x"): 1, ("a", "y"): 1, ("b", "x"): 1, ("b", "y"): 1}
    assert suggest(crossed, [ZONE], offered, paths=True, host=None) == ()
    same = {("a", "x"): 2, ("b", "y"): 2}
    assert suggest(same, [ZONE], offered, paths=True, host=None) == ()


def test_the_host_is_offered_last_unless_it_is_a_row():
    host = NodeLabel("kubernetes.io/hostname", 4, 4)
    assert candidates({host.label: host}, [ZONE], nodes=4, most=24) == ()
    assert suggest({}, [ZONE], [], paths=True, host=host) == (Suggestion(host, 1, "host"),)
    assert suggest({}, [Level("host", host.label)], [], paths=True, host=host) == ()


def test_a_change_of_keys_is_told_in_sentences():
    host = Level("host", "kubernetes.io/hostname")
    other = Level("rack", "example.com/row")
    assert key_changes(POOL, POOL) == []
    assert key_changes((ZONE, SPINE, RACK), (other, ZONE, host)) == [
        f'Key "spine" ({SPINE.label}) goes: a new workflow that names it is refused.',
        'Key "host" (kubernetes.io/hostname) appears, narrower than "zone".',
        f'Key "rack" stands for example.com/row instead of {RACK.label}.',
        "The order changes from zone, rack to rack, zone, broadest first.",
    ]
