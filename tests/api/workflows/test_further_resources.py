"""Resources beside GPUs, CPU, memory and storage that a pod template adds: what nodes publish is counted."""

import pytest

from tests.api.workflows.specs import gang, text
from tests.factories import RACK, NodeFactory, PoolFactory

pytestmark = pytest.mark.django_db
NIC, PAGES = "rdma/hca", "hugepages-1Gi"
AMOUNTS = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110", "ephemeral-storage": "1Ti"}
CONTAINER = {"name": "{{USER_CONTAINER_NAME}}", "resources": {"limits": {NIC: "2", PAGES: "4Gi"}}}


@pytest.fixture
def pool():
    template = {"pod": {"spec": {"containers": [CONTAINER]}}, "revisions": {"fabric": 1}}
    made = PoolFactory(name="train", levels=[RACK], applied_template=template)
    made.platforms.update(applied_template=template)
    return made


def nodes(pool, *published):
    for number, more in enumerate(published):
        NodeFactory(
            cluster=pool.backend.cluster,
            name=f"n{number}",
            labels={RACK.label: "r1"},
            allocatable=AMOUNTS | more,
        )


def fit(api, tasks=2):
    document = {"file": text(gang(tasks, gpu=8, topology=[{"key": "rack"}]))}
    answer = api.post("/api/pool/train/workflow?feasibility=only", document, format="json")
    assert answer.status_code == 200, answer.json()
    (found,) = answer.json()["feasibility"]
    return found["verdict"], found["proven"], found["sentence"]


def test_what_nodes_offer_fits_and_how_much_is_in_use_is_not_proven(api, pool):
    nodes(pool, {NIC: "2", PAGES: "8Gi"}, {NIC: "4", PAGES: "4Gi"})
    verdict, proven, sentence = fit(api)
    assert (verdict, proven) == ("now", False)
    assert sentence.endswith(f"but how much of {PAGES} and {NIC} is in use is not known.")


def test_nodes_that_offer_too_little_are_named_with_both_numbers(api, pool):
    nodes(pool, {NIC: "1", PAGES: "8Gi"}, {PAGES: "8Gi"})
    verdict, proven, sentence = fit(api)
    assert (verdict, proven) == ("never", True)
    assert f"each of its tasks asks for 2 {NIC}, and the largest node has 1 {NIC}." in sentence


def test_a_node_without_what_others_publish_is_not_used(api, pool):
    nodes(pool, {NIC: "2", PAGES: "8Gi"}, {PAGES: "8Gi"})
    verdict, _, sentence = fit(api)
    assert verdict == "never"
    assert "has room for 1 when empty" in sentence


def test_nothing_is_proven_of_a_resource_that_no_node_publishes(api, pool):
    nodes(pool, {}, {})
    assert fit(api)[:2] == ("now", False)


def test_a_number_that_is_none_counts_as_nothing(api, pool):
    nodes(pool, {NIC: "many", PAGES: "8Gi"}, {NIC: "2", PAGES: "8Gi"})
    assert fit(api, tasks=1)[0] == "now"
    assert fit(api)[0] == "never"
