"""A pod as it was sent, compared with the pod as the cluster has it."""

import copy

import pytest

from workflows.values.pod_changes import compare, sent_text, sentence_of

SENT = {
    "schedulerName": "kai-scheduler",
    "priorityClassName": "osmo-normal",
    "nodeSelector": {"example.com/pool": "a"},
    "tolerations": [{"key": "team", "operator": "Equal", "value": "x", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"preferred": [{"weight": 100}]}},
    "initContainers": [{"name": "barrier", "image": "b"}],
    "containers": [
        {
            "name": "train",
            "image": "train:1",
            "resources": {"limits": {"cpu": "0.5", "nvidia.com/gpu": "4"}, "requests": {"cpu": "0.5"}},
        }
    ],
}
PROXY = {"name": "istio-proxy", "image": "istio:1"}


def change(pod, **fields):
    pod |= fields


def of_user(pod, **fields):
    pod["containers"][0] |= fields


CASES = {
    "nothing": (lambda pod: None, []),
    "the API server's own form of amounts, and requests from limits": (
        lambda pod: of_user(
            pod,
            resources={
                "limits": {"cpu": "500m", "nvidia.com/gpu": "4"},
                "requests": {"cpu": "500m", "nvidia.com/gpu": "4"},
            },
        ),
        [],
    ),
    "tolerations that Kubernetes adds": (
        lambda pod: pod["tolerations"].extend(
            [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            ]
        ),
        [],
    ),
    "a node name, which the scheduler writes": (lambda pod: change(pod, nodeName="n"), []),
    "a container": (
        lambda pod: pod["containers"].append(PROXY),
        [("added containers[istio-proxy] (istio:1)", False)],
    ),
    "a container that asks for room": (
        lambda pod: pod["containers"].append(PROXY | {"resources": {"requests": {"cpu": "2"}}}),
        [("added containers[istio-proxy] (istio:1)", True)],
    ),
    "an init container": (
        lambda pod: pod["initContainers"].insert(0, PROXY),
        [("added initContainers[istio-proxy] (istio:1)", False)],
    ),
    "node selectors": (
        lambda pod: change(pod, nodeSelector={"zone": "z"}),
        [("took away nodeSelector[example.com/pool] (a)", True), ("added nodeSelector[zone] (z)", True)],
    ),
    "tolerations": (
        lambda pod: change(pod, tolerations=[{"key": "any", "operator": "Exists"}]),
        [
            ("added tolerations[any op=Exists]", True),
            ("took away tolerations[team=x:NoSchedule]", True),
        ],
    ),
    "requests, by a limit range": (
        lambda pod: of_user(
            pod,
            resources={
                "limits": {"cpu": "0.5", "nvidia.com/gpu": "4", "memory": "1Gi"},
                "requests": {"cpu": "1", "memory": "1Gi"},
            },
        ),
        [
            ("added containers[train].limits[memory] (1Gi)", False),
            ("changed containers[train].requests[cpu] from 0.5 to 1", True),
            ("added containers[train].requests[memory] (1Gi)", True),
        ],
    ),
    "the image": (
        lambda pod: of_user(pod, image="mirror/train:1"),
        [("changed containers[train].image from train:1 to mirror/train:1", False)],
    ),
    "the priority class": (
        lambda pod: change(pod, priorityClassName="high"),
        [("changed priorityClassName from osmo-normal to high", True)],
    ),
    "the scheduler": (
        lambda pod: change(pod, schedulerName="default-scheduler"),
        [("changed schedulerName from kai-scheduler to default-scheduler", True)],
    ),
    "a gate": (
        lambda pod: change(pod, schedulingGates=[{"name": "example.com/wait"}]),
        [("added schedulingGates[example.com/wait]", True)],
    ),
    "the affinity": (
        lambda pod: change(pod, affinity={"nodeAffinity": {"required": []}}),
        [("changed affinity.nodeAffinity", True)],
    ),
}


@pytest.mark.parametrize("phrase", CASES)
def test_the_cluster_changes(phrase):
    alter, want = CASES[phrase]
    pod = copy.deepcopy(SENT)
    alter(pod)
    comparison = compare(sent_text(SENT), pod)
    assert [(change.words, change.places) for change in comparison.changes] == want


def test_containers_that_were_not_sent_are_injected():
    pod = copy.deepcopy(SENT)
    pod["containers"].append(PROXY)
    pod["initContainers"].append({"name": "vault", "image": "v"})
    assert compare(sent_text(SENT), pod).injected == {"istio-proxy", "vault"}


@pytest.mark.parametrize("sent", [None, "", "{", "[]", "{}", 7, '"' + "x" * 70000 + '"'])
def test_nothing_is_known_of_a_pod_without_the_annotation(sent):
    comparison = compare(sent, {"containers": [PROXY]})
    assert (comparison.changes, comparison.injected) == ((), frozenset())


def test_a_sentence_names_each_change_once():
    pod = copy.deepcopy(SENT)
    change(pod, schedulerName="default-scheduler")
    changes = compare(sent_text(SENT), pod).changes
    assert sentence_of([*changes, *changes]) == (
        "The cluster changed its pods as they were created, by an admission policy, a webhook or a limit "
        "range: it changed schedulerName from kai-scheduler to default-scheduler."
    )
    assert sentence_of([]) == ""


def test_the_numbers_of_changes_and_letters_are_bounded():
    pod = copy.deepcopy(SENT)
    pod["nodeSelector"] |= {f"k{number}": "v" * 5000 for number in range(100)}
    changes = compare(sent_text(SENT), pod).changes
    assert len(changes) == 20
    assert all(len(change.present) <= 200 for change in changes)
