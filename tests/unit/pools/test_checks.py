"""Configuration is checked by pure functions; what they accept and refuse, one rule at a time."""

import pytest

from pools.checks.backend import check_backend
from pools.checks.limits import check_workflow_config
from pools.checks.names import check_name
from pools.checks.pool import check_pool
from pools.documents.backend import BackendDocument
from pools.documents.pool import READ_ONLY, PoolDocument
from pools.documents.reading import merged, read
from pools.documents.workflow import WorkflowConfigDocument
from scheduling.backends.registry import installed
from scheduling.errors import format_path


def pool(**written):
    document, faults = read(PoolDocument, {"backend": "b", **written}, path=(), read_only=READ_ONLY)
    assert not faults
    return [(format_path(fault.path), fault.code) for fault in check_pool(document)]


@pytest.mark.parametrize("name", ["a", "A.b_c-d", "x" * 63])
def test_names_as_osmo_accepts_them(name):
    assert check_name(name, path=()) == []


@pytest.mark.parametrize("name", ["", "1a", "a-", "a b", "ä", "x" * 64, "a\n"])
def test_names_that_are_none(name):
    assert [fault.code for fault in check_name(name, path=())] == ["invalid_name"]


@pytest.mark.parametrize("key", ["zone", "1", "topology.kubernetes.io/zone", "Rack_1"])
def test_keys_are_words_or_labels(key):
    assert pool(topology_keys=[{"key": key, "label": "x"}]) == []


def test_sixteen_keys_are_accepted_and_the_last_may_be_the_host():
    keys = [{"key": f"k{i}", "label": f"l{i}"} for i in range(15)]
    assert pool(topology_keys=[*keys, {"key": "host", "label": "kubernetes.io/hostname"}]) == []


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, []),
        (
            {"key": "gpu", "operator": "Exists", "value": "yes"},
            [("tolerations[0].value", "invalid_toleration")],
        ),
        (
            {"key": "gpu", "effect": "NoSchedule", "tolerationSeconds": 3},
            [("tolerations[0].tolerationSeconds", "invalid_toleration")],
        ),
        ({"key": "!"}, [("tolerations[0].key", "invalid_label")]),
    ],
    ids=["of everything", "of one taint", "a value beside Exists", "seconds without NoExecute", "no label"],
)
def test_tolerations_are_those_of_kubernetes(toleration, want):
    assert pool(tolerations=[toleration]) == want


def test_an_empty_label_value_is_one():
    assert pool(node_selector={"example.com/pool": ""}) == []


def test_a_platform_may_repeat_what_its_pool_selects():
    platforms = {"p": {"node_selector": {"a": "1", "b": "2"}}}
    assert pool(node_selector={"a": "1"}, platforms=platforms) == []


@pytest.mark.parametrize(
    ("gpu", "want"),
    [
        ({"guarantee": 4, "maximum": -1}, []),
        ({"guarantee": 4, "maximum": 4}, []),
        ({"guarantee": 5, "maximum": 4}, [("resources.gpu.guarantee", "over_maximum")]),
        ({"maximum": -0.5}, [("resources.gpu.maximum", "invalid_number")]),
    ],
)
def test_shares_of_gpus(gpu, want):
    assert pool(resources={"gpu": gpu}) == want


@pytest.mark.parametrize("codes", ["1", "1-3,7", " 1 - 3 , 7 ", "3006"])
def test_exit_codes_are_numbers_and_ranges(codes):
    assert pool(default_exit_actions={"RESCHEDULE": codes}) == []
    assert pool(default_exit_actions={"RESTART_GROUP": codes}) == []


@pytest.mark.parametrize("codes", ["", "a", "1-", "1,,2", "1-2-3"])
def test_exit_codes_that_are_none(codes):
    assert pool(default_exit_actions={"FAIL": codes}) == [("default_exit_actions.FAIL", "invalid_exit_codes")]


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"recovery": {"max": 10}}, []),
        ({"recovery": {"max": 11}}, [("recovery.max", "over_maximum")]),
        ({"max_recoveries": 2}, [("recovery.max", "over_maximum")]),
        ({"recovery": {"replace_patience": "soon"}}, [("recovery.replace_patience", "invalid_duration")]),
        ({"recovery": {"backoff": {"first": "11m"}}}, [("recovery.backoff.first", "over_maximum")]),
        ({"recovery": {"backoff": {"first": "0s"}}}, [("recovery.backoff.first", "invalid_duration")]),
        ({"recovery": {"backoff": {"first": "1h", "limit": "1h"}}}, []),
    ],
)
def test_recovery_within_what_the_pool_allows(fields, want):
    assert pool(**fields) == want


def test_an_unknown_exit_action_is_named():
    assert pool(default_exit_actions={"RETRY": "1"}) == [
        ("default_exit_actions.RETRY", "unknown_exit_action")
    ]


def test_a_backend_of_any_installed_scheduler():
    document = BackendDocument(scheduler_settings={"scheduler_type": "mine"})
    assert check_backend(document, kinds={"mine": installed()["default"]}) == []


