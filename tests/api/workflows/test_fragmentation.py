"""How the free nodes of a pool are spread over the domains of its keys."""

import pytest

from pools.values.completeness import NODES
from tests.builders.completeness import note_lists
from tests.factories import RACK, ZONE, NodeFactory, PoolFactory, TaskFactory, TaskGroupFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """Racks of five, three and no nodes of ours, and one node without a rack."""
    made = PoolFactory(name="train", levels=[ZONE, RACK], node_selector={"example.com/pool": "train"})
    cluster = made.backend.cluster
    for number, rack in enumerate(["r1"] * 5 + ["r2"] * 3 + [None]):
        labels = {ZONE.label: "a", RACK.label: rack, "example.com/pool": "train"}
        kept = {key: value for key, value in labels.items() if value}
        NodeFactory(cluster=cluster, name=f"n{number}", labels=kept)
    NodeFactory(cluster=cluster, name="theirs", labels={ZONE.label: "a", RACK.label: "r1"})
    return made


def slots(key):
    return {slot["size"]: slot["count"] for slot in key["slots"]}


def test_each_key_tells_its_free_slots_and_the_largest_group(api, pool, django_assert_max_num_queries):
    group = TaskGroupFactory(pool=pool, pods=0, status="RUNNING")
    TaskFactory(group=group, node_name="n0", placement__gpu=1)

    with django_assert_max_num_queries(10):
        answer = api.get("/api/pool/train/fragmentation")

    zone, rack = answer.json()["keys"]
    assert (answer.json()["nodes"], answer.json()["free"]) == (9, 8)
    assert (zone["free"], zone["largest"], slots(zone)) == (8, 8, {1: 8, 2: 4, 4: 2, 8: 1})
    assert (rack["free"], rack["unlabelled"], rack["largest"]) == (7, 1, 4)
    assert (rack["domain"], slots(rack)) == (["a", "r1"], {1: 7, 2: 3, 4: 1})
    assert answer.json()["age_seconds"] >= 0


def test_a_pool_whose_cluster_was_never_listed_has_none_and_says_so(api):
    pool = PoolFactory(name="new", levels=[RACK])
    note_lists({NODES: None}, cluster=pool.backend.cluster)

    told = api.get("/api/pool/new/fragmentation").json()

    assert (told["nodes"], told["observed_at"], told["age_seconds"], told["freshness"]) == (
        0,
        None,
        None,
        "never",
    )
    assert [(key["largest"], key["slots"]) for key in told["keys"]] == [(0, [])]
