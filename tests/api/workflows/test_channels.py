"""Claims of NVLink channels against what the observer has of them, over REST and on the pool's page."""

from datetime import timedelta

import pytest
from django.utils import timezone

from scheduling.nodes.channels import SETTLED_AFTER
from scheduling.nodes.devices import SLICES
from tests.api.workflows.specs import gang, text
from tests.builders.completeness import note_lists
from tests.factories import LEVELS, NodeFactory, PlatformFactory, PoolFactory
from workflows.models import Workflow

pytestmark = pytest.mark.django_db

UNKNOWN = "nodes with an NVLink channel is not known"


@pytest.fixture
def pool():
    """Seven nodes in an NVLink pool; none of them has a channel, and all have been there for long."""
    made = PoolFactory(name="gb", levels=LEVELS, nvlink=True, node_selector={"pool": "gb"})
    since = timezone.now() - 2 * SETTLED_AFTER
    for number in range(7):
        NodeFactory(
            cluster=made.backend.cluster, name=f"n{number}", labels={"pool": "gb"}, channel_since=since
        )
    follow(made)
    return made


def follow(pool, *, ago=timedelta(0), synced=True):
    """Let the observer have heard of the cluster's slices so long ago."""
    cluster = pool.backend.cluster
    note_lists({SLICES: "" if synced else None}, cluster=cluster, heartbeat_at=timezone.now() - ago)


@pytest.fixture
def submit(api, pool):
    def post(workflow):
        return api.post("/api/pool/gb/workflow", {"file": text(workflow)}, format="json")

    return post


def warnings(reply):
    assert reply.status_code == 200, reply.json()
    return [warning for warning in reply.json()["warnings"] if UNKNOWN in warning]


def test_a_claim_is_refused_where_all_nodes_are_without_channel(submit):
    reply = submit(gang(2))
    assert reply.status_code == 400
    (fault,) = reply.json()["details"]
    assert (fault["code"], fault["path"]) == ("nvlink_without_channel", "workflow.groups[0]")
    assert "n0, n1, n2, n3, n4 and 2 more" in fault["message"]
    assert fault["line"]
    assert not Workflow.objects.exists()


def test_it_is_refused_at_the_word_that_makes_it(submit):
    workflow = gang(1)
    workflow["groups"][0]["tasks"][0]["nvlink"] = True
    (fault,) = submit(workflow).json()["details"]
    assert fault["path"] == "workflow.groups[0].tasks[0].nvlink"


def test_work_without_a_claim_is_accepted_there(submit):
    assert warnings(submit(gang(1))) == []
    workflow = gang(2)
    workflow["groups"][0]["nvlink"] = False
    assert warnings(submit(workflow)) == []


def test_a_node_with_a_channel_is_enough(submit, pool):
    pool.backend.cluster.nodes.filter(name="n3").update(offers_channel=True)
    assert warnings(submit(gang(2))) == []


def test_a_node_that_joined_a_moment_ago_may_still_offer_one(submit, pool):
    pool.backend.cluster.nodes.filter(name="n3").update(channel_since=timezone.now())
    assert len(warnings(submit(gang(2)))) == 1


def test_a_node_of_an_older_release_may_offer_one(submit, pool):
    pool.backend.cluster.nodes.filter(name="n3").update(channel_since=None)
    assert len(warnings(submit(gang(2)))) == 1


@pytest.mark.parametrize("state", [{"synced": False}, {"ago": 2 * SETTLED_AFTER}])
def test_slices_that_are_not_followed_refuse_nothing(submit, pool, state):
    follow(pool, **state)
    assert len(warnings(submit(gang(2)))) == 1


def test_a_pool_without_nodes_is_warned_of(submit, pool):
    pool.backend.cluster.nodes.all().delete()
    assert len(warnings(submit(gang(2)))) == 1


def test_the_warning_comes_once_for_a_platform(submit, pool):
    follow(pool, synced=False)
    workflow = gang(2)
    other = gang(2)["groups"][0]
    workflow["groups"].append(
        other | {"name": "more", "tasks": [task | {"name": f"b-{task['name']}"} for task in other["tasks"]]}
    )
    assert len(warnings(submit(workflow))) == 1


def test_each_platform_has_its_own_nodes(submit, pool):
    PlatformFactory(pool=pool, name="small", node_selector={"size": "small"})
    PlatformFactory(pool=pool, name="big", node_selector={"size": "big"})
    nodes = pool.backend.cluster.nodes
    nodes.filter(name="n0").update(labels={"pool": "gb", "size": "small"})
    nodes.filter(name="n1").update(labels={"pool": "gb", "size": "big"}, offers_channel=True)
    on = {name: gang(2) for name in ("small", "big")}
    for name, workflow in on.items():
        for resource in workflow["resources"].values():
            resource["platform"] = name
    (fault,) = submit(on["small"]).json()["details"]
    assert 'Platform "small"' in fault["message"]
    assert "offers none on n0." in fault["message"]
    assert warnings(submit(on["big"])) == []


def test_the_verdict_counts_a_claim_on_nodes_with_a_channel_alone(submit, pool, api):
    pool.backend.cluster.nodes.filter(name__in=["n3", "n5"]).update(offers_channel=True)

    def verdict():
        reply = api.post(
            "/api/pool/gb/workflow?feasibility=only", {"file": text(gang(3, gpu=8))}, format="json"
        )
        (feasibility,) = reply.json()["feasibility"]
        return feasibility

    short = verdict()
    (nearest,) = short["sets"][0]["nearest"]
    assert (short["verdict"], nearest["without_channel"], nearest["holders"]) == ("not_now", 5, [])
    assert "5 of its nodes have no NVLink channel" in short["sentence"]
    pool.backend.cluster.nodes.filter(name="n0").update(offers_channel=True)
    fits = verdict()
    assert fits["verdict"] == "now"
    assert set(fits["places"].values()) == {"n0", "n3", "n5"}


def test_channels_are_shown_with_the_nodes_and_on_the_pools_page(api, pool, ann, client):
    nodes = pool.backend.cluster.nodes
    nodes.filter(name="n0").update(offers_channel=True)
    nodes.filter(name="n1").update(channel_since=timezone.now())
    shown = {node["name"]: node["nvlink_channel"] for node in api.get("/api/pool/gb/nodes").json()["nodes"]}
    assert shown == {"n0": True, "n1": None} | {f"n{number}": False for number in range(2, 7)}
    client.force_login(ann)
    assert "Without an NVLink channel: n2, n3, n4, n5 and n6." in client.get("/ui/pools/gb").content.decode()
    follow(pool, synced=False)
    assert "Without an NVLink channel" not in client.get("/ui/pools/gb").content.decode()
