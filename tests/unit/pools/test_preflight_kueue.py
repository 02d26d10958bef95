"""What a preflight says of Kueue's configuration, from the text in its ConfigMap on."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.preflight.checks import check_cluster
from pools.preflight.documents import LIMITS, read_document
from scheduling.backends.kueue import KUEUE
from scheduling.backends.kueue.installation import CONFIGURATION, DOCUMENT, RULES
from scheduling.preflight import Unread
from tests.unit.pools.preflights import GOOD, REFUSED

V1BETA1 = "apiVersion: config.kueue.x-k8s.io/v1beta1\n"
V1BETA2 = "apiVersion: config.kueue.x-k8s.io/v1beta2\n"
MANIFESTS = """\
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
webhook:
  port: 9443
leaderElection:
  leaderElect: true
clientConnection: {qps: 50, burst: 100}
integrations:
  frameworks: ["batch/job", "jobset.x-k8s.io/jobset", "pod"]
"""
"""As an installation from Kueue's own manifests has it."""

EVERYTHING = "manageJobsWithoutQueueName: true\nintegrations: {frameworks: [batch/job, pod]}\n"
SELECTED = "managedJobsNamespaceSelector: {matchLabels: {kueue: managed}}\n"


def results(text):
    return results_of(read_document({"data": {DOCUMENT: text}}, DOCUMENT))


def results_of(document):
    reading = document if isinstance(document, Unread) else (document,)
    return checked({CONFIGURATION.key: reading})


def checked(observed):
    facts = replace(GOOD, scheduler=KUEUE, scheduler_type="kueue", installed=observed)
    return {result.check: result for result in check_cluster(facts) if result.check in RULES}


GOOD_TEXTS = {
    "Kueue's own manifests": MANIFESTS,
    "nothing but a version": V1BETA2,
    "a block of nothing": V1BETA2 + "waitForPodsReady:\n",
    "a switch that is off": V1BETA1 + "waitForPodsReady: {enable: false, timeout: 5m}",
    "a block without its switch": V1BETA1 + "waitForPodsReady: {timeout: 5m}",
    "gates for other features": V1BETA2 + "featureGates: {PartialAdmission: false}",
    "the gate, switched on": V1BETA2 + "featureGates: {TopologyAwareScheduling: true}",
    "other resources left out": V1BETA2
    + "resources: {excludeResourcePrefixes: [example.com/, nvidia.com/mig]}",
    "GPUs counted twice": V1BETA2
    + "resources: {transformations: [{input: nvidia.com/gpu, strategy: Retain, outputs: {credits: 1}}]}",
    "all jobs, and no pods among them": V1BETA2 + "manageJobsWithoutQueueName: true",
    "a field of a later release": V1BETA2 + "somethingNew: [1, 2]",
}


@pytest.mark.parametrize("case", GOOD_TEXTS)
def test_a_configuration_that_lets_groups_run_passes(case):
    by_check = results(GOOD_TEXTS[case])
    assert by_check.keys() == RULES.keys()
    assert {(str(result.status), result.to_do) for result in by_check.values()} == {("passed", "")}


