"""Claims of NVLink channels follow what NVIDIA's driver publishes for the nodes of a pool."""

import psycopg
import pytest

from localcluster import nodes
from localcluster.api import MERGE_PATCH
from localcluster.rest import Refused
from localcluster.standins.computedomain.values import NVLINK_MARK
from tests.e2e.conftest import workflow

PAIR = workflow(("g", ["a", "b"]))


@pytest.fixture
def age(running_service):
    """Let the nodes of a pool have been for an hour as they are."""

    def act(pool):
        with psycopg.connect(running_service["environment"]["OSMO_DATABASE_URL"]) as connection:
            connection.execute(
                "UPDATE pools_node SET channel_since = now() - interval '1 hour' "
                "WHERE labels ->> 'osmo.local/pool' = %s",
                [pool],
            )

    return act


def channels(world, pool):
    return {
        node["name"]: node["nvlink_channel"] for node in world.service.get(f"/api/pool/{pool}/nodes")["nodes"]
    }


def wait_channels(world, pool, want):
    world.wait(lambda: channels(world, pool), lambda found: len(found) == 2 and set(found.values()) == {want})


def warnings(world, pool):
    reply = world.service.submit(pool, PAIR, dry_run=True)
    return [warning for warning in reply["warnings"] if "NVLink channel is not known" in warning]


def set_driver(world, pool, *, runs):
    """Let NVIDIA's driver run on the nodes of a pool, or end there."""
    for name in channels(world, pool):
        body = {"metadata": {"labels": {NVLINK_MARK: str(runs).lower()}}}
        world.api.call("PATCH", f"{nodes.PATH}/{name}", body=body, content_type=MERGE_PATCH)


def test_a_claim_is_refused_once_all_nodes_have_been_without_channel_for_long(world, age):
    pool = world.make_pool(racks=1, nvlink=True)
    wait_channels(world, pool, True)
    assert warnings(world, pool) == []

    set_driver(world, pool, runs=False)
    wait_channels(world, pool, None)
    (warning,) = warnings(world, pool)
    assert "less than 10 minutes ago" in warning

    age(pool)
    wait_channels(world, pool, False)
    with pytest.raises(Refused) as refused:
        world.service.submit(pool, PAIR, dry_run=True)
    (fault,) = refused.value.body["details"]
    assert (refused.value.status, fault["code"], fault["path"]) == (
        400,
        "nvlink_without_channel",
        "workflow.groups[0]",
    )
    assert all(name in fault["message"] for name in channels(world, pool))

    set_driver(world, pool, runs=True)
    wait_channels(world, pool, True)
    assert warnings(world, pool) == []
