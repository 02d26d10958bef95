"""GPUs that only ResourceSlices offer, on the real scheduler, and pods that name what does not exist."""

import pytest

from localcluster import nodes
from localcluster.rest import Refused
from tests.e2e.conftest import RACK, workflow
from tests.e2e.explanations import explain

GPU, DRIVER = "nvidia.com/gpu", "dra-gpu.example.com"
SLICES, CLASSES = "/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1/deviceclasses"
DEVICES = [{"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}}} for n in range(4)]
PAIR = workflow(("g", ["a", "b"]), resources="one: {gpu: 4, topology: [{key: rack}]}")
THREE = workflow(("g", ["a", "b", "c"]), resources="one: {gpu: 4, topology: [{key: rack}]}")


@pytest.fixture
def devices(world):
    """Slices and classes of a driver of the test's own, gone with it: a class is seen by every pool."""
    paths = []

    class Driver:
        def publish(self, node):
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": DEVICES}
            self._create(SLICES, "ResourceSlice", f"{node}-gpu", spec)

        def name_resource(self):
            selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
            spec = {"extendedResourceName": GPU, "selectors": selectors}
            self._create(CLASSES, "DeviceClass", f"{world.prefix}gpus", spec)

        def _create(self, path, kind, name, spec):
            body = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": spec,
            }
            world.api.create(path, body)
            paths.append(f"{path}/{name}")

    yield Driver()
    for path in reversed(paths):
        world.api.delete(path)


def make_pool(world, scheduler, **more):
    """A pool of one rack of two nodes without a device plugin; returns it and their names."""
    pool = f"{world.prefix}dra-{scheduler}"
    labels = {"osmo.local/pool": pool}
    made = nodes.rack(f"{pool}-r0", count=2, gpus=0, labels=labels | {RACK: "r0"})
    nodes.create(world.api, made)
    nodes.wait_ready(world.api, made)
    content = {
        "backend": f"{world.backend}-{scheduler}",
        "node_selector": labels,
        "topology_keys": [{"key": "rack", "label": RACK}],
        "platforms": {"gpu": {}},
        "default_platform": "gpu",
        "infeasible": "refuse",
        **more,
    }
    world.service.call("PUT", f"/api/configs/pool/{pool}", {"configs": content})
    return pool, [node.name for node in made]


def verdict(world, pool, text):
    (entry,) = world.service.submit(pool, text, feasibility="only")["feasibility"]
    return entry["verdict"]


def test_a_gang_runs_on_gpus_that_a_class_names(world, devices):
    pool, (first, second) = make_pool(world, "kubernetes")
    world.wait(lambda: verdict(world, pool, PAIR), lambda found: found == "never")
    devices.publish(first)
    devices.publish(second)
    assert verdict(world, pool, PAIR) == "never", "no class names them"

    devices.name_resource()
    world.wait(lambda: verdict(world, pool, PAIR), lambda found: found == "now")
    assert verdict(world, pool, THREE) == "never"
    with pytest.raises(Refused):
        world.submit(pool, THREE)
    name = world.submit(pool, PAIR)
    world.wait_group(name, "g", "RUNNING")
    assert {pod["spec"]["nodeName"] for pod in world.bound_pods(name)} == {first, second}
    world.wait(lambda: verdict(world, pool, PAIR), lambda found: found == "not_now")
    world.service.cancel(name)
    world.wait_released(name)
    world.wait(lambda: verdict(world, pool, PAIR), lambda found: found == "now")


def test_nodes_of_both_kinds_are_counted_once(world, devices):
    pool, (first, second) = make_pool(world, "kubernetes")
    devices.name_resource()
    devices.publish(first)
    devices.publish(second)
    path = f"{nodes.PATH}/{first}/status"
    amounts = {"status": {"capacity": {GPU: "4"}, "allocatable": {GPU: "4"}}}
    world.api.call("PATCH", path, body=amounts, content_type="application/merge-patch+json")
    world.wait(lambda: verdict(world, pool, PAIR), lambda found: found == "now")
    assert verdict(world, pool, THREE) == "never", "the GPUs of the first node are the same by both ways"
    name = world.submit(pool, PAIR)
    world.wait_group(name, "g", "RUNNING")


MISSING = {
    "serviceAccountName": ("ServiceAccount", "no-such-account", "namespace"),
    "runtimeClassName": ("RuntimeClass", "no-such-runtime", "the cluster"),
    "volumes": ("PersistentVolumeClaim", "no-such-volume", "namespace"),
    "resourceClaims": ("ResourceClaimTemplate", "no-such-template", "namespace"),
}


def template_of(field, name):
    match field:
        case "volumes":
            return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}
        case "resourceClaims":
            container = {"name": "{{USER_CONTAINER_NAME}}", "resources": {"claims": [{"name": "more"}]}}
            claims = [{"name": "more", "resourceClaimTemplateName": name}]
            return {"resourceClaims": claims, "containers": [container]}
        case _:
            return {field: name}


@pytest.mark.parametrize("field", MISSING)
def test_what_a_pod_template_names_and_is_not_there_is_told(world, field):
    kind, name, where = MISSING[field]
    template = f"{world.prefix}missing"
    pod = {"spec": template_of(field, name)}
    world.service.put(f"/api/configs/pod_template/{template}", {"configs": pod})
    pool = world.make_pool(racks=1, scheduler="kubernetes", common_pod_template=[template])
    submitted = world.submit(pool, PAIR)
    found = explain(world, submitted, "missing_object", by=f"a missing {kind}", says=f'{kind} "{name}"')
    assert where in found["sentence"]
