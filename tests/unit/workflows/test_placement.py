"""A placement frozen at submission reads back as it was written."""

import json
from dataclasses import replace

import pytest

from pools.values.recovery import RecoveryPolicy, Response
from scheduling.topology.requirements import Requirement
from tests.builders.placements import GROUP
from tests.builders.terms import changed
from workflows.values.placement import (
    File,
    FrozenTemplate,
    GroupPlacement,
    StartBarrier,
    TaskPlacement,
    may_be_tried_again,
)

TASK = TaskPlacement(
    image="busybox",
    command=("sleep",),
    args=("1",),
    files=(File(path="/a", contents="eA==", base64=True), File(path="/b", contents="")),
    credentials={"s3": "/s3", "hub": {"TOKEN": "token"}},
    gpu=8,
    tolerations=({"key": "gpu", "operator": "Exists"},),
    requirements=(Requirement("rack", "r1", required=False),),
    claims_channel=True,
)


PATIENT = replace(TASK, requirements=(Requirement("rack", "r1", required=False, wait_seconds=90),))
EXTERNAL = changed(GROUP, external_topology="dgx", unsupported_preferred="warn")
TEMPLATE = FrozenTemplate(pod={"spec": {"runtimeClassName": "nvidia"}}, variables={"USER_CPU": "4"})
RECOVERING = replace(GROUP, recovery=RecoveryPolicy(preempted=Response.REQUEUE, most_preemptions=4))
BARRIER = StartBarrier(image="i", command=("c",), limit=60.0)
TEMPLATED = replace(GROUP, templates={"h100": TEMPLATE}, template_revisions={"runtime": 7})


@pytest.mark.parametrize(
    "value",
    [GROUP, RECOVERING, replace(RECOVERING, attempts=True, start_barrier=BARRIER), EXTERNAL, TEMPLATED],
)
def test_the_placement_of_a_group_survives_its_json(value):
    assert GroupPlacement.from_json(json.loads(json.dumps(value.to_json()))) == value


@pytest.mark.parametrize("value", [TASK, PATIENT, TaskPlacement(image="i", command=("c",))])
def test_the_placement_of_a_task_survives_its_json(value):
    assert TaskPlacement.from_json(json.loads(json.dumps(value.to_json()))) == value


def test_equal_texts_of_two_tasks_are_one_object():
    text = json.dumps(replace(TASK, args=("--rank", "1"), environment={"RUN": "nightly"}).to_json())
    tasks = [TaskPlacement.from_json(json.loads(text)) for _ in range(2)]
    texts = [(p.image, *p.command, *p.args, *p.environment, *p.environment.values()) for p in tasks]
    assert all(first is second for first, second in zip(*texts, strict=True))


@pytest.mark.parametrize(
    ("group", "task", "want"),
    [
        (GROUP, TASK, False),
        (replace(GROUP, recovery=RecoveryPolicy(most=9)), TASK, False),
        (RECOVERING, TASK, True),
        (replace(GROUP, start_barrier=BARRIER), TASK, True),
        (GROUP, replace(TASK, exit_actions={"RESCHEDULE": "7"}), True),
        (replace(GROUP, default_exit_actions={"RESTART_GROUP": "7"}), TASK, True),
        (GROUP, replace(TASK, grace_period=120), True),
    ],
)
def test_a_group_may_be_tried_again_if_anything_of_it_asks_for_attempts(group, task, want):
    assert may_be_tried_again(group, [task]) == want


def test_a_field_with_its_default_takes_no_room():
    assert TaskPlacement(image="i", command=("c",)).to_json() == {"image": "i", "command": ["c"]}


def test_a_placement_of_another_format_is_refused_by_its_number():
    with pytest.raises(ValueError, match="placement of version 2; this release reads version 1"):
        GroupPlacement.from_json({**GROUP.to_json(), "version": 2})


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (GroupPlacement, {**GROUP.to_json(), "of_tomorrow": 1}),
        (GroupPlacement, {**GROUP.to_json(), "levels": [{"key": "rack", "label": "r", "of_tomorrow": 1}]}),
        (TaskPlacement, {**TASK.to_json(), "of_tomorrow": 1}),
        (TaskPlacement, {**TASK.to_json(), "files": [{"path": "/a", "contents": "", "of_tomorrow": 1}]}),
    ],
)
def test_a_value_of_a_later_release_is_named_and_not_guessed_at(read, value):
    with pytest.raises(ValueError, match="placement with of_tomorrow, which this release does not know"):
        read.from_json(value)


def test_the_terms_of_a_pool_stand_beside_the_values_of_the_group_where_queries_read_them():
    stored = EXTERNAL.to_json()
    assert (stored["pool"], stored["external_topology"], stored["nvlink"]) == ("h100", "dgx", True)
    assert "terms" not in stored
