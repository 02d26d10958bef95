"""Pod templates alone: how they are merged, what their variables say, and what they may not hold."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pools.pod_templates.merge import overlay
from pools.pod_templates.notices import template_notices
from pools.pod_templates.reading import plain
from pools.pod_templates.rules import template_faults
from pools.pod_templates.variables import VARIABLES, TaskValues, fill, unique_word, values_of

NAME = st.sampled_from(["a", "b", "c"])
WORD = st.sampled_from(["x", "y", "{{USER_CPU}}"])


def entries(key, **more):
    entry = st.fixed_dictionaries({key: NAME}, optional=more)
    return st.lists(entry, max_size=3, unique_by=lambda value: value[key])


ENV = entries("name", value=WORD, valueFrom=st.just({"fieldRef": {"fieldPath": "status.podIP"}}))
CONTAINER = {"env": ENV, "volumeMounts": entries("mountPath", name=NAME), "image": WORD}
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "initContainers": entries("name", **CONTAINER),
        "volumes": entries("name", emptyDir=st.just({}), hostPath=st.just({"path": "/d"})),
        "tolerations": st.lists(st.fixed_dictionaries({"key": NAME, "value": WORD}), max_size=1),
        "nodeSelector": st.dictionaries(NAME, WORD),
        "runtimeClassName": WORD,
    },
)
TEMPLATE = st.fixed_dictionaries(
    {}, optional={"spec": SPEC, "metadata": st.fixed_dictionaries({"labels": st.dictionaries(NAME, WORD)})}
)


@given(TEMPLATE, TEMPLATE, TEMPLATE)
def test_laying_over_says_no_more_twice_nothing_when_empty_and_needs_no_brackets(a, b, c):
    once = overlay(a, b)
    assert overlay(once, b) == once
    assert overlay(a, {}) == a
    assert overlay({}, b) == b
    assert overlay(overlay(a, b), c) == overlay(a, overlay(b, c))


def test_lists_are_merged_as_kubernetes_merges_them():
    lower = {
        "spec": {
            "initContainers": [{"name": "log", "image": "a", "env": [{"name": "A", "value": "1"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "tolerations": [{"key": "gpu"}],
        }
    }
    upper = {
        "spec": {
            "initContainers": [{"name": "log", "env": [{"name": "A", "value": "2"}, {"name": "B"}]}],
            "volumes": [{"name": "v", "hostPath": {"path": "/d"}}],
            "tolerations": [{"key": "gpu"}, {"key": "spot"}],
        }
    }
    assert overlay(lower, upper) == {
        "spec": {
            "initContainers": [
                {"name": "log", "image": "a", "env": [{"name": "A", "value": "2"}, {"name": "B"}]}
            ],
            "volumes": [{"name": "v", "hostPath": {"path": "/d"}}],
            "tolerations": [{"key": "gpu"}, {"key": "spot"}],
        }
    }


def asked(**more):
    given = {"container": "train", "cpu": "", "gpu": "", "memory": "", "storage": "", "excluded": ()}
    return TaskValues(**{**given, "submitted_by": "ann", "labels": {}, **more})


def test_every_variable_has_a_text_and_amounts_are_told_in_units():
    values = values_of(asked(memory="64Gi", cpu="4", excluded=("n1", "n2")), defaults={"USER_STORAGE": "1Ti"})
    assert set(values) == set(VARIABLES)
    assert (values["USER_MEMORY_VAL"], values["USER_MEMORY_UNIT"]) == ("64", "Gi")
    assert values["USER_MEMORY_Mi"] == "65536"
    assert values["USER_STORAGE_Gi"] == "1024"
    assert values["USER_EXCLUDED_NODES"] == "n1,n2"


def test_an_amount_that_nobody_asked_for_is_left_out():
    limits = {"cpu": "{{ USER_CPU }}", "nvidia.com/gpu": "{{USER_GPU}}", "memory": "1Gi"}
    resources = {"resources": {"limits": limits}}
    want = {"resources": {"limits": {"cpu": "4", "memory": "1Gi"}}}
    assert fill(resources, values_of(asked(cpu="4"), defaults={})) == want


def test_a_users_word_is_a_text_and_is_not_looked_at_again():
    values = values_of(asked(labels={"osmo.task_name": "{{USER_CPU}}{% x %}"}, cpu="4"), defaults={})
    said = fill({"args": ["{{WF_TASK_NAME}}"], "{{WF_TASK_NAME}}": "x"}, values)
    assert said == {"args": ["{{USER_CPU}}{% x %}"], "{{WF_TASK_NAME}}": "x"}


@given(st.lists(st.text(min_size=1, max_size=150), min_size=2, max_size=8, unique=True))
def test_no_two_users_have_one_word(users):
    words = [unique_word(user) for user in users]
    assert len({word.casefold() for word in words}) == len(users)
    assert all(re.fullmatch(r"[a-z0-9_-]{1,63}", word) for word in words)


@pytest.mark.parametrize(
    ("user", "want"),
    [("ann", "ann"), ("ann@nv.com", "ann_40nv_2ecom"), ("ann_nv", "ann_5fnv"), ("Ann", "_41nn")],
)
def test_a_users_word_can_be_read(user, want):
    values = values_of(asked(submitted_by=user), defaults={})
    assert values["WF_SUBMITTED_BY_UNIQUE"] == want


NAMED_BY_LABEL = {
    "a directory": ("volumes", [{"name": "v", "hostPath": {"path": "/home/{{ WF_SUBMITTED_BY }}"}}]),
    "a claim": ("volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "x-{{WF_SUBMITTED_BY}}"}}]),
    "a path in a variable": (
        "containers",
        [{"name": "{{USER_CONTAINER_NAME}}", "env": [{"name": "H", "value": "/h/{{WF_SUBMITTED_BY}}"}]}],
    ),
}


@pytest.mark.parametrize("case", NAMED_BY_LABEL)
def test_a_name_that_two_users_could_share_is_noticed(case):
    field, entries = NAMED_BY_LABEL[case]
    (notice,) = template_notices({"spec": {field: entries}})
    assert "WF_SUBMITTED_BY_UNIQUE" in notice.message
    unique = json.loads(json.dumps(entries).replace("SUBMITTED_BY", "SUBMITTED_BY_UNIQUE"))
    assert not list(template_notices({"spec": {field: unique}}))


def test_a_user_in_a_label_or_a_plain_variable_is_not_noticed():
    env = [{"name": "WHO", "value": "{{WF_SUBMITTED_BY}}"}]
    template = {
        "metadata": {"labels": {"who": "{{WF_SUBMITTED_BY}}"}},
        "spec": {"containers": [{"name": "{{USER_CONTAINER_NAME}}", "env": env}]},
    }
    assert not list(template_notices(template))


USERS = {"name": "{{USER_CONTAINER_NAME}}"}
REFUSED = {
    "a field no pod has": ({"spec": {"nodeSelektor": {}}}, "spec.nodeSelektor", "unknown_field"),
    "a status": ({"status": {}}, "status", "unknown_field"),
    "a text for a number": (
        {"spec": {"terminationGracePeriodSeconds": "5"}},
        "spec.terminationGracePeriodSeconds",
        "wrong_type",
    ),
    "a name": ({"metadata": {"name": "x"}}, "metadata.name", "not_in_template"),
    "an owner": ({"metadata": {"ownerReferences": []}}, "metadata.ownerReferences", "not_in_template"),
    "an order to KAI": (
        {"metadata": {"labels": {"kai.scheduler/queue": "q"}}},
        "metadata.labels.kai.scheduler/queue",
        "reserved",
    ),
    "a label of ours": (
        {"metadata": {"labels": {"osmo.pool": "q"}}},
        "metadata.labels.osmo.pool",
        "reserved",
    ),
    "another scheduler": ({"spec": {"schedulerName": "x"}}, "spec.schedulerName", "not_in_template"),
    "a gate": ({"spec": {"schedulingGates": [{"name": "x"}]}}, "spec.schedulingGates", "not_in_template"),
    "a claim named as ours": (
        {"spec": {"resourceClaims": [{"name": "channel"}]}},
        "spec.resourceClaims[0].name",
        "reserved",
    ),
    "a helper that outlives the task": (
        {"spec": {"containers": [{"name": "osmo-ctrl"}]}},
        "spec.containers[0].name",
        "unknown_container",
    ),
    "the user's image": (
        {"spec": {"containers": [{**USERS, "image": "x"}]}},
        "spec.containers[0].image",
        "not_in_template",
    ),
    "GPUs that nobody counts": (
        {"spec": {"containers": [{**USERS, "resources": {"limits": {"nvidia.com/gpu": 8}}}]}},
        "spec.containers[0].resources.limits.nvidia.com/gpu",
        "not_in_template",
    ),
    "hidden nodes": (
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
                    }
                }
            }
        },
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        "not_in_template",
    ),
    "an unknown variable": (
        {"spec": {"runtimeClassName": "{{USER_CACHE}}"}},
        "spec.runtimeClassName",
        "unknown_variable",
    ),
    "a template's program": (
        {"spec": {"runtimeClassName": "{{ 7 * 7 }}"}},
        "spec.runtimeClassName",
        "unknown_variable",
    ),
    "nodes of one task": (
        {"spec": {"nodeSelector": {"a": "{{WF_ID}}"}}},
        "spec.nodeSelector.a",
        "not_constant",
    ),
    "a label that no node has": (
        {"spec": {"nodeSelector": {"a b": "c"}}},
        "spec.nodeSelector.a b",
        "invalid_label",
    ),
    "a label no pod can have": (
        {"metadata": {"labels": {"team": "a b", "pool": "{{WF_POOL}}"}}},
        "metadata.labels.team",
        "invalid_label_value",
    ),
    "an annotation no pod can have": (
        {"metadata": {"annotations": {"te am": "a b", "team": "a b"}}},
        "metadata.annotations.te am",
        "invalid_label",
    ),
    "a part of a GPU": (
        {"metadata": {"annotations": {"gpu-fraction": "0.5"}}},
        "metadata.annotations.gpu-fraction",
        "reserved",
    ),
    "a container that is the start barrier's": (
        {"spec": {"initContainers": [{"name": "osmo-start-barrier"}]}},
        "spec.initContainers[0].name",
        "reserved",
    ),
    "a volume that is the start barrier's": (
        {"spec": {"volumes": [{"name": "osmo-start-barrier", "emptyDir": {}}]}},
        "spec.volumes[0].name",
        "reserved",
    ),
    "a toleration no pod can have": (
        {"spec": {"tolerations": [{"key": "a", "operator": "Foo"}]}},
        "spec.tolerations[0].operator",
        "invalid_toleration",
    ),
    "a helper named as the user's container": (
        {"spec": {"initContainers": [{**USERS, "image": "x"}]}},
        "spec.initContainers[0].name",
        "not_constant",
    ),
    "one variable twice": (
        {"spec": {"volumes": [{"name": "v"}, {"name": "v"}]}},
        "spec.volumes[1].name",
        "twice",
    ),
}


@pytest.mark.parametrize(("template", "path", "code"), REFUSED.values(), ids=REFUSED)
def test_a_template_is_refused_for(template, path, code):
    faults = template_faults(template)
    told = [".".join(map(str, f.path)).replace(".0", "[0]").replace(".1", "[1]") for f in faults]
    assert list(zip(told, [f.code for f in faults], strict=True)) == [(path, code)]


@pytest.mark.parametrize("odd", [float("nan"), 2**63, "a\0", "\ud800", object()])
def test_a_template_that_cannot_be_kept_is_refused(odd):
    assert plain({"spec": {"runtimeClassName": odd}})[1]
    assert plain({"spec": [None]}) == ({"spec": []}, [])


def test_the_first_unknown_fields_are_listed_and_the_others_counted():
    faults = template_faults({"spec": {f"field{i}": 1 for i in range(2000)}})
    assert len(faults) == 101
    assert "1,900 more" in next(fault.message for fault in faults if fault.code == "too_many_faults")


def test_a_template_that_is_too_large_is_not_compared_with_the_fields_of_a_pod():
    [fault] = template_faults({"spec": {f"field{i}": 1 for i in range(10_000)}})
    assert fault.code == "too_large"
