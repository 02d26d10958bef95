"""A workflow excludes nodes by their names, whatever their label ``kubernetes.io/hostname`` says."""

import json

import pytest

from tests.api.workflows.specs import gang, text
from tests.factories import NodeFactory, PoolFactory

pytestmark = pytest.mark.django_db
HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture
def pool():
    """Two nodes of eight GPUs, with host names that are not their names, as several clouds have them."""
    made = PoolFactory(name="train")
    for name in ("n0", "n1"):
        NodeFactory(cluster=made.backend.cluster, name=name, labels={HOSTNAME: f"{name}.example"})
    return made


def ask(api, *excluded, tasks=1, query="?dry_run=true"):
    spec = gang(tasks, gpu=8)
    (resource,) = spec["resources"].values()
    resource["nodesExcluded"] = [*excluded]
    answer = api.post(f"/api/pool/train/workflow{query}", {"file": text(spec)}, format="json")
    assert answer.status_code == 200, answer.json()
    return answer.json()


def test_pods_keep_off_the_node_by_its_host_name(api, pool):
    pods = json.dumps(ask(api, "n0"))
    assert "n0.example" in pods
    assert "n1.example" not in pods


def test_each_segment_keeps_its_own_set_beside_the_excluded_node(api, pool):
    spec = gang(1, gpu=8)
    (resource,) = spec["resources"].values()
    resource["nodesExcluded"] = ["n0"]
    entry = {"count": 4, "segment": {"size": 2, "key": "rack"}}
    spec["groups"][0]["tasks"][0] |= entry
    pool.topology_keys.create(position=0, key="rack", label="example.com/rack")
    answer = api.post("/api/pool/train/workflow?dry_run=true", {"file": text(spec)}, format="json").json()
    (group,) = answer["constraints"]
    assert [each["tasks"] for each in group["constraints"]] == [2, 2]


def test_the_verdict_counts_without_the_node(api, pool):
    (fit,) = ask(api, "n0", tasks=2, query="?feasibility=only")["feasibility"]
    assert fit["verdict"] == "never"
    (fit,) = ask(api, "n0", query="?feasibility=only")["feasibility"]
    assert fit["verdict"] == "now"


def test_a_name_that_no_node_of_the_pool_has_is_a_warning(api, pool):
    NodeFactory(cluster=pool.backend.cluster, name="n0.example.org", labels={HOSTNAME: "n0.example.org"})
    answer = ask(api, "n0", "n7", query="?validation_only=true")
    (warning,) = (text for text in answer["warnings"] if "n7" in text)
    assert 'No known node of pool "train" is named "n7"; it excludes none.' in warning
    assert not any('named "n0"' in text for text in answer["warnings"])


def test_a_host_name_is_known_as_well(api, pool):
    answer = ask(api, "n0.example", query="?validation_only=true")
    assert not any("n0.example" in text for text in answer["warnings"])
    assert "n0.example" in json.dumps(ask(api, "n0.example"))
