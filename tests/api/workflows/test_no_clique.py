"""Nodes whose clique label means none: they are no NVLink clique, for verdict, map and pods."""

import json

import pytest

from scheduling.fit.outcome import PlacementOutcome, outcomes
from scheduling.gang.tree import build_tree
from scheduling.topology.coverage import cover
from scheduling.topology.levels import NO_CLIQUE, Level, domain_of
from tests.api.workflows.specs import gang, text
from tests.factories import CLIQUE, RACK, NodeFactory, PoolFactory
from tests.unit.scheduling import build

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


def test_a_node_without_a_clique_is_hidden_from_no_other_level():
    """Its scheduler sees the label, whatever it means."""
    host = Level("host", "kubernetes.io/hostname")
    labels = {RACK.label: "r1", CLIQUE.label: ZEROS, host.label: "n0"}
    clique, below = cover({"n0": labels}, (RACK, CLIQUE, host), named=5, paths=True).levels[1:]
    assert (clique.lacking, clique.hidden) == (1, 1)
    assert (below.lacking, below.hidden) == (0, 0)


def test_tasks_on_nodes_without_a_clique_do_not_share_one():
    place = domain_of({RACK.label: "r1", CLIQUE.label: ZEROS}, (RACK, CLIQUE))
    pair = build.gang("a b*1: clique! c")
    (judged,) = outcomes(build_tree(pair, (RACK, CLIQUE)), {"a": place, "b": place}, paths=True)
    assert (judged.outcome, judged.outside) == (PlacementOutcome.VIOLATION, 2)
