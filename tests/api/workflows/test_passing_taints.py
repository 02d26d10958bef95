"""Taints that may pass: a gang that only they keep out waits, with their key, effect, age and nodes."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.api.workflows.specs import gang, text
from tests.factories import RACK, NodeFactory, PoolFactory

pytestmark = pytest.mark.django_db
AGENT = "network.example.com/agent-not-ready"


@pytest.fixture
def pool():
    return PoolFactory(name="train", levels=[RACK])


def nodes(pool, *names, key=AGENT, since=None):
    """Nodes of one rack with a taint; ``since`` is the age of the taint, None: not known."""
    times = {} if since is None else {key: (timezone.now() - since).isoformat()}
    for name in names:
        NodeFactory(
            cluster=pool.backend.cluster,
            name=name,
            labels={RACK.label: "r1"},
            taints=[{"key": key, "effect": "NoSchedule"}],
            taints_since=times,
        )


def fit(api, tasks=2):
    document = {"file": text(gang(tasks, gpu=8, topology=[{"key": "rack"}]))}
    answer = api.post("/api/pool/train/workflow?feasibility=only", document, format="json")
    assert answer.status_code == 200, answer.json()
    return answer.json()["feasibility"][0]


@pytest.mark.parametrize("since", [None, timedelta(minutes=4), timedelta(minutes=59)], ids=str)
def test_a_young_taint_makes_a_gang_wait(api, pool, since):
    nodes(pool, "n0", "n1", since=since)
    assert fit(api)["verdict"] == "not_now"


def test_the_verdict_names_the_taint_its_age_and_its_nodes(api, pool):
    nodes(pool, "n0", "n1", since=timedelta(minutes=4))
    verdict = fit(api)
    at = timezone.now() - timedelta(minutes=4)
    (tainted,) = verdict["sets"][0]["nearest"][0]["tainted"]
    assert (tainted["taint"], tainted["nodes"], tainted["may_pass"]) == (f"{AGENT}:NoSchedule", 2, True)
    words = f"taints that it does not tolerate: {AGENT}:NoSchedule (2 nodes, since {at:%Y-%m-%d %H}"
    assert words in verdict["sentence"]


def test_a_taint_of_an_hour_is_lasting(api, pool):
    nodes(pool, "n0", "n1", since=timedelta(minutes=61))
    assert fit(api)["verdict"] == "never"


def test_a_taint_that_a_pool_of_the_cluster_tolerates_is_lasting_at_once(api, pool):
    nodes(pool, "n0", "n1", key="example.com/team", since=timedelta(minutes=4))
    toleration = {"key": "example.com/team", "operator": "Exists"}
    PoolFactory(name="team", backend=pool.backend, tolerations=[toleration])
    assert fit(api)["verdict"] == "never"


def test_a_taint_of_a_nodes_condition_passes_however_long_it_stands(api, pool):
    nodes(pool, "n0", "n1", key="node.kubernetes.io/disk-pressure", since=timedelta(days=9))
    assert fit(api)["verdict"] == "not_now"


def test_a_gang_that_is_too_large_in_any_case_is_still_refused(api, pool):
    nodes(pool, "n0", "n1", since=timedelta(minutes=4))
    assert fit(api, tasks=3)["verdict"] == "never"


def test_a_pool_that_refuses_accepts_a_gang_that_a_young_taint_keeps_out(api, pool):
    pool.infeasible = "refuse"
    pool.save()
    nodes(pool, "n0", "n1", since=timedelta(minutes=4))
    document = {"file": text(gang(2, gpu=8, topology=[{"key": "rack"}]))}
    answer = api.post("/api/pool/train/workflow", document, format="json")
    assert answer.status_code == 200, answer.json()
