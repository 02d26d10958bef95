"""What a cluster must serve, found in definitions, and what a dry run shows to be lost."""

import pytest

from scheduling.backends.kai import KAI
from scheduling.backends.kai.features import POD_GROUP, QUEUE, TOPOLOGY
from scheduling.backends.kueue import KUEUE
from scheduling.conformance import COMPUTE_DOMAIN, NVLINK, check_features, lost
from tests.unit.scheduling import crds


def served(kai):
    """The schemas of one version of KAI and of NVIDIA's driver."""
    nvidia = "local-nvidia" if kai in crds.OURS else "nvidia-dra"
    sources = {POD_GROUP: kai, QUEUE: kai, TOPOLOGY: kai, COMPUTE_DOMAIN: nvidia}
    return {resource: schema(resource, source) for resource, source in sources.items()}


def schema(resource, source):
    group = resource.api_version.partition("/")[0]
    manifest = {"apiVersion": resource.api_version, "kind": resource.kind}
    return crds.schema_of(crds.definition(source, resource.plural, group), manifest)


@pytest.mark.parametrize(
    ("source", "not_found"),
    [
        *(
            (source, {"PodGroup.spec.subGroups.minSubGroup", "Topology.spec.levels.alias"})
            for source in crds.OLDEST
        ),
        *((source, set()) for source in crds.NEWEST),
    ],
)
def test_the_definitions_have_every_feature_that_is_used(source, not_found):
    findings = list(check_features((*KAI.features, *NVLINK), served(source)))
    assert {finding.name for finding in findings if not finding.found} == not_found
    assert not {finding.name for finding in findings if not finding.found and finding.purpose}


@pytest.mark.parametrize("source", crds.KUEUE)
def test_kueues_definitions_have_every_field_that_is_written_or_read(source):
    schemas = {feature.resource: schema(feature.resource, source) for feature in KUEUE.features}
    findings = list(check_features(KUEUE.features, schemas))
    assert {finding.name for finding in findings if not finding.found} == set()
    assert {"Workload", "LocalQueue", "ClusterQueue", "ResourceFlavor", "Topology"} <= {
        finding.name for finding in findings
    }


def test_a_workload_without_assignments_of_nodes_cannot_be_used():
    """As in a release that serves the version and not yet the field."""
    workload = KUEUE.pod_group
    source = schema(workload, "local-kueue")
    bare = {**source, "properties": {**source["properties"], "status": {"type": "object"}}}
    missing = [
        feature for feature in check_features(KUEUE.features, {workload: bare}) if feature.found is False
    ]
    assert {feature.name for feature in missing if feature.name.startswith("Workload")} == {
        "Workload.status.admission.podSetAssignments.topologyAssignment.slices.podCounts",
        "Workload.status.admission.podSetAssignments.topologyAssignment.slices.valuesPerLevel",
    }
    assert {feature.purpose for feature in missing} == {"scheduler"}


def test_a_kind_that_is_not_served_and_a_schema_that_cannot_be_read_are_told_apart():
    findings = {feature.name: feature for feature in check_features(NVLINK, {COMPUTE_DOMAIN: None})}
    assert findings["ComputeDomain"].found is True
    assert findings["ComputeDomain.spec.numNodes"].found is None
    assert {feature.found for feature in check_features(NVLINK, {})} == {False}


@pytest.mark.parametrize(
    ("sent", "kept", "want"),
    [
        ({"a": 1, "b": {"c": [1, {"d": 2}]}}, {"a": 1, "b": {"c": [1, {"d": 2, "e": 3}]}, "f": 4}, []),
        ({"a": {"b": 1}}, {"a": {}}, ["a.b"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a.0", "a.1"]),
        ({"a": {"b": {"c": 1}}}, {}, ["a.b.c"]),
        ({"a": 1}, {"a": 2}, ["a"]),
    ],
)
def test_a_field_that_was_sent_and_did_not_come_back_is_lost(sent, kept, want):
    assert list(lost(sent, kept)) == want
