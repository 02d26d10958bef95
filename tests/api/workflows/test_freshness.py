"""Every number from observation says how fresh it is, by the observer's heartbeat, on every door alike."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pages.drawn import drawn_explanations
from pools.models import Cluster
from pools.selectors import freshness_of
from pools.values.completeness import NODES
from tests.api.workflows.specs import gang, text
from tests.builders.completeness import note_lists
from tests.factories import (
    RACK,
    ZONE,
    BackendFactory,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
)
from workflows.feasibility.placement.measured_fragmentation import measure
from workflows.models import TaskGroup, Workflow
from workflows.services import gauges

pytestmark = pytest.mark.django_db
OLD = "minutes old: the observer is silent."


@pytest.fixture
def pool():
    """Two racks of two nodes, and a group that waits for more of them than there are."""
    pool = PoolFactory(name="train", levels=[ZONE, RACK])
    for at, rack in enumerate(["r1", "r1", "r2", "r2"]):
        NodeFactory(cluster=pool.backend.cluster, name=f"n{at}", labels={ZONE.label: "a", RACK.label: rack})
    group = TaskGroupFactory(
        pool=pool,
        pods=0,
        status="SCHEDULING",
        waiting_reason="No rack has room.",
        waiting_why="topology",
        waiting_since=timezone.now(),
    )
    for at in range(5):
        TaskFactory(group=group, name=f"t{at}", placement__gpu=8)
    Workflow.objects.update(name="wide")
    return pool


def heard(ago, *, nodes=""):
    """The observer's heartbeat; the full list of nodes is from just now and says nothing."""
    now = timezone.now()
    drawn_explanations.clear()
    note_lists({NODES: nodes}, heartbeat_at=now - ago)


def asked(api, address, body=None):
    answer = api.post(address, body, format="json") if body is not None else api.get(address)
    assert answer.status_code == 200, answer.json()
    return answer.json()


REPLIES = {
    "the topology of a pool": lambda api: asked(api, "/api/pool/train/topology"),
    "fragmentation": lambda api: asked(api, "/api/pool/train/fragmentation"),
    "quota": lambda api: asked(api, "/api/pool_quota?pools=train")["node_sets"][0]["pools"][0],
    "resources": lambda api: asked(api, "/api/resources?pools=train")["resources"][0],
    "one resource": lambda api: asked(api, "/api/resources/n0")["resources"][0],
    "the verdict before submission": lambda api: _verdict(api, 2),
    "the health of nodes": lambda api: asked(api, "/api/pool/train/nodes"),
    "what if": lambda api: asked(api, "/api/pool/train/what-if", {}),
    "why a group waits": lambda api: asked(api, "/api/workflow/wide/explain")["groups"][0]["feasibility"],
}


def _verdict(api, tasks):
    body = {"file": text(gang(tasks, gpu=8, topology=[{"key": "rack", "group": "r"}]))}
    return asked(api, "/api/pool/train/workflow?feasibility=only", body)["feasibility"][0]


@pytest.mark.parametrize("door", REPLIES)
def test_a_reply_says_when_the_observer_was_last_heard_and_whether_that_is_old(door, api, pool):
    heard(timedelta(seconds=20))
    reply = REPLIES[door](api)
    assert (reply["freshness"], 20 <= reply["age_seconds"] < 50) == ("fresh", True)
    heard(timedelta(minutes=4))
    reply = REPLIES[door](api)
    assert (reply["freshness"], 240 <= reply["age_seconds"] < 270) == ("old", True)
    assert reply["observed_at"][:16] == f"{timezone.now() - timedelta(minutes=4):%Y-%m-%dT%H:%M}"
    heard(timedelta(seconds=0))
    assert REPLIES[door](api)["freshness"] == "fresh"


PAGES = {
    "the list of pools": "/ui/",
    "the page of a pool": "/ui/pools/train",
    "the map": "/ui/pools/train/map",
    "the picture of the map": "/ui/pools/train/map.svg",
    "the page of a workflow": "/ui/workflows/wide",
}


@pytest.mark.parametrize("door", PAGES)
def test_a_page_says_that_its_numbers_are_old(door, browser, pool):
    heard(timedelta(seconds=20))
    assert OLD not in browser.get(PAGES[door]).content.decode()
    heard(timedelta(minutes=4, seconds=1))
    assert f"4 {OLD}" in browser.get(PAGES[door]).content.decode()
    heard(timedelta(seconds=0))
    assert OLD not in browser.get(PAGES[door]).content.decode()


