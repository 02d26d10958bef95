"""Every object we render for KAI, against the schemas that KAI serves."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("source", ["local-v0.13", "local-v0.17.0"])
def test_a_pod_group_as_a_whole_may_have_a_minimum_of_none_on_builds_after_0_17_0_alone(source):
    (pod_group,) = Kai().render(request(gang("a", "b"), POOL)).pod_groups
    pod_group["spec"]["minMember"] = 0
    assert served("local-v0.17", pod_group) == pod_group
    with pytest.raises(jsonschema.ValidationError):
        served(source, pod_group)


@given(case=sound(), data=st.data(), version=st.sampled_from(["0.13", "0.15", "0.17.0"]))
def test_no_pod_group_as_a_whole_has_a_minimum_of_none_whatever_of_it_lives(case, data, version):
    """The API server of KAI 0.17.0 would refuse the patch; leaves may have one from 0.15 on."""
    pool, members = case
    rendered = Kai().render(request(members, pool, version=version))
    names = sorted(rendered.pods)
    living = data.draw(st.lists(st.sampled_from(names), unique=True))
    waiting = data.draw(st.lists(st.sampled_from(living), unique=True)) if living else []
    patch = Kai().resized(rendered, living=living, waiting=waiting, rest=data.draw(st.booleans()))
    (pod_group,) = rendered.pod_groups
    for spec in (pod_group["spec"], patch):
        assert spec.get("minMember", 1) >= 1
        assert "minSubGroup" not in spec
    patched = {**pod_group, "spec": pod_group["spec"] | patch}
    if version != "0.13":
        assert served("local-v0.17.0", patched) == patched


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
