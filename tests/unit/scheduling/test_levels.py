import pytest

from scheduling.errors import format_path
from scheduling.kubernetes_syntax import is_label_key
from scheduling.topology.levels import (
    Level,
    check_levels,
    check_look_alikes,
    clique_rank,
    domain_of,
    look_alike,
)

ZONE, RACK, HOST = Level("zone", "t/zone"), Level("rack", "t/rack"), Level("host", "kubernetes.io/hostname")

LISTS = {
    "nothing": ((), []),
    "broad to narrow": ((ZONE, RACK, HOST), []),
    "sixteen": (tuple(Level(f"k{i}", f"l{i}") for i in range(16)), []),
    "a label as the key": ((Level("t/zone", "t/zone"),), []),
    "seventeen": (tuple(Level(f"k{i}", f"l{i}") for i in range(17)), ["topology_keys too_many_levels"]),
    "hostname not last": ((HOST, RACK), ["topology_keys[0].label hostname_not_last"]),
    "a key twice": ((ZONE, Level("zone", "x")), ["topology_keys[1].key duplicate_key"]),
    "a label twice": ((ZONE, Level("y", "t/zone")), ["topology_keys[1].label duplicate_label"]),
    "everything at once": (
        (Level("", "-"), Level("a b", "A/b"), Level("é", "a/b/c"), Level("x" * 64, "x" * 64)),
        [f"topology_keys[{i}].{part} invalid_{part}" for i in range(4) for part in ("key", "label")],
    ),
    "a key with an end of line": (
        (Level("zone\n", "t/zone\n"),),
        ["topology_keys[0].key invalid_key", "topology_keys[0].label invalid_label"],
    ),
}


@pytest.mark.parametrize("phrase", LISTS)
def test_a_pools_list_is_checked(phrase):
    levels, want = LISTS[phrase]
    faults = check_levels(levels, path=("topology_keys",))
    assert [f"{format_path(fault.path)} {fault.code}" for fault in faults] == want
    assert all(fault.message for fault in faults)


LABELS = {
    "zone": True,
    "topology.kubernetes.io/zone": True,
    "nvidia.com/gpu.clique": True,
    "a" * 63: True,
    ".".join(["a" * 61] * 4) + "/" + "b" * 63: True,
    "": False,
    "/zone": False,
    "a/": False,
    "a" * 64: False,
    "A.com/zone": False,
    "a..b/zone": False,
    "-zone": False,
    "x" * 254 + "/a": False,
}


@pytest.mark.parametrize("label", LABELS)
def test_label_keys_are_those_kubernetes_accepts(label):
    assert is_label_key(label) is LABELS[label]


def test_the_clique_level_is_known_by_either_label():
    assert clique_rank((ZONE, Level("nvl", "nvidia.com/gpu.clique"))) == 1
    assert clique_rank((Level("nvl", "nvidia.com/gpu-clique"), RACK)) == 0
    assert clique_rank((ZONE, RACK)) is None


def test_a_label_no_node_carries_is_matched_with_its_look_alike():
    nodes = {"nvidia.com/gpu.clique", "other.com/gpu-clique", "t/rack"}
    assert look_alike("nvidia.com/gpu-clique", nodes) == "nvidia.com/gpu.clique"
    assert look_alike("t/Rack", nodes) == "t/rack"
    assert look_alike("t/rack", nodes) is None
    assert look_alike("t/zone", nodes) is None

    (notice,) = check_look_alikes(
        (RACK, Level("nvl", "nvidia.com/gpu-clique")), nodes, path=("topology_keys",)
    )
    assert notice.path == ("topology_keys", 1, "label")
    assert "nvidia.com/gpu.clique" in notice.message


def test_a_nodes_domain_has_a_hole_where_a_label_is_missing():
    assert domain_of({"t/zone": "a", "x": "y"}, (ZONE, RACK)) == ("a", None)
