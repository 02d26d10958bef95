"""A gang as Kueue's pod sets, and the node of each task of those that Kueue assigned."""

import pytest

from scheduling.backends.kueue.assignment import nodes_of_tasks, read_assignment
from scheduling.backends.kueue.pod_sets import pod_sets
from scheduling.errors import InvalidSpec, UnsupportedCapability
from scheduling.gang.pins import Pin, pinned
from scheduling.gang.tree import build_tree
from tests.unit.scheduling.build import gang, levels, shaped

LEVELS = levels("zone rack host")


def sets_of(gang):
    return pod_sets(build_tree(gang, LEVELS))


def picture(pod_set):
    names = "".join(task.name for task in pod_set.tasks)
    constraint = pod_set.constraint
    slices = "" if pod_set.slice_level is None else f" slices {pod_set.slice_size} of {pod_set.slice_level}"
    return f"{names} required {constraint.required} preferred {constraint.preferred}{slices}"


@pytest.mark.parametrize(
    ("gang", "pictures"),
    [
        (gang("a b c d: rack! r"), ["abcd required 1 preferred None"]),
        (
            gang("a b: rack! r", "c d: rack! s"),
            ["ab required 1 preferred None", "cd required 1 preferred None"],
        ),
        (
            gang("a b: zone! z, rack! r", "c d: zone! z, rack! s"),
            ["abcd required 0 preferred None slices 2 of 1"],
        ),
        (
            gang("a b: zone? z, rack! r", "c d: zone? z, rack! s"),
            ["abcd required None preferred 0 slices 2 of 1"],
        ),
        (gang("a b: rack? r"), ["ab required None preferred 1"]),
        (gang("a b: rack! r", "c"), ["ab required 1 preferred None", "c required None preferred None"]),
        (gang("a b"), ["ab required None preferred None"]),
    ],
    ids=["use case 1", "use case 2", "use case 3", "rather one zone", "rather one rack", "free", "nothing"],
)
def test_a_gang_becomes_these_pod_sets(gang, pictures):
    assert [picture(pod_set) for pod_set in sets_of(gang)] == pictures


def test_free_tasks_are_one_pod_set_for_each_shape():
    free = shaped(gang("a b c"), b="big")
    assert [picture(s)[:2].strip() for s in sets_of(free)] == ["ac", "b"]


@pytest.mark.parametrize(
    ("gang", "words"),
    [
        (gang("a b: zone? z, rack! r", "c: zone? z, rack! s"), 'rack "r" in zone "z" has 2 tasks'),
        (gang("a b: zone? z, rack! r", "c: zone? z"), "1 of its tasks are in none"),
        (gang("a: zone? z, rack? r", "b: zone? z, rack? s"), "are not all simply required"),
        (gang("a: zone? z, rack! r", "b: zone? z, host! h"), "are of different keys"),
        (shaped(gang("a: zone? z, rack! r", "b: zone? z, rack! s"), a="big"), "2 different amounts"),
        (shaped(gang("a b: rack! r"), a="big"), "are not alike"),
    ],
)
def test_an_unequal_gang_is_refused_with_the_reason(gang, words):
    with pytest.raises(UnsupportedCapability, match=words):
        sets_of(gang)


def test_sets_that_a_required_zone_keeps_by_node_labels_are_pod_sets_in_its_domain():
    asked = gang("a b: zone! z, rack! r", "c: zone! z, rack? s", "d: zone! z")
    tree = build_tree(asked, LEVELS)
    free, kept = pod_sets(tree), pod_sets(pinned(tree, (Pin(tree.root.path, ("a",)),)))
    assert [picture(pod_set) for pod_set in kept] == [picture(pod_set) for pod_set in free]
    assert [picture(pod_set) for pod_set in kept] == [
        "ab required 1 preferred None",
        "c required None preferred 1",
        "d required None preferred None",
    ]
    assert ({s.domain for s in free}, {s.domain for s in kept}) == ({()}, {("a",)})


def test_nodes_outside_of_the_domain_that_keeps_a_pod_set_are_refused():
    tree = build_tree(gang("a b: zone! z, rack! r", "c: zone! z"), LEVELS)
    (first, _) = pod_sets(pinned(tree, (Pin(tree.root.path, ("b",)),)))
    with pytest.raises(InvalidSpec, match="outside of b: n-9"):
        nodes_of_tasks(first, (("n-9", 2),), PLACES, present={})


def test_names_of_pod_sets_are_unique_and_stay():
    many = gang("a: rack! r", "b: rack! s", "c")
    names = [pod_set.name for pod_set in sets_of(many)]
    assert len(set(names)) == 3
    assert names == [pod_set.name for pod_set in sets_of(many)]


ASSIGNMENT = {
    "levels": ["kubernetes.io/hostname"],
    "slices": [
        {
            "domainCount": 3,
            "valuesPerLevel": [{"individual": {"prefix": "n-", "roots": ["10", "9", "1"]}}],
            "podCounts": {"individual": [2, 1, 1]},
        },
        {"domainCount": 1, "valuesPerLevel": [{"universal": "m-1"}], "podCounts": {"universal": 4}},
    ],
}
PLACES = {
    "n-1": ("a", "r1", "n-1"),
    "n-9": ("a", "r2", "n-9"),
    "n-10": ("a", "r2", "n-10"),
    "m-1": ("b", "r1", "m-1"),
}


def test_an_assignment_is_read_in_all_its_forms():
    assert read_assignment(ASSIGNMENT, pods=8) == (("n-10", 2), ("n-9", 1), ("n-1", 1), ("m-1", 4))


@pytest.mark.parametrize("assignment", [{}, {"levels": ["zone"], "slices": []}])
def test_an_assignment_without_nodes_is_refused(assignment):
    with pytest.raises(InvalidSpec, match="not at kubernetes"):
        read_assignment(assignment, pods=8)


def test_neighbours_in_rank_are_neighbours_in_topology():
    (pod_set,) = sets_of(gang("a b c d e f g h"))
    nodes = nodes_of_tasks(pod_set, read_assignment(ASSIGNMENT, pods=8), PLACES, present={})
    assert list(nodes.values()) == ["n-1", "n-9", "n-10", "n-10", "m-1", "m-1", "m-1", "m-1"]
    assert list(nodes) == list("abcdefgh")


def test_each_slice_is_in_one_domain():
    (pod_set,) = sets_of(gang("a b: zone! z, rack! r", "c d: zone! z, rack! s"))
    places = {"x": ("a", "r1", "x"), "y": ("a", "r1", "y"), "z": ("a", "r2", "z")}
    nodes = nodes_of_tasks(pod_set, (("z", 2), ("y", 1), ("x", 1)), places, present={})
    assert nodes == {"a": "x", "b": "y", "c": "z", "d": "z"}


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((("x", 3), ("z", 1)), "cuts a set of 2"),
        ((("x", 3),), "assigned 3 pods"),
        ((("x", 2), ("unknown", 2)), "is not known yet"),
    ],
)
def test_nodes_that_do_not_hold_the_pod_set_are_refused(nodes, words):
    (pod_set,) = sets_of(gang("a b: zone! z, rack! r", "c d: zone! z, rack! s"))
    places = {"x": ("a", "r1", "x"), "z": ("a", "r2", "z")}
    with pytest.raises(InvalidSpec, match=words):
        nodes_of_tasks(pod_set, nodes, places, present={})
