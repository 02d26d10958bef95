"""Which devices of DRA drivers count as a resource, and why others are not counted."""

import pytest

from scheduling.kubernetes_syntax import GPU
from scheduling.nodes.devices import (
    CLAIMS_UNKNOWN,
    DIVIDED,
    INCOMPLETE,
    MANY_KINDS,
    NO_DEVICES,
    NOT_GIVEN,
    SHARED,
    SHUNNED,
    DeviceRule,
    NodeDevices,
    class_of_each,
    devices_of,
    read_class,
    read_slice,
)

DRIVER = "gpu.nvidia.com"
BY_DRIVER = 'device.driver == "gpu.nvidia.com"'
BY_TYPE = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
"""The expression of NVIDIA's own chart."""


def gpu(name="gpu", kind="gpu", **fields):
    return {"name": name, "attributes": {"type": {"string": kind}, "index": {"int": 1}}, **fields}


def spec(*devices, pool="n", slices=1, generation=1, **fields):
    pool = {"name": pool, "generation": generation, "resourceSliceCount": slices}
    return {"driver": DRIVER, "nodeName": "n", "pool": pool, "devices": list(devices)} | fields


def device_class(*expressions, name="gpus", resource=GPU, created="2026-01-01T00:00:00Z"):
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    metadata = {"name": name, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"extendedResourceName": resource, "selectors": selectors}}


def offered(*specs, classes=None):
    slices = [read_slice(each) for each in specs]
    pools = {}
    for piece in sorted(slices, key=lambda piece: piece.generation):
        generation, count = pools.get(piece.pool_key, (piece.generation, 0))
        pools[piece.pool_key] = (piece.generation, count + 1 if generation == piece.generation else 1)
    read = [entry for each in classes or [device_class(BY_TYPE)] if (entry := read_class(each))]
    return devices_of(slices, pools=pools, classes=read)


COUNTED = {
    "GPUs of one slice": ([spec(gpu(), gpu())], {GPU: 2}),
    "of two slices of one pool": ([spec(gpu(), slices=2), spec(gpu(), gpu(), slices=2)], {GPU: 3}),
    "of two pools": ([spec(gpu()), spec(gpu(), pool="other")], {GPU: 2}),
    "not other kinds": ([spec(gpu(), gpu(kind="mig"))], {GPU: 1}),
    "not other drivers": ([spec(gpu()), spec(gpu(), driver="x.example.com", pool="x")], {GPU: 1}),
    "not past generations": ([spec(gpu(), gpu()), spec(gpu(), generation=2)], {GPU: 1}),
    "an attribute with its domain": (
        [spec({"name": "a", "attributes": {"gpu.nvidia.com/type": {"string": "gpu"}}})],
        {GPU: 1},
    ),
    "none": ([spec()], {}),
    "counters that no device uses, on a slice without devices": (
        [spec(gpu(), slices=2), spec(slices=2, sharedCounters=[{"name": "c"}])],
        {GPU: 1},
    ),
    "a capacity, and fields that say no": (
        [spec(gpu(capacity={"memory": {"value": "80Gi"}}, allNodes=False), allNodes=False)],
        {GPU: 1},
    ),
}


@pytest.mark.parametrize("case", COUNTED)
def test_whole_devices_of_one_node_are_counted(case):
    specs, want = COUNTED[case]
    devices = offered(*specs)
    assert (devices.counted, devices.doubts) == (want, {})


