"""What is frozen at submission reads back as it was written."""

import json
from dataclasses import replace
from uuid import UUID

import pytest

from pools.values.recovery import RecoveryPolicy, Response
from scheduling.levels import Level
from scheduling.requirements import Requirement
from workflows.values.placement import File, FrozenTemplate, GroupPlacement, TaskPlacement, version_for

GROUP = GroupPlacement(
    installation=UUID(int=1),
    pool="h100",
    pool_revision=3,
    backend="east",
    namespace="osmo",
    scheduler_type="kai",
    scheduler_name="kai-scheduler",
    levels=(Level("zone", "example.com/zone"), Level("rack", "example.com/rack")),
    nvlink=True,
    exec_timeout=60.0,
    queue_timeout=30.5,
    workflow_name="train-1",
    workflow_uuid=UUID(int=2),
    submitted_by="ann",
    labels={"team": "vision"},
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
EXTERNAL = replace(GROUP, external_topology="dgx", unsupported_preferred="warn")
TEMPLATE = FrozenTemplate(pod={"spec": {"runtimeClassName": "nvidia"}}, variables={"USER_CPU": "4"})
RECOVERING = replace(GROUP, recovery=RecoveryPolicy(preempted=Response.REQUEUE, most_preemptions=4))
TEMPLATED = replace(GROUP, templates={"h100": TEMPLATE}, template_revisions={"runtime": 7})


@pytest.mark.parametrize(
    "value", [GROUP, RECOVERING, EXTERNAL, TEMPLATED, TASK, PATIENT, TaskPlacement(image="i", command=("c",))]
)
def test_a_placement_survives_its_json(value):
    assert type(value).from_json(json.loads(json.dumps(value.to_json()))) == value


def test_what_has_its_default_takes_no_room():
    assert "recovery" not in GROUP.to_json()
    assert TaskPlacement(image="i", command=("c",)).to_json() == {"image": "i", "command": ["c"]}


def test_a_placement_of_a_later_release_is_refused_and_not_guessed_at():
    with pytest.raises(ValueError, match="version 7"):
        GroupPlacement.from_json({**GROUP.to_json(), "version": 7})


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
        (RECOVERING, TASK, 6),
        (GROUP, replace(TASK, grace_period=120), 6),
        (GROUP, replace(TASK, exit_actions={"RESTART_GROUP": "7"}), 6),
        (replace(GROUP, default_exit_actions={"RESTART_GROUP": "7"}), TASK, 6),
    ],
)
def test_a_placement_says_the_oldest_version_that_can_read_it(group, task, version):
    assert version_for(group, [task]) == version
