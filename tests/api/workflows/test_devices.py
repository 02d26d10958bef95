"""GPUs that nodes offer only by ResourceSlices: counted where the scheduler gives them, else not proven."""

import pytest

from pools.models import Node, ObservedResource
from pools.selectors import gpus_of
from pools.values.completeness import NODES
from scheduling.kubernetes_syntax import GPU
from scheduling.nodes.devices import CLASSES, SLICES
from tests.api.workflows.specs import gang, text
from tests.builders.completeness import completeness, note_lists
from tests.factories import RACK, BackendFactory, PoolFactory
from workflows.observer.inbox import Batch
from workflows.observer.writer import write
from workflows.values.observation import see_class, see_node, see_slice

pytestmark = pytest.mark.django_db

DRIVER = "gpu.nvidia.com"
AMOUNTS = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "500Gi"}
FOUR = [{"name": f"gpu-{n}", "attributes": {"type": {"string": "gpu"}}} for n in range(4)]
DIVIDED = [{**device, "consumesCounters": [{"counterSet": "c"}]} for device in FOUR]


def node(name, gpus=None):
    ready = [{"type": "Ready", "status": "True"}]
    amounts = AMOUNTS | ({} if gpus is None else {GPU: gpus})
    labels = {RACK.label: "r1", "kubernetes.io/hostname": name}
    return see_node(
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
            "status": {"allocatable": amounts, "conditions": ready},
        }
    )


def gpu_slice(name, devices=FOUR, **fields):
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices} | fields
    return see_slice({"metadata": {"name": f"{name}-gpu", "uid": "u"}, "spec": spec})


def gpu_class(expression=f'device.driver == "{DRIVER}"'):
    spec = {"extendedResourceName": GPU, "selectors": [{"cel": {"expression": expression}}]}
    return see_class({"metadata": {"name": "gpus", "uid": "u"}, "spec": spec})


@pytest.fixture
def pool():
    pool = PoolFactory(
        name="train", levels=[RACK], infeasible="refuse", backend=backend("kubernetes", "1.37")
    )
    observe(pool, slices="", classes="")
    return pool


def backend(kind, version):
    return BackendFactory(scheduler_type=kind, scheduler_version=version)


KINDS = {"slices": SLICES, "classes": CLASSES}


def observe(pool, *changes, **problems):
    problems = {KINDS[name]: problem for name, problem in problems.items()}
    batch = Batch(changes=list(changes), problems={NODES: "", **problems})
    write(pool.backend.cluster_id, batch)


def fit(api, tasks=2):
    document = {"file": text(gang(tasks, gpu=4, topology=[{"key": "rack"}]))}
    answer = api.post("/api/pool/train/workflow?feasibility=only", document, format="json")
    assert answer.status_code == 200, answer.json()
    (found,) = answer.json()["feasibility"]
    return found["verdict"], found["proven"], found["sentence"]


ALL = (node("n0"), node("n1"), gpu_slice("n0"), gpu_slice("n1"), gpu_class())


def test_devices_that_a_class_names_are_counted(api, pool):
    observe(pool, *ALL)
    assert {row.allocatable[GPU] for row in Node.objects.all()} == {"4"}
    assert fit(api)[:2] == ("now", False)
    assert "resource claims of other pods may use its devices" in fit(api)[2]
    assert fit(api, tasks=3)[:2] == ("never", True), "eight devices are no room for twelve"


def test_a_pool_that_refuses_accepts_it(api, pool):
    observe(pool, *ALL)
    answer = api.post("/api/pool/train/workflow", {"file": text(gang(2, gpu=4))}, format="json")
    assert answer.status_code == 200, answer.json()


def test_the_order_in_which_they_are_heard_of_makes_no_difference(api, pool):
    for change in reversed(ALL):
        observe(pool, change)
    assert fit(api)[0] == "now"


def test_a_node_that_is_written_again_keeps_its_devices_and_loses_them_with_their_class(api, pool):
    observe(pool, *ALL)
    observe(pool, node("n0"))
    assert fit(api)[0] == "now"
    spec = {"selectors": []}
    observe(pool, see_class({"metadata": {"name": "gpus", "uid": "u"}, "spec": spec}))
    assert {row.allocatable.get(GPU) for row in Node.objects.all()} == {None}
    assert fit(api)[:2] == ("never", True)


