"""What is kept of a pod of others, and what of it is named as not read."""

import json

import pytest

from workflows.values.foreign_pod import MOST_POD_BYTES, see_pod_terms

SECRET = "S3CRET"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def container(**requests):
    return {
        "name": "c",
        "image": SECRET,
        "command": [SECRET],
        "args": [SECRET],
        "env": [{"name": SECRET, "value": SECRET}],
        "resources": {"requests": requests},
    }


def pod(*, metadata=None, status=None, **spec):
    return {
        "metadata": {"name": "p", "annotations": {"a": SECRET}, "labels": {"l": SECRET}, **(metadata or {})},
        "spec": {"containers": [container(cpu="1")], **spec},
        "status": status or {},
    }


def node_affinity(*terms):
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expressions(*entries):
    rows = [{"key": key, "operator": operator, "values": list(values)} for key, operator, values in entries]
    return {"matchExpressions": rows}


def test_what_decides_on_a_place_is_kept_and_nothing_else():
    owner = {"kind": "PyTorchJob", "name": "job", "controller": True, "uid": SECRET}
    terms = see_pod_terms(
        pod(
            metadata={"ownerReferences": [{"kind": "Other", "name": "o"}, owner]},
            schedulerName="kai-scheduler",
            priority=50,
            priorityClassName="train",
            nodeSelector={"pool": "a"},
            tolerations=[{"key": "gpu", "operator": "Exists", "note": SECRET}],
            schedulingGates=[{"name": "g"}],
            volumes=[{"name": SECRET, "emptyDir": {}}, {"name": "s", "secret": {"secretName": SECRET}}],
            status={"conditions": [{"type": "PodScheduled", "message": "no\nroom\x1b"}]},
        )
    )
    assert terms.to_json() == {
        "scheduler": "kai-scheduler",
        "priority": 50,
        "priority_class": "train",
        "requests": {"cpu": 1000},
        "selector": {"pool": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "gates": 1,
        "report": "no room\ufffd",
        "owner": ["PyTorchJob", "job"],
    }


def test_requests_are_counted_as_those_of_any_pod_and_of_every_resource():
    sidecar = container(cpu="1") | {"restartPolicy": "Always"}
    spec = {
        "initContainers": [sidecar, container(cpu="4", **{"example.com/nic": "2"})],
        "containers": [container(cpu="2", **{"nvidia.com/gpu": "8"}), container(memory="1Gi")],
        "overhead": {"cpu": "250m"},
    }
    want = {"cpu": 5250, "example.com/nic": 2, "memory": 2**30, "nvidia.com/gpu": 8}
    assert see_pod_terms(pod(**spec)).requests == want


def test_limits_stand_for_requests_that_a_template_does_not_state():
    resources = {"limits": {"nvidia.com/gpu": "4", "cpu": "8"}, "requests": {"cpu": "1"}}
    template = pod(containers=[{"name": "c", "resources": resources}])
    assert see_pod_terms(template).requests == {"nvidia.com/gpu": 4, "cpu": 1000}


AFFINITIES = {
    "In with one value is a selector": ([expressions(("rack", "In", ["r1"]))], {"rack": "r1"}, (), False),
    "nodes that are left out": ([expressions((HOST, "NotIn", ["n1", "n2"]))], {}, ("n1", "n2"), False),
    "both": (
        [expressions(("rack", "In", ["r1"]), (HOST, "NotIn", ["n1"]))],
        {"rack": "r1"},
        ("n1",),
        False,
    ),
    "several values": ([expressions(("rack", "In", ["r1", "r2"]))], {}, (), True),
    "an operator that no selector has": ([expressions(("rack", "Exists", []))], {}, (), True),
    "terms of which any may hold": ([expressions(("rack", "In", ["r1"]))] * 2, {}, (), True),
    "fields": ([{"matchFields": [{}]}], {}, (), True),
    "no term, which no node meets": ([], {}, (), True),
    "an empty term, which no node meets": ([{}], {}, (), True),
    "a term of a wrong type": ([1, expressions(("rack", "In", ["r1"]))], {}, (), True),
}


@pytest.mark.parametrize("case", AFFINITIES)
def test_node_affinity_is_read_where_it_is_a_selector_or_leaves_out_nodes(case):
    affinity, selector, excluded, is_unread = AFFINITIES[case]
    terms = see_pod_terms(pod(**node_affinity(*affinity)))
    assert (terms.selector, terms.excluded, terms.unread) == (
        selector,
        excluded,
        ("node affinity",) if is_unread else (),
    )


def test_an_affinity_that_contradicts_the_selector_is_not_read():
    terms = see_pod_terms(
        pod(nodeSelector={"rack": "r2"}, **node_affinity(expressions(("rack", "In", ["r1"]))))
    )
    assert (terms.selector, terms.unread) == ({"rack": "r2"}, ("node affinity",))


NOT_READ = {
    "pod affinity": {"affinity": {"podAffinity": {REQUIRED: [{}]}}},
    "spread constraints": {"topologySpreadConstraints": [{"maxSkew": 1}]},
    "volumes (persistentVolumeClaim)": {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
    "claims": {"resourceClaims": [{"name": "c"}]},
    "host ports": {"containers": [{"ports": [{"hostPort": 80}]}]},
    "node name": {"nodeName": "n1"},
    "a share of a GPU": {"metadata": {"annotations": {"gpu-fraction": "0.5"}}},
}


@pytest.mark.parametrize("words", NOT_READ)
def test_what_else_decides_on_a_node_is_named(words):
    assert see_pod_terms(pod(**NOT_READ[words])).unread == (words,)


def test_what_only_prefers_a_node_is_not_named():
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}
    spread = [{"whenUnsatisfiable": "ScheduleAnyway"}]
    affinity = {"nodeAffinity": preferred, "podAffinity": preferred, "podAntiAffinity": preferred}
    assert see_pod_terms(pod(affinity=affinity, topologySpreadConstraints=spread)).unread == ()


def test_of_a_very_large_pod_its_requests_are_kept():
    terms = see_pod_terms(pod(nodeSelector={f"label-{number}": "x" * 60 for number in range(1000)}))
    assert (terms.requests, terms.selector, terms.unread) == ({"cpu": 1000}, {}, ("a very large pod",))
    assert len(json.dumps(terms.to_json())) < MOST_POD_BYTES


@pytest.mark.parametrize("wrong", [None, 7, True, "text", [], [None, 3, "x"], {}, {"a": [{}]}])
def test_values_of_a_wrong_type_are_passed_over(wrong):
    fields = ("affinity", "containers", "initContainers", "nodeSelector", "overhead", "ports", "priority")
    more = ("priorityClassName", "resources", "schedulerName", "schedulingGates", "tolerations", "volumes")
    spec = dict.fromkeys((*fields, *more, "topologySpreadConstraints"), wrong)
    deep = {"containers": [{"resources": wrong, "ports": wrong}, {"resources": {"requests": wrong}}]}
    inner = {"affinity": {"nodeAffinity": wrong, "podAffinity": wrong}}
    terms = {REQUIRED: {"nodeSelectorTerms": wrong}}
    for each in (wrong, spec, deep, inner, {"affinity": {"nodeAffinity": terms}}):
        seen = see_pod_terms({"metadata": wrong, "spec": each, "status": {"conditions": wrong}})
        assert type(seen).from_json(json.loads(json.dumps(seen.to_json()))) == seen
