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
    version_for,
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
    parts = [json.loads(json.dumps(part)) for part in (value.to_json(), value.optional_json())]
    assert GroupPlacement.from_json(*parts) == value


@pytest.mark.parametrize("value", [TASK, PATIENT, TaskPlacement(image="i", command=("c",))])
def test_the_placement_of_a_task_survives_its_json(value):
    assert TaskPlacement.from_json(json.loads(json.dumps(value.to_json()))) == value


def test_fields_that_older_workers_may_leave_out_are_apart_from_those_they_read_strictly():
    value = replace(RECOVERING, attempts=True, start_barrier=BARRIER)
    assert value.to_json() == GROUP.to_json()
    assert set(value.optional_json()) == {"attempts", "recovery", "start_barrier"}
    assert GroupPlacement.from_json(value.to_json(), None) == GROUP, "accepted before there was recovery"


def test_a_field_that_a_later_release_adds_to_the_optional_part_is_left_out():
    assert GroupPlacement.from_json(GROUP.to_json(), {"attempts": True, "later": 1}).attempts


def test_a_group_in_the_form_of_the_first_groups_with_recovery_is_read():
    recovery = RECOVERING.optional_json()["recovery"]
    value = GroupPlacement.from_json({**GROUP.to_json(), "version": 6, "recovery": recovery}, None)
    assert (value.recovery, value.has_attempts) == (RECOVERING.recovery, True)


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
    assert GROUP.optional_json() == {}
    assert TaskPlacement(image="i", command=("c",)).to_json() == {"image": "i", "command": ["c"]}


def test_a_placement_of_a_later_release_is_refused_and_not_guessed_at():
    with pytest.raises(ValueError, match="version 7"):
        GroupPlacement.from_json({**GROUP.to_json(), "version": 7}, None)
    with pytest.raises(ValueError, match="placement with priority_boost, which this release does not know"):
        GroupPlacement.from_json({**GROUP.to_json(), "priority_boost": 1}, None)


def test_the_terms_of_a_pool_stand_beside_the_values_of_the_group_where_queries_read_them():
    stored = EXTERNAL.to_json()
    assert (stored["pool"], stored["external_topology"], stored["nvlink"]) == ("h100", "dgx", True)
    assert "terms" not in stored


@pytest.mark.parametrize(
    ("group", "task", "version"),
    [
        (GROUP, TASK, 1),
        (EXTERNAL, TASK, 2),
        (TEMPLATED, PATIENT, 3),
        (GROUP, PATIENT, 2),
        (replace(TEMPLATED, start_timeout=60.0), TASK, 4),
        (replace(TEMPLATED, free_preferences_after=60), TASK, 5),
        (replace(GROUP, claims={"several": 2}), TASK, 5),
        (replace(GROUP, recovery=RecoveryPolicy(most=9)), TASK, 1),
        (RECOVERING, TASK, 1),
        (replace(RECOVERING, claims={"several": 2}), TASK, 5),
        (replace(GROUP, start_barrier=BARRIER), TASK, 1),
        (GROUP, replace(TASK, exit_actions={"RESCHEDULE": "7"}), 1),
        (GROUP, replace(TASK, grace_period=120), 6),
        (GROUP, replace(TASK, exit_actions={"RESTART_GROUP": "7"}), 6),
        (replace(GROUP, default_exit_actions={"RESTART_GROUP": "7"}), TASK, 6),
    ],
)
def test_a_placement_says_the_oldest_version_that_can_read_it(group, task, version):
    assert version_for(group, [task]) == version