def test_what_an_observer_of_the_next_release_wrote_besides_is_left_alone(api, pool):
    observe(pool, *ALL[2:])
    for row in ObservedResource.objects.all():
        row.reading |= {"of_the_next_release": 1}
        row.save()
    observe(pool, *ALL[:2])
    assert fit(api)[0] == "now"


def test_without_a_class_that_names_gpus_it_is_never(api, pool):
    observe(pool, *ALL[:-1])
    verdict, proven, sentence = fit(api)
    assert (verdict, proven) == ("never", True)
    assert "Devices of gpu.nvidia.com (2 nodes) are there, and no DeviceClass gives them to tasks" in sentence


NOTES = {
    "counted": ((gpu_slice("n0"), gpu_slice("n1"), gpu_class()), "4 of 4 GPUs free"),
    "not counted": ((gpu_slice("n0", DIVIDED), gpu_class()), "GPUs not known: its devices can be divided"),
    "without a class": ((gpu_slice("n0"),), "4 devices of gpu.nvidia.com by resource claims alone"),
}


@pytest.mark.parametrize("case", NOTES)
def test_the_map_shows_no_zero_that_is_not_known(browser, pool, case):
    changes, want = NOTES[case]
    observe(pool, node("n0"), *changes)
    assert f"n0: {want}" in browser.get("/ui/pools/train/map").content.decode()


def test_a_device_plugin_and_slices_of_one_node_are_not_added(api, pool):
    observe(pool, node("n0", gpus="4"), *ALL[1:])
    assert Node.objects.get(name="n0").allocatable[GPU] == "4"
    assert fit(api, tasks=2)[0] == "now"
    assert fit(api, tasks=3)[0] == "never"


def test_a_device_plugin_that_comes_and_goes_takes_their_place_for_as_long(api, pool):
    observe(pool, *ALL)
    observe(pool, node("n0", gpus="8"))
    observe(pool, gpu_slice("n0"))
    row = Node.objects.get(name="n0")
    assert (row.allocatable[GPU], row.devices["beside"]) == ("8", {GPU: 4})
    assert [fit(api, tasks=tasks)[0] for tasks in (3, 4)] == ["now", "never"]
    observe(pool, node("n0", gpus="0"))
    row = Node.objects.get(name="n0")
    assert (row.allocatable[GPU], row.devices["counted"]) == ("4", {GPU: 4})


def test_a_device_plugin_that_offers_none_leaves_them_to_the_slices(api, pool):
    observe(pool, node("n0", gpus="0"), *ALL[1:])
    assert fit(api)[0] == "now"


UNCOUNTED = {
    "devices that can be divided": (gpu_slice("n0", DIVIDED), gpu_slice("n1", DIVIDED)),
    "a pool that is not whole": tuple(
        gpu_slice(name, pool={"name": name, "generation": 1, "resourceSliceCount": 2})
        for name in ("n0", "n1")
    ),
    "devices of several nodes": (
        gpu_slice("x", nodeName=None, nodeSelector={"nodeSelectorTerms": [{"matchFields": []}]}),
    ),
    "an expression that is not evaluated": (
        gpu_slice("n0"),
        gpu_slice("n1"),
        gpu_class("device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40Gi'))"),
    ),
}


@pytest.mark.parametrize("case", UNCOUNTED)
def test_nothing_is_proven_of_devices_that_cannot_be_counted(api, pool, case):
    observe(pool, node("n0"), node("n1"), gpu_class(), *UNCOUNTED[case])
    verdict, proven, sentence = fit(api)
    assert (verdict, proven) == ("now", False)
    assert "how many free GPUs 1 node has is not known: " in sentence
    answer = api.post("/api/pool/train/workflow", {"file": text(gang(2, gpu=4))}, format="json")
    assert answer.status_code == 200, "the pool refuses only what is proven"


def test_other_causes_of_never_are_proven_all_the_same(api, pool):
    observe(pool, node("n0"), node("n1"), gpu_class(), *UNCOUNTED["devices that can be divided"])
    wide = gang(2, gpu=4)
    wide["resources"]["shard"]["cpu"] = 100
    document = {"file": text(wide)}
    (found,) = api.post("/api/pool/train/workflow?feasibility=only", document, format="json").json()[
        "feasibility"
    ]
    assert (found["verdict"], found["proven"]) == ("never", True)
    assert "100 cores" in found["sentence"]


