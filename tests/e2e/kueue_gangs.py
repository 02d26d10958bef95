"""Gangs of two sets for Kueue, and the pool of racks in zones that they need."""

import re

from localcluster import nodes
from tests.e2e.conftest import RACK, workflow

ZONE = "osmo.local/zone"

IN_ONE_ZONE = {
    "one": "[{key: zone}, {key: rack, group: x}]",
    "two": "[{key: zone}, {key: rack, group: y}]",
}


def of_sets(resources):
    """Four tasks, each of the resource spec that names it."""
    text = workflow(
        ("g", list("abcd")),
        resources="\n    ".join(
            f"{name}: {{gpu: 4, topology: {topology}}}" for name, topology in resources.items()
        ),
    )
    for task in "cd":
        text = re.sub(rf"(name: {task}, .*resource: )one", r"\1two", text)
    return text


def zoned(world, **zones):
    """A pool of racks of two nodes, each in a zone, with both as its keys."""
    keys = [{"key": "zone", "label": ZONE}, {"key": "rack", "label": RACK}]
    pool = world.make_pool(scheduler="kueue", racks=len(zones), topology_keys=[])
    for number, zone in enumerate(zones.values()):
        for node in world.api.list(nodes.PATH)[0]:
            if node["metadata"]["name"].startswith(f"{pool}-r{number}"):
                path = f"{nodes.PATH}/{node['metadata']['name']}"
                world.api.patch(path, {"metadata": {"labels": {ZONE: zone}}})
    config = world.service.call("GET", f"/api/configs/pool/{pool}")
    world.service.call("PUT", f"/api/configs/pool/{pool}", {"configs": {**config, "topology_keys": keys}})
    return pool