def test_the_default_limits_are_sound():
    assert check_workflow_config(WorkflowConfigDocument()) == []


def test_nulls_stand_for_defaults():
    written = {"backend": "b", "description": None, "resources": {"gpu": None}, "download_type": None}
    assert read(PoolDocument, written, path=())[0] == PoolDocument(backend="b")


def test_a_change_merges_maps_replaces_lists_and_takes_away_by_null():
    before = {"map": {"a": 1, "b": {"c": 2}}, "list": [1, 2], "other": 3}
    changes = {"map": {"a": None, "b": {"d": 4}}, "list": [5]}
    assert merged(before, changes) == {"map": {"b": {"c": 2, "d": 4}}, "list": [5], "other": 3}
    assert before["list"] == [1, 2]


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ({"topology_key": []}, "topology_keys"),
        ({"topology_keys": [{"key": "a", "label": "b", "lable": "c"}]}, "label"),
        ({"platforms": {"p": {"toleration": []}}}, "tolerations"),
        ({"resources": {"gpu": {"garantee": 1}}}, "guarantee"),
    ],
)
def test_an_unknown_field_names_the_one_that_was_meant(written, near):
    _, [fault] = read(PoolDocument, {"backend": "b", **written}, path=())
    assert f'did you mean "{near}"?' in fault.message
    assert near in fault.allowed


def test_a_mistyped_word_of_a_field_is_answered_with_the_one_that_was_meant():
    _, [fault] = read(PoolDocument, {"backend": "b", "infeasible": "refused"}, path=())
    assert fault.message == "Input should be 'accept', 'warn' or 'refuse'. Did you mean \"refuse\"?"


def test_the_first_faults_are_listed_and_the_others_counted():
    _, faults = read(PoolDocument, {f"field{i}": 1 for i in range(5000)}, path=("pool",))
    assert len(faults) == 101
    assert (faults[-1].code, faults[-1].path) == ("too_many_faults", ("pool",))
    assert "4,901 more" in faults[-1].message  # and the backend, which is missing


MANY = {
    "platforms": {f"p{i}": {} for i in range(101)},
    "node_selector": {f"k{i}": "v" for i in range(65)},
    "tolerations": [{"operator": "Exists"}] * 65,
    "topology_keys": [{"key": f"k{i}", "label": f"l{i}"} for i in range(65)],
    "default_exit_actions": {f"k{i}": "1" for i in range(17)},
}
MANY_OF_PLATFORM = {
    "node_selector": MANY["node_selector"],
    "tolerations": MANY["tolerations"],
    "allowed_mounts": ["/data"] * 65,
    "default_mounts": ["/data"] * 65,
}
MANY_OF_BACKEND = {"tests": ["t"] * 65, "node_conditions": {"rules": {f"k{i}": "v" for i in range(65)}}}


@pytest.mark.parametrize(
    ("shape", "written"),
    [
        *((PoolDocument, {"backend": "b", field: value}) for field, value in MANY.items()),
        *(
            (PoolDocument, {"backend": "b", "platforms": {"p": {field: value}}})
            for field, value in MANY_OF_PLATFORM.items()
        ),
        *((BackendDocument, {field: value}) for field, value in MANY_OF_BACKEND.items()),
    ],
    ids=[*MANY, *(f"{field} of a platform" for field in MANY_OF_PLATFORM), *MANY_OF_BACKEND],
)
def test_a_list_that_an_author_may_repeat_has_a_limit(shape, written):
    _, [fault] = read(shape, written, path=())
    assert fault.code == "too_long"


@pytest.mark.parametrize("written", [None, [], "pool", 3, True])
def test_a_value_that_is_no_object_is_a_fault(written):
    document, [fault] = read(PoolDocument, written, path=("configs",))
    assert (document, fault.code, fault.path) == (None, "not_a_mapping", ("configs",))


@pytest.mark.parametrize(
    ("written", "want"),
    [
        ({"nvlink": "perhaps"}, "True or false is needed."),
        ({"topology_keys": "rack"}, "A list is needed."),
        ({"description": 3}, "A text is needed."),
        ({"node_selector": []}, "A mapping is needed."),
    ],
    ids=["a truth value", "a list", "a text", "a mapping"],
)
def test_a_value_of_another_kind_is_refused_in_words_of_this_service(written, want):
    _, [fault] = read(PoolDocument, {"backend": "b", **written}, path=())
    assert fault.message == want


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({"image": "example.com/osmo:1", "command": ["wait"], "limit": "5m"}, []),
        ({"limit": "9s"}, [("start_barrier.limit", "limit_too_short")]),
        ({"limit": "soon"}, [("start_barrier.limit", "invalid_duration")]),
        ({"image": "a b"}, [("start_barrier.image", "image")]),
        ({"command": [""]}, [("start_barrier.command[0]", "invalid_command")]),
    ],
    ids=str,
)
def test_a_start_barrier_has_an_image_a_program_and_some_time(settings, want):
    document = BackendDocument(start_barrier=settings)
    found = check_backend(document, kinds=installed())
    assert [(format_path(fault.path), fault.code) for fault in found] == want
