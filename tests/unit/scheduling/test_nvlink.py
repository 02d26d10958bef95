import pytest

from scheduling.levels import Level
from scheduling.nvlink import check_nvlink
from tests.unit.scheduling.build import gang

POOL = (
    Level("rack", "t/rack"),
    Level("clique", "nvidia.com/gpu.clique"),
    Level("host", "kubernetes.io/hostname"),
)

GROUPS = {
    "a required clique": (gang("a b*4: clique! c"), []),
    "a required level narrower than the clique": (gang("a b*4: host! h"), []),
    "nothing required": (gang("a b*4"), ["nvlink_without_clique"]),
    "only a rack required": (gang("a b*4: rack! r"), ["nvlink_without_clique"]),
    "only a preferred clique": (gang("a b*4: clique? c"), ["nvlink_without_clique"]),
    "one claiming task": (gang("a*4", "b"), []),
    "no claiming task": (gang("a b"), ["nvlink_unused"]),
    "part of a node": (gang("a b*2: clique! c"), ["nvlink_partial_node"]),
}


@pytest.mark.parametrize("phrase", GROUPS)
def test_warned_of(phrase):
    asked, want = GROUPS[phrase]
    notices = check_nvlink(asked, POOL, node_gpus={"a": 4, "b": 4})
    assert [notice.code for notice in notices] == want


def test_a_pool_without_a_clique_key_says_which_label_is_missing():
    (notice,) = check_nvlink(gang("a b*4: rack! r"), POOL[:1], node_gpus={})
    assert "nvidia.com/gpu.clique" in notice.message