FAULTS = {
    "a switch that is on": (
        V1BETA1 + "waitForPodsReady: {enable: true}",
        "kueue_pods_ready",
        "passed",
        "within its timeout of its admission",
    ),
    "a block, which is the switch of its version": (
        V1BETA2 + "waitForPodsReady: {timeout: 5m}",
        "kueue_pods_ready",
        "passed",
        "within 5m of its admission. The service reports that they run",
    ),
    "an empty block": (V1BETA2 + "waitForPodsReady: {}", "kueue_pods_ready", "passed", "is on"),
    "a switch of text": (
        V1BETA1 + "waitForPodsReady: {enable: 'true'}",
        "kueue_pods_ready",
        "unknown",
        "waitForPodsReady.enable is not a boolean",
    ),
    "a block of another form": (
        V1BETA2 + "waitForPodsReady: [enable]",
        "kueue_pods_ready",
        "unknown",
        "waitForPodsReady is not a mapping",
    ),
    "a block in an unknown version": (
        "apiVersion: config.kueue.x-k8s.io/v2\nwaitForPodsReady: {}",
        "kueue_pods_ready",
        "unknown",
        "apiVersion is neither",
    ),
    "a block without a version": (
        "waitForPodsReady: {enable: false}",
        "kueue_pods_ready",
        "unknown",
        "apiVersion is neither",
    ),
    "a version of another form": (
        "apiVersion: [v1]\nwaitForPodsReady: {}",
        "kueue_pods_ready",
        "unknown",
        "apiVersion is neither",
    ),
    "topologies switched off": (
        V1BETA2 + "featureGates: {TopologyAwareScheduling: false}",
        "kueue_topology",
        "failed",
        "names no nodes",
    ),
    "all gates of its kind switched off": (
        V1BETA2 + "featureGates: {AllBeta: false}",
        "kueue_topology",
        "unknown",
        "AllBeta is off",
    ),
    "a gate of text": (
        V1BETA2 + "featureGates: {TopologyAwareScheduling: 'false'}",
        "kueue_topology",
        "unknown",
        "featureGates.TopologyAwareScheduling is not a boolean",
    ),
    "gates as on a command line": (
        V1BETA2 + "featureGates: TopologyAwareScheduling=false",
        "kueue_topology",
        "unknown",
        "featureGates is not a mapping",
    ),
    "GPUs left out by name": (
        V1BETA2 + "resources: {excludeResourcePrefixes: [nvidia.com/gpu]}",
        "kueue_gpus",
        "passed",
        "does not count nvidia.com/gpu (excludeResourcePrefixes)",
    ),
    "GPUs left out by a prefix": (
        V1BETA2 + "resources: {excludeResourcePrefixes: [example.com, nvidia.]}",
        "kueue_gpus",
        "passed",
        "before June 2026",
    ),
    "GPUs counted as something else": (
        V1BETA2
        + "resources: {transformations: [{input: nvidia.com/gpu, strategy: Replace, outputs: {credits: 1}}]}",
        "kueue_gpus",
        "passed",
        "(transformations)",
    ),
    "prefixes that are no text": (
        V1BETA2 + "resources: {excludeResourcePrefixes: [1]}",
        "kueue_gpus",
        "unknown",
        "not a text",
    ),
    "one prefix": (
        V1BETA2 + "resources: {excludeResourcePrefixes: nvidia.com}",
        "kueue_gpus",
        "unknown",
        "resources.excludeResourcePrefixes is not a list",
    ),
    "transformations of another form": (
        V1BETA2 + "resources: {transformations: {input: nvidia.com/gpu}}",
        "kueue_gpus",
        "unknown",
        "resources.transformations is not a list",
    ),
    "resources of another form": (
        V1BETA2 + "resources: [nvidia.com/gpu]",
        "kueue_gpus",
        "unknown",
        "resources is not a mapping",
    ),
    "all pods of all namespaces": (EVERYTHING, "kueue_pods", "failed", "no pod of the service starts"),
    "a selector of all namespaces": (
        EVERYTHING + "managedJobsNamespaceSelector: {}",
        "kueue_pods",
        "failed",
        "in all namespaces",
    ),
    "all pods of some namespaces": (EVERYTHING + SELECTED, "kueue_pods", "unknown", "NamespaceSelector and"),
    "pods chosen by another selector": (
        "manageJobsWithoutQueueName: true\nintegrations: {frameworks: [pod], podOptions: {podSelector: {}}}",
        "kueue_pods",
        "unknown",
        "podOptions match",
    ),
    "frameworks of another form": (
        "manageJobsWithoutQueueName: true\nintegrations: {frameworks: pod}",
        "kueue_pods",
        "unknown",
        "integrations.frameworks is not a list",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_each_fault_has_its_result_a_sentence_on_what_to_do_and_no_other_check(case):
    text, check, status, words = FAULTS[case]
    by_check = results(text)
    result = by_check.pop(check)
    assert (str(result.status), words in result.message) == (status, True), result
    assert (result.message[-1], result.to_do[-1]) == (".", ".")
    assert {str(other.status) for other in by_check.values()} == {"passed"}


UNREAD = {
    "a ConfigMap nobody may read": (
        REFUSED,
        "could not be read: it is forbidden.",
        "deploy/rbac/preflight-kueue.yaml",
    ),
    "no ConfigMap": (
        (),
        "there is no ConfigMap kueue-manager-config in namespace kueue-system.",
        "Compare the file that Kueue's manager reads",
    ),
}


@pytest.mark.parametrize("case", UNREAD)
def test_without_the_configuration_every_check_is_unknown(case):
    reading, words, to_do = UNREAD[case]
    by_check = checked({CONFIGURATION.key: reading})
    assert {check: str(result.status) for check, result in by_check.items()} == dict.fromkeys(
        RULES, "unknown"
    )
    assert all(result.message.endswith(words) for result in by_check.values())
    assert all(to_do in result.to_do for result in by_check.values())


HOSTILE = {
    "no data": ({}, "has no controller_manager_config.yaml"),
    "data of another form": ({"data": [DOCUMENT]}, "has no controller_manager_config.yaml"),
    "another key": ({"data": {"config.yaml": V1BETA2}}, "has no controller_manager_config.yaml"),
    "no text": ({"data": {DOCUMENT: 7}}, "has no controller_manager_config.yaml"),
    "no YAML": ({"data": {DOCUMENT: "a: [b"}}, "is not a YAML document"),
    "a key twice": ({"data": {DOCUMENT: "resources: {}\nresources: {}"}}, "is not a YAML document"),
    "two documents": ({"data": {DOCUMENT: "a: 1\n---\nb: 2"}}, "is not a YAML document"),
    "an object of Python": (
        {"data": {DOCUMENT: "!!python/object/apply:os.abort []"}},
        "is not a YAML document",
    ),
    "deep": ({"data": {DOCUMENT: "[" * 100_000}}, "is not a YAML document"),
    "long": ({"data": {DOCUMENT: "a" * (LIMITS.size + 1)}}, "is not a YAML document"),
    "a text alone": ({"data": {DOCUMENT: "waitForPodsReady"}}, "is not a mapping"),
    "a list": ({"data": {DOCUMENT: "- waitForPodsReady"}}, "is not a mapping"),
    "nothing": ({"data": {DOCUMENT: ""}}, "is not a mapping"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_text_that_is_no_configuration_leaves_every_check_unknown(case):
    config_map, words = HOSTILE[case]
    document = read_document(config_map, DOCUMENT)
    assert isinstance(document, Unread)
    assert words in document.reason
    by_check = results_of(document)
    assert {str(result.status) for result in by_check.values()} == {"unknown"}


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["enable", "frameworks", "excludeResourcePrefixes", "transformations", "input"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        "apiVersion",
        "waitForPodsReady",
        "featureGates",
        "resources",
        "manageJobsWithoutQueueName",
        "managedJobsNamespaceSelector",
        "integrations",
    ]
)


@given(st.dictionaries(FIELDS, VALUES))
def test_no_value_in_any_field_is_an_error(configuration):
    assert results_of(configuration).keys() == RULES.keys()


def test_another_scheduler_has_none_of_kueues_checks():
    assert not [result for result in check_cluster(GOOD) if result.check.startswith("kueue_")]