@pytest.mark.parametrize(("tasks", "answer"), [(2, "now"), (3, "never")])
def test_a_verdict_on_old_observations_is_told_as_of_then_and_not_proven(api, pool, tasks, answer):
    heard(timedelta(seconds=0))
    assert (_verdict(api, tasks)["verdict"], _verdict(api, tasks)["proven"]) == (answer, True)
    heard(timedelta(minutes=4))
    verdict = _verdict(api, tasks)
    assert (verdict["verdict"], verdict["proven"]) == (answer, False)
    assert verdict["sentence"].startswith("As of ")
    assert f"{OLD} By that, it " in verdict["sentence"]
    assert "fits now" not in verdict["sentence"]


@pytest.mark.parametrize("status", ["RUNNING", "COMPLETED"])
def test_what_follows_from_observations_of_a_group_that_has_not_ended_is_unknown_while_they_are_old(
    api, pool, status
):
    written = [
        {"type": kind, "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "x"}
        for kind in ("NVLinkReady", "NodesHealthy", "PlacementKept", "PodsChanged")
    ]
    TaskGroup.objects.update(status=status, conditions=written)
    heard(timedelta(seconds=0))
    assert {row["status"] for row in conditions_of(api)} == {"True"}
    heard(timedelta(minutes=4))
    unknown = [row["type"] for row in conditions_of(api) if row["status"] == "Unknown"]
    assert unknown == (["NVLinkReady", "NodesHealthy", "PlacementKept"] if status == "RUNNING" else [])


def conditions_of(api):
    return asked(api, "/api/workflow/wide?verbose=true")["groups"][0]["conditions"]


def test_a_pool_that_refuses_what_never_fits_does_not_refuse_by_old_observations(api, pool):
    pool.infeasible = "refuse"
    pool.save()
    body = {"file": text(gang(3, gpu=8, topology=[{"key": "rack", "group": "r"}]))}
    assert api.post("/api/pool/train/workflow", body, format="json").status_code == 400
    heard(timedelta(minutes=4))
    answer = api.post("/api/pool/train/workflow", body, format="json")
    assert answer.status_code == 200
    assert any(OLD in warning for warning in answer.json()["warnings"])


def test_a_cluster_that_was_never_observed_is_unknown_and_not_old(api, browser, pool):
    heard(timedelta(hours=3), nodes=None)
    reply = REPLIES["the topology of a pool"](api)
    assert (reply["freshness"], reply["observed_at"], reply["age_seconds"]) == ("never", None, None)
    page = browser.get("/ui/pools/train").content.decode()
    assert "have not been observed yet" in page
    assert OLD not in page


def test_two_backends_of_one_cluster_are_as_fresh_as_each_other_and_others_are_not(api, pool):
    beside = BackendFactory(name="beside", cluster=pool.backend.cluster)
    PoolFactory(name="beside", levels=[ZONE], backend=beside)
    PoolFactory(name="far", levels=[ZONE], backend__name="far")
    heard(timedelta(seconds=0))
    Cluster.objects.filter(pk=pool.backend.cluster_id).update(
        heartbeat_at=timezone.now() - timedelta(hours=3)
    )
    ages = {
        name: asked(api, f"/api/pool/{name}/topology")["freshness"] for name in ("train", "beside", "far")
    }
    assert ages == {"train": "old", "beside": "old", "far": "fresh"}


def test_the_clock_is_that_of_the_database(pool, monkeypatch):
    """A web server whose clock is an hour late would call everything fresh."""
    heard(timedelta(minutes=4))
    late = timezone.now() - timedelta(hours=1)
    monkeypatch.setattr(timezone, "now", lambda: late)
    assert freshness_of(pool.backend.cluster_id).sentence.endswith(f"4 {OLD}")


def test_gauges_of_observed_numbers_have_no_value_while_they_are_old(pool):
    measure(pool.backend.cluster_id)
    heard(timedelta(seconds=0))
    assert gauges.read()["osmo_free_nodes"] == [(4, "train")]
    heard(timedelta(minutes=4))
    read = gauges.read()
    names = ("osmo_free_nodes", "osmo_free_slots", "osmo_largest_free_group_nodes", "osmo_compute_domains")
    assert {name: read[name] for name in names} == {name: [] for name in names}
