"""A preference is never a blocker: use case 4 on a cluster whose room is on nodes without labels."""

from localcluster import nodes
from localcluster.directories import CHECKOUT
from tests.e2e.conftest import RACK

SPINE = "osmo.local/spine"
KEYS = [{"key": "spine", "label": SPINE}, {"key": "rack", "label": RACK}]
USE_CASE_4 = (CHECKOUT / "examples/use-case-4.yaml").read_text()


def add_nodes(world, pool, name, *, count, labels):
    """Nodes with room for one task each."""
    made = nodes.rack(f"{pool}-{name}", count=count, gpus=4, labels={"osmo.local/pool": pool, **labels})
    nodes.create(world.api, made)
    nodes.wait_ready(world.api, made)


def test_use_case_4_runs_on_nodes_that_lack_the_labels_it_prefers(world):
    pool = world.make_pool(racks=0, topology_keys=KEYS, free_preferences_after=15)
    spine = {SPINE: f"{world.prefix}s1"}
    add_nodes(world, pool, "racked", count=2, labels=spine | {RACK: "r1"})
    add_nodes(world, pool, "bare", count=6, labels=spine)
    name = world.submit(pool, USE_CASE_4)
    (group,) = world.groups(name)

    placed = world.wait_group(name, group, "RUNNING")
    events = world.wait(
        lambda: world.service.events(name),
        lambda lines: any(" PreferencesGaveWay: " in line for line in lines),
    )
    assert any("one spine" in line for line in events)
    assert {(row["key"], row.get("applied_key")) for row in placed["constraints"]} == {
        ("spine", None),
        ("rack", "spine"),
    }
    hosts = {pod["spec"]["nodeName"] for pod in world.bound_pods(name)}
    assert len(hosts) == 8
    outcome = world.wait(lambda: world.groups(name)[group]["got"], bool)
    assert outcome["outcome"] == "degraded"
    for pod in world.pods(name):
        world.annotate(pod, run_for="0s")
    assert world.wait_released(name)["status"] == "COMPLETED"
    assert world.left(name) == []