@pytest.mark.parametrize("kind", ["slices", "classes"])
def test_what_may_not_be_listed_proves_nothing(api, pool, kind):
    observe(pool, node("n0"), node("n1"), **{kind: "you may not list them"})
    verdict, proven, sentence = fit(api)
    assert (verdict, proven) == ("now", False)
    assert "you may not list them" in sentence
    observe(pool, slices="", classes="")
    assert fit(api)[:2] == ("never", True)
    assert completeness(CLASSES).is_known


@pytest.mark.parametrize("kind", ["slices", "classes"])
def test_what_was_never_listed_proves_nothing(api, pool, kind):
    observe(pool, *ALL[:2])
    note_lists({KINDS[kind]: None})
    verdict, proven, sentence = fit(api)
    assert (verdict, proven) == ("now", False)
    assert "the devices of DRA drivers have not been listed yet" in sentence


def test_a_count_that_can_no_longer_be_followed_proves_nothing(api, pool):
    observe(pool, *ALL)
    assert fit(api, tasks=3)[:2] == ("never", True)
    observe(pool, slices="you may not list them")
    verdict, proven, sentence = fit(api, tasks=3)
    assert (verdict, proven) == ("now", False)
    assert "you may not list them" in sentence


SCHEDULERS = {
    "default": ("1.37", "now", False),
    "kai": ("0.13", "now", False),
    "kueue": ("0.17", "now", False),
}


@pytest.mark.parametrize("kind", SCHEDULERS)
def test_what_each_scheduler_gives_of_them(api, kind):
    version, *want = SCHEDULERS[kind]
    levels = [] if kind == "default" else [RACK]
    pool = PoolFactory(name="train", levels=levels, backend=backend(kind, version))
    observe(pool, *ALL)
    document = {"file": text(gang(2, gpu=4))}
    (found,) = api.post("/api/pool/train/workflow?feasibility=only", document, format="json").json()[
        "feasibility"
    ]
    assert [found["verdict"], found["proven"]] == want
    assert ("is not known to give devices" in found["sentence"]) == (kind != "default")


GIVEN = {"default": 8, "kubernetes": 8, "kai": 0, "kueue": 0}


@pytest.mark.parametrize("kind", GIVEN)
def test_no_door_counts_devices_that_the_scheduler_does_not_give(api, browser, kind):
    pool = PoolFactory(name="train", levels=[RACK], backend=backend(kind, "1.37"))
    observe(pool, *ALL)
    observe(pool, slices="", classes="")
    (usage,) = api.get("/api/pool_quota").json()["node_sets"][0]["pools"]
    resources = api.get("/api/resources").json()["resources"]
    amounts = [row["platform_available_fields"]["train"] for row in resources]
    topology = api.get("/api/pool/train/topology").json()
    counts = {
        "quota": int(usage["resource_usage"]["total_capacity"]),
        "quota, free": int(usage["resource_usage"]["total_free"]),
        "resources": sum(entry["gpu"] for row in amounts for entry in row.values()),
        "resources, for a table": sum(int(row["exposed_fields"]["gpu"]) for row in resources),
        "topology": topology["gpus"],
        "parent queue": gpus_of([pool]),
    }
    assert set(counts.values()) == {GIVEN[kind]}, counts
    assert topology["uncounted_nodes"] == (0 if GIVEN[kind] else 2)
    assert ("2 nodes not counted" in browser.get("/ui/").content.decode()) == (not GIVEN[kind])
    added = {"add_nodes": [{"like": "n0", "count": 3}]}
    after = api.post("/api/pool/train/what-if", added, format="json").json()["fragmentation"]["after"]
    assert after["free"] == 5, "an added node is like its model"


def test_on_kai_a_node_with_both_is_not_proven_to_have_room(api):
    pool = PoolFactory(name="train", levels=[RACK], backend=backend("kai", "0.13"))
    for classes in ((), ALL[-1:]):
        observe(pool, node("n0", gpus="4"), node("n1", gpus="4"), *ALL[2:-1], *classes)
        verdict, proven, sentence = fit(api)
        assert (verdict, proven) == ("now", False)
        assert "gives no GPUs by number on nodes whose GPUs a DRA driver offers, too" in sentence
