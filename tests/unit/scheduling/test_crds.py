"""Every object we render for KAI, against the schemas that KAI serves."""

import jsonschema
import pytest
from hypothesis import given

from scheduling.backends.base import PoolRequest, QueueSettings
from scheduling.backends.kai import Kai
from scheduling.backends.kai.version import version_from_schema
from tests.unit.scheduling import crds
from tests.unit.scheduling.build import INSTALLATION, gang, levels, request
from tests.unit.scheduling.gangs import sound

POOL = levels("zone spine rack")
GROUP_OF = {"PodGroup": "scheduling.run.ai", "Queue": "scheduling.run.ai", "Topology": "kai.scheduler"}
PLURAL_OF = {"PodGroup": "podgroups", "Queue": "queues", "Topology": "topologies"}


def served(source, manifest):
    kind = manifest["kind"]
    return crds.served(crds.definition(source, PLURAL_OF[kind], GROUP_OF[kind]), manifest)


@pytest.mark.parametrize("source", crds.SOURCES)
def test_pool_objects_pass_a_round_trip(source):
    pool = PoolRequest(
        namespace="osmo", pool="H100", installation=INSTALLATION, levels=POOL, gpu_guarantee=8, gpu_maximum=16
    )
    manifests = Kai().pool_objects(pool)
    assert [m["kind"] for m in manifests] == ["Queue", "Queue", "Topology", "Topology", "Topology"]
    for manifest in manifests:
        assert served(source, manifest) == manifest


@pytest.mark.parametrize("source", crds.SOURCES)
@given(case=sound())
def test_pod_groups_and_topologies_pass_a_round_trip(source, case):
    pool, asked = case
    rendered = Kai().render(request(asked, pool))
    for manifest in (*rendered.pod_groups, *rendered.topologies):
        assert served(source, manifest) == manifest


@pytest.mark.parametrize("source", crds.NEWEST)
def test_the_round_trip_notices_a_field_that_does_not_exist(source):
    (pod_group,) = Kai().render(request(gang("a: rack! r", "b"), POOL)).pod_groups
    pod_group["spec"]["subgroups"] = pod_group["spec"].pop("subGroups")
    assert served(source, pod_group) != pod_group


@pytest.mark.parametrize("source", crds.NEWEST)
def test_the_round_trip_notices_a_name_v017_refuses(source):
    (pod_group,) = Kai().render(request(gang("a: rack! r", "b"), POOL)).pod_groups
    pod_group["spec"]["subGroups"][0]["name"] = "Rack"
    with pytest.raises(jsonschema.ValidationError):
        served(source, pod_group)


VERSION_IN_SCHEMA = dict.fromkeys(crds.OLDEST, "0.13") | dict.fromkeys(crds.NEWEST, "0.17")


@pytest.mark.parametrize(("source", "want"), VERSION_IN_SCHEMA.items())
def test_the_version_is_inferred_from_the_schema(source, want):
    definition = crds.definition(source, "podgroups", "scheduling.run.ai")
    assert str(version_from_schema(definition)) == want


@pytest.mark.parametrize("source", crds.SOURCES)
def test_minimum_run_times_pass_a_round_trip(source):
    settings = QueueSettings(preempt_min_runtime=300, reclaim_min_runtime=0.5)
    pool = PoolRequest(namespace="osmo", pool="H100", installation=INSTALLATION, levels=(), queues=settings)
    *_, queue = Kai().pool_objects(pool)
    assert served(source, queue) == queue
    assert queue["spec"]["preemptMinRuntime"] == "300s"
    assert queue["spec"]["reclaimMinRuntime"] == "500ms"


@pytest.mark.parametrize("source", crds.SOURCES)
def test_a_delay_of_preemption_is_written_where_the_schema_keeps_it(source):
    version = version_from_schema(crds.definition(source, "podgroups", "scheduling.run.ai"))
    (pod_group,) = Kai().render(request(gang("a b"), POOL, preemption_delay=90, version=version)).pod_groups
    assert served(source, pod_group) == pod_group
    assert pod_group["spec"].get("preemptionDelay") == ("90s" if str(version) == "0.17" else None)
