"""A waiting group says what the cluster changed of its pods, where that may be the cause."""

import pytest

from workflows.explain.changed_pods import (
    HELP_CHANGED,
    HELP_WITHOUT_TEMPLATE,
    ChangedPods,
    beside_changes,
)
from workflows.explain.reasons import Reason, Why
from workflows.values.pod_changes import PodChange

SELECTOR = PodChange(field="nodeSelector[zone]", sent="", present="z", places=True)
PROXY = PodChange(field="initContainers[istio-init]", sent="", present="istio:1", places=False)


def pods(*changes, hanging=None, has_template=True):
    return ChangedPods(changes=changes, hanging=hanging or {}, has_template=has_template)


CASES = {
    "nodes do not match": (Why.NODES, pods(SELECTOR), "added nodeSelector[zone] (z)", HELP_CHANGED),
    "the scheduler is silent": (Why.SILENT, pods(SELECTOR), "added nodeSelector[zone] (z)", HELP_CHANGED),
    "the pod cannot be placed": (
        Why.POD,
        pods(SELECTOR, has_template=False),
        "added nodeSelector[zone] (z)",
        HELP_CHANGED,
    ),
    "room is missing, for larger pods": (Why.CAPACITY, pods(SELECTOR), "added nodeSelector[zone] (z)", None),
    "room is missing, whatever was injected": (Why.CAPACITY, pods(PROXY), None, None),
    "containers start": (Why.STARTING, pods(PROXY), "added initContainers[istio-init] (istio:1)", None),
    "an init container hangs": (
        Why.STARTING,
        pods(PROXY, hanging={"istio-init": 2}),
        "It waits. Init container istio-init, which the cluster put into its pods, has not ended in 2 pods.",
        HELP_CHANGED,
    ),
    "others wait at the start barrier": (
        Why.BARRIER,
        pods(PROXY, hanging={"istio-init": 1}),
        "Init container istio-init, which the cluster put into its pods, has not ended in 1 pod.",
        HELP_CHANGED,
    ),
    "an object that no template names": (Why.POD, pods(has_template=False), None, HELP_WITHOUT_TEMPLATE),
    "an object that a template may name": (Why.POD, pods(), None, None),
    "a quota of the cluster": (Why.NOT_MADE, pods(SELECTOR), None, None),
}


@pytest.mark.parametrize("phrase", CASES)
def test_a_reason_beside_changes(phrase):
    why, changed, words, help_text = CASES[phrase]
    reason = beside_changes(Reason(why, "It waits.", {"x": 1}), changed)
    assert (reason.why, reason.evidence["x"], reason.own_help or None) == (why, 1, help_text)
    assert reason.sentence.startswith("It waits.")
    if words is None:
        assert reason.sentence == "It waits."
        assert "pod_changes" not in reason.evidence
    else:
        assert words in reason.sentence
        assert reason.evidence["pod_changes"]
