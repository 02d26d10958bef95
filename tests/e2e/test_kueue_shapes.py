"""Shapes of gangs that a real Kueue holds in part: what is left out is said, and the rest is tried."""

from tests.e2e.conftest import RACK
from tests.e2e.kueue_gangs import IN_ONE_ZONE, ZONE, of_sets, zoned
from tests.e2e.kueue_queues import assert_pairs_apart, bound, complete, places, workloads


def test_preferred_racks_in_a_preferred_zone_get_a_rack_each_without_the_zone(world, queues):
    """Use case 4 on a pool that ignores what its scheduler cannot hold."""
    pool = zoned(world, r0="b", r1="a", r2="a")
    config = world.service.call("GET", f"/api/configs/pool/{pool}")
    path = f"/api/configs/pool/{pool}"
    world.service.call("PUT", path, {"configs": {**config, "unsupported_preferred": "warn"}})
    queues.make(pool, ZONE, RACK)
    preferred = "requirementType: preferred"
    sets = {name: text.replace("}", f", {preferred}}}") for name, text in IN_ONE_ZONE.items()}
    name = world.submit(pool, of_sets(sets))
    world.wait_group(name, "g", "RUNNING")
    assert_pairs_apart(world, bound(world, name), RACK)
    (workload,) = workloads(world, name)
    assert [pod_set["topologyRequest"] for pod_set in workload["spec"]["podSets"]] == [
        {"preferred": RACK}
    ] * 2
    complete(world, name)


def test_preferred_racks_in_a_required_zone_are_kept_in_a_zone_that_the_service_chooses(world, queues):
    """Kueue alone would put the first set into a zone that has no room for the second."""
    pool = zoned(world, r0="b", r1="a", r2="a")
    queues.make(pool, ZONE, RACK)
    rack = "{{key: rack, group: {}, requirementType: preferred}}"
    sets = {name: f"[{{key: zone}}, {rack.format(name)}]" for name in ("one", "two")}
    name = world.submit(pool, of_sets(sets))
    world.wait_group(name, "g", "RUNNING")
    pods = bound(world, name)
    assert set(places(world, pods, ZONE)) == {"a"}
    assert_pairs_apart(world, pods, RACK)
    (workload,) = workloads(world, name)
    selectors = [pod_set["template"]["spec"]["nodeSelector"] for pod_set in workload["spec"]["podSets"]]
    assert [selector[ZONE] for selector in selectors] == ["a", "a"]
    complete(world, name)


def test_gangs_that_come_at_once_get_zones_apart(world, queues):
    """Each of three zones holds one such gang."""
    pool = zoned(world, r0="a", r1="a", r2="b", r3="b", r4="c", r5="c")
    queues.make(pool, ZONE, RACK)
    rack = "{{key: rack, group: {}, requirementType: preferred}}"
    sets = {name: f"[{{key: zone}}, {rack.format(name)}]" for name in ("one", "two")}
    names = [world.submit(pool, of_sets(sets)) for _ in range(3)]
    for name in names:
        world.wait_group(name, "g", "RUNNING")
    zones = [set(places(world, bound(world, name), ZONE)) for name in names]
    assert sorted(map(sorted, zones)) == [["a"], ["b"], ["c"]]
    for name in names:
        complete(world, name)
