"""Nodes whose clique label means none: they are no NVLink clique, for verdict, map and pods."""

import json

import pytest

from scheduling.topology.levels import NO_CLIQUE
from tests.api.workflows.specs import gang, text
from tests.factories import CLIQUE, RACK, NodeFactory, PoolFactory

pytestmark = pytest.mark.django_db
ZEROS = "00000000-0000-0000-0000-000000000000.0"


@pytest.fixture
def pool():
    return PoolFactory(name="train", levels=[RACK, CLIQUE], nvlink=True)


def nodes(pool, *cliques):
    for number, clique in enumerate(cliques):
        labels = {RACK.label: "r1", CLIQUE.label: clique}
        NodeFactory(cluster=pool.backend.cluster, name=f"n{number}", labels=labels)


def ask(api, query="?feasibility=only", tasks=2, key="clique"):
    spec = gang(tasks, gpu=8, topology=[{"key": key}])
    answer = api.post(f"/api/pool/train/workflow{query}", {"file": text(spec)}, format="json")
    assert answer.status_code == 200, answer.json()
    return answer.json()


def verdict(api, **more):
    (fit,) = ask(api, **more)["feasibility"]
    return fit["verdict"]


def test_the_verdict_says_that_there_is_no_clique(api, pool):
    nodes(pool, ZEROS, ZEROS)
    (fit,) = ask(api)["feasibility"]
    assert "each of its tasks requires an NVLink clique, and all 2 nodes carry a value" in fit["sentence"]


@pytest.mark.parametrize("value", NO_CLIQUE)
def test_nodes_without_a_clique_are_not_one(api, pool, value):
    nodes(pool, value, value)
    assert verdict(api) == "never"
    assert verdict(api, key="rack") == "now"


def test_a_clique_beside_them_is_counted_alone(api, pool):
    nodes(pool, ZEROS, "a.1", ZEROS, "a.1")
    assert verdict(api) == "now"
    assert verdict(api, tasks=3) == "never"


def test_pods_that_require_a_clique_keep_off_them(api, pool):
    nodes(pool, "a.1", "a.1", ZEROS)
    assert ZEROS in json.dumps(ask(api, "?dry_run=true"))
    assert ZEROS not in json.dumps(ask(api, "?dry_run=true", key="rack"))