DOUBTFUL = {
    "part of a pool": ([spec(gpu(), slices=2)], INCOMPLETE),
    "part of a pool without devices": ([spec(slices=2)], INCOMPLETE),
    "part of a pool with devices of another kind": ([spec(gpu(kind="mig"), slices=2)], INCOMPLETE),
    "partitions": ([spec(gpu(consumesCounters=[{"counterSet": "c"}]))], DIVIDED),
    "counters": ([spec(gpu(), sharedCounters=[{"name": "c"}])], DIVIDED),
    "a selector of nodes": ([spec(gpu(), nodeName=None, nodeSelector={"nodeSelectorTerms": []})], SHARED),
    "all nodes": ([spec(gpu(), nodeName=None, allNodes=True)], SHARED),
    "nodes by device": ([spec(gpu(nodeName="n"), nodeName=None, perDeviceNodeSelection=True)], SHARED),
    "a taint": (
        [spec(gpu(taints=[{"key": "bad", "effect": "NoSchedule"}]))],
        "some of its devices carry taints",
    ),
    "a field of the future": ([spec(gpu(parity=True))], "its devices have a field parity, which is not read"),
    "many kinds": ([spec(*(gpu(kind=f"gpu{i}") for i in range(100)))], MANY_KINDS),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_devices_that_cannot_be_counted_are_a_doubt_with_its_reason(case):
    specs, reason = DOUBTFUL[case]
    devices = offered(*specs, classes=[device_class(BY_DRIVER)])
    assert (devices.counted, devices.doubts) == ({}, {GPU: reason})


def test_a_doubt_about_devices_that_the_class_leaves_out_is_none():
    divided = spec(gpu(kind="mig", consumesCounters=[{"counterSet": "c"}]), pool="migs")
    assert offered(spec(gpu()), divided).counted == {GPU: 1}


EXPRESSIONS = {
    BY_DRIVER: 2,
    BY_TYPE: 1,
    'device.attributes["gpu.nvidia.com"].type == "gpu"': 1,
    "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'": 1,
    "device.driver=='gpu.nvidia.com'": 2,
    'device.driver == "other.example.com" && device.capacity["x"].memory > quantity("1Gi")': 0,
    'device.driver == "gpu.nvidia.com" || true': None,
    'device.driver == "x" && device.driver == "y" || device.driver == "gpu.nvidia.com"': None,
    'device.driver == "x" && true ? false : true': None,
    'device.attributes["gpu.nvidia.com"].index == 1': None,
    'device.attributes["gpu.nvidia.com"].productName == "H100"': None,  # that they do not have: CEL fails
    '!(device.driver == "gpu.nvidia.com")': None,
    "": None,
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_only_selectors_that_are_read_whole_count(expression):
    devices = offered(spec(gpu(), gpu(kind="mig")), classes=[device_class(expression)])
    want = EXPRESSIONS[expression]
    assert devices.counted.get(GPU, 0) == (want or 0)
    assert bool(devices.doubts) == (want is None)


def test_all_selectors_of_a_class_hold_and_one_without_selectors_takes_every_device():
    both = device_class(BY_DRIVER, 'device.attributes["gpu.nvidia.com"].type == "mig"')
    assert offered(spec(gpu(), gpu(kind="mig")), classes=[both]).counted == {GPU: 1}
    assert offered(spec(gpu(), gpu(kind="mig")), classes=[device_class()]).counted == {GPU: 2}


def test_without_a_class_that_names_the_resource_nothing_is_counted_and_nothing_is_in_doubt():
    unnamed = device_class(BY_TYPE, resource=None)
    devices = offered(spec(gpu(), gpu()), classes=[unnamed])
    assert devices == NodeDevices(drivers={DRIVER: 2})


def test_of_two_classes_for_one_resource_the_newest_counts():
    old, new = device_class(name="a"), device_class(name="b", created="2026-02-01T00:00:00Z")
    twin = device_class(name="c", created="2026-02-01T00:00:00Z")
    read = [read_class(each) for each in (twin, old, new)]
    assert {entry.name for entry in class_of_each(read).values()} == {"b"}


def test_devices_are_the_same_after_they_were_stored():
    devices = offered(spec(gpu()), spec(gpu(parity=True), pool="x"))
    assert NodeDevices.from_json(devices.as_json()) == devices
    assert NO_DEVICES.as_json() == {}


COUNTS = NodeDevices(counted={GPU: 4}, drivers={DRIVER: 4})
DIVIDES = NodeDevices(doubts={GPU: DIVIDED}, drivers={DRIVER: 4})
BESIDE = NodeDevices(drivers={DRIVER: 4})
KUBERNETES = DeviceRule(gives_devices=True, shuns_drivers="")
KAI = DeviceRule(gives_devices=False, shuns_drivers="gpu")
KUEUE = DeviceRule(gives_devices=False, shuns_drivers="")

RULES = {
    "counted": (KUBERNETES, COUNTS, 4, ""),
    "not counted": (KUBERNETES, DIVIDES, 0, DIVIDED),
    "a device plugin goes before": (KUBERNETES, DIVIDES, 4, ""),
    "without a class": (KUBERNETES, BESIDE, 0, ""),
    "slices unknown": (DeviceRule(True, "", "forbidden"), NO_DEVICES, 0, "forbidden"),
    "counted once, slices unknown now": (DeviceRule(True, "", "forbidden"), COUNTS, 4, "forbidden"),
    "slices unknown beside a device plugin": (DeviceRule(True, "", "forbidden"), NO_DEVICES, 8, ""),
    "slices unknown to one that gives none": (DeviceRule(False, "", "forbidden"), NO_DEVICES, 0, ""),
    "a scheduler that is not known to give them": (KUEUE, COUNTS, 4, NOT_GIVEN),
    "KAI, without a class": (KAI, BESIDE, 0, ""),
    "KAI, beside a device plugin": (KAI, BESIDE, 8, SHUNNED),
    "Kueue, beside a device plugin": (KUEUE, BESIDE, 8, ""),
}


@pytest.mark.parametrize("case", RULES)
def test_what_is_not_known_of_gpus_depends_on_the_scheduler(case):
    rule, devices, gpus, want = RULES[case]
    assert rule.doubt(devices, GPU, offered=gpus) == want
    assert CLAIMS_UNKNOWN not in want


def test_a_pool_whose_new_generation_has_not_come_whole_is_a_doubt():
    newer = {("gpu.nvidia.com", "n"): (2, 1)}
    devices = devices_of([read_slice(spec(gpu()))], pools=newer, classes=[read_class(device_class(BY_TYPE))])
    assert (devices.counted, devices.doubts) == ({}, {GPU: INCOMPLETE})
