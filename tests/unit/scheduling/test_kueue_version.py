"""Kueue's version is that of the Workload its cluster serves, and with it come its bounds."""

import pytest

from scheduling.backends.kueue import Kueue
from scheduling.backends.kueue.version import RELEASES, release_at, version_from_schema
from scheduling.capabilities import SchedulerVersion
from scheduling.errors import UnsupportedCapability
from tests.unit.scheduling.build import gang, levels, request, shaped
from tests.unit.scheduling.crds import KUEUE, definition

LEVELS = levels("zone rack host")
BOTH_QUEUE_NAMES = """((has(oldSelf.status)) ? ((has(oldSelf.spec.queueName)
    == has(self.spec.queueName)) && true : true"""


def schema(pod_sets, *, layers=True, rules=()):
    request_fields = {"required": {}} | ({"podsetSliceRequiredTopologyConstraints": {}} if layers else {})
    fields = {"topologyRequest": {"properties": request_fields}}
    spec = {"properties": {"podSets": {"maxItems": pod_sets, "items": {"properties": fields}}}}
    return {"properties": {"spec": spec}, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


@pytest.mark.parametrize(
    ("served", "want"),
    [
        (schema(8, layers=False), "0.15"),
        (schema(8), "0.17"),
        (schema(10, rules=["true"]), "0.18"),
        (schema(10, rules=[BOTH_QUEUE_NAMES]), "0.18.5"),
        (schema(18, rules=[BOTH_QUEUE_NAMES]), "0.19"),
        (schema(40, rules=[BOTH_QUEUE_NAMES]), "0.19"),
    ],
)
def test_the_version_is_that_of_the_served_workload(served, want):
    assert str(version_from_schema(served)) == want
    assert str(Kueue().version_of(kubernetes="v1.36.3", pod_group_schema=served)) == want


@pytest.mark.parametrize("served", [{}, schema(4), schema(None)])
def test_a_definition_of_no_known_version_is_refused(served):
    with pytest.raises(UnsupportedCapability, match=r"Kueue 0\.15 or later"):
        version_from_schema(served)


@pytest.mark.parametrize("source", KUEUE)
def test_the_definitions_here_are_of_a_known_version(source):
    crd = definition(source, "workloads", "kueue.x-k8s.io")
    (served,) = [version for version in crd["spec"]["versions"] if version["name"] == "v1beta2"]
    assert version_from_schema(served["schema"]["openAPIV3Schema"]) in [r.version for r in RELEASES]


def test_a_version_has_the_facts_of_the_newest_release_before_it():
    assert release_at(SchedulerVersion(0, 16)).version == SchedulerVersion(0, 15)
    assert release_at(SchedulerVersion(0, 18, 6)).sees_foreign_ends
    assert not release_at(SchedulerVersion(0, 18, 4)).sees_foreign_ends
    assert release_at(SchedulerVersion(0, 18)).counts_across_flavors
    assert release_at(None) == release_at(SchedulerVersion(0, 14)) == RELEASES[0]


def of_sets(count):
    """So many sets, of which one is larger than the others: they are no slices."""
    return gang("more: rack! r0", *(f"t{number}: rack! r{number}" for number in range(count)))


@pytest.mark.parametrize("version", ["0.15", "0.17", "0.19"])
def test_equal_sets_of_any_number_are_slices_of_one_pod_set(version):
    kueue, equal = Kueue(), gang(*(f"a{number} b{number}: rack! r{number}" for number in range(64)))
    known = SchedulerVersion.parse_known(version)
    assert kueue.check(equal, LEVELS, capabilities=kueue.capabilities(known)).faults == ()
    (workload,) = kueue.render(request(equal, LEVELS, version=known)).pod_groups
    (pod_set,) = workload["spec"]["podSets"]
    assert (pod_set["count"], pod_set["topologyRequest"]) == (
        128,
        {"unconstrained": True, "podSetSliceRequiredTopology": "topology/rack", "podSetSliceSize": 2},
    )


@pytest.mark.parametrize(
    ("version", "most"), [("0.15", 8), ("0.17", 8), ("0.18.5", 10), ("0.19", 18), ("", 8)]
)
def test_more_pod_sets_than_a_workload_of_the_version_has_are_refused(version, most):
    kueue = Kueue()
    capabilities = kueue.capabilities(SchedulerVersion.parse_known(version))
    assert kueue.check(of_sets(most), LEVELS, capabilities=capabilities).faults == ()
    (fault,) = kueue.check(of_sets(most + 1), LEVELS, capabilities=capabilities).faults
    assert (fault.code, fault.capability, fault.path) == (
        "unsupported_capability",
        "max_pod_sets",
        ("groups", 0),
    )
    assert f"needs {most + 1} pod sets" in fault.message
    assert f"Kueue {version or '(of unknown version, so as of 0.15)'} has at most {most}" in fault.message


def test_a_refusal_names_the_version_that_would_do():
    kueue = Kueue()
    capabilities = kueue.capabilities(SchedulerVersion(0, 17))
    (fault,) = kueue.check(of_sets(9), LEVELS, capabilities=capabilities).faults
    assert "Kueue 0.18 or later takes it" in fault.message
    (fault,) = kueue.check(of_sets(19), LEVELS, capabilities=capabilities).faults
    assert "or later" not in fault.message


def test_each_kind_of_free_task_is_a_pod_set():
    kueue, kinds = Kueue(), {f"t{number}": f"shape-{number}" for number in range(9)}
    free = shaped(gang(" ".join(kinds)), **kinds)
    capabilities = kueue.capabilities(SchedulerVersion(0, 17))
    (fault,) = kueue.check(free, LEVELS, capabilities=capabilities).faults
    assert "needs 9 pod sets" in fault.message


def test_a_gang_that_was_accepted_at_a_later_version_is_rendered():
    """The cluster's API server has the last word on a gang that waits through a downgrade."""
    (workload,) = Kueue().render(request(of_sets(12), LEVELS, version=SchedulerVersion(0, 17))).pod_groups
    assert len(workload["spec"]["podSets"]) == 12
