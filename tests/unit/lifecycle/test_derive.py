"""Statuses follow from each other by OSMO's rules."""

import pytest

from workflows.lifecycle.derive import LatestTry, ends_siblings, group_status, workflow_status
from workflows.lifecycle.exit_actions import exit_action


def members(*statuses):
    """The first is the lead."""
    return [LatestTry(status, lead=place == 0) for place, status in enumerate(statuses)]


GROUPS = {
    "all wait for nodes": (("SCHEDULING", "SCHEDULING"), True, "SCHEDULING"),
    "one has a node": (("SCHEDULING", "INITIALIZING"), True, "INITIALIZING"),
    "one runs": (("INITIALIZING", "RUNNING"), True, "RUNNING"),
    "one has finished, one goes on": (("SCHEDULING", "COMPLETED"), True, "RUNNING"),
    "all completed": (("COMPLETED", "COMPLETED"), True, "COMPLETED"),
    "a sibling failed": (("COMPLETED", "FAILED"), True, "COMPLETED"),
    "a sibling failed and counts": (("COMPLETED", "FAILED"), False, "FAILED"),
    "the lead failed": (("FAILED", "FAILED"), True, "FAILED"),
    "the lead found no image": (("FAILED_IMAGE_PULL", "FAILED"), True, "FAILED_IMAGE_PULL"),
    "a sibling that counts found no image": (("FAILED", "FAILED_IMAGE_PULL"), False, "FAILED_IMAGE_PULL"),
    "any was preempted": (("COMPLETED", "FAILED_PREEMPTED"), True, "FAILED_PREEMPTED"),
    "the lead was evicted": (("FAILED_EVICTED", "FAILED"), True, "FAILED_EVICTED"),
    "a sibling was evicted": (("COMPLETED", "FAILED_EVICTED"), True, "COMPLETED"),
    "upstream before all": (("FAILED_UPSTREAM", "FAILED_PREEMPTED"), True, "FAILED_UPSTREAM"),
}


@pytest.mark.parametrize(("statuses", "ignore", "want"), GROUPS.values(), ids=GROUPS)
def test_a_group_stands_as_its_tasks_do(statuses, ignore, want):
    assert group_status(members(*statuses), ignore_nonlead_status=ignore) == want


SIBLINGS = {
    "the lead completed": (("COMPLETED", "RUNNING"), True, "COMPLETED"),
    "the lead failed": (("FAILED_EVICTED", "RUNNING"), True, "FAILED"),
    "a sibling failed": (("RUNNING", "FAILED"), True, None),
    "a sibling failed and counts": (("RUNNING", "FAILED"), False, "FAILED"),
    "a sibling completed": (("RUNNING", "COMPLETED"), False, None),
}


@pytest.mark.parametrize(("statuses", "ignore", "want"), SIBLINGS.values(), ids=SIBLINGS)
def test_the_lead_decides_about_its_siblings(statuses, ignore, want):
    assert ends_siblings(members(*statuses), ignore_nonlead_status=ignore) == want


WORKFLOWS = {
    "one group runs": (("RUNNING", "WAITING"), "RUNNING"),
    "none runs": (("SCHEDULING", "WAITING"), "PENDING"),
    "all completed": (("COMPLETED", "COMPLETED"), "COMPLETED"),
    "canceled before all": (("FAILED_CANCELED", "FAILED_SERVER_ERROR"), "FAILED_CANCELED"),
    "a timeout before failures": (("FAILED", "FAILED_EXEC_TIMEOUT"), "FAILED_EXEC_TIMEOUT"),
    "one reason shared": (("FAILED_IMAGE_PULL", "COMPLETED", "FAILED_UPSTREAM"), "FAILED_IMAGE_PULL"),
    "several reasons": (("FAILED_IMAGE_PULL", "FAILED_EVICTED"), "FAILED"),
}


@pytest.mark.parametrize(("statuses", "want"), WORKFLOWS.values(), ids=WORKFLOWS)
def test_a_workflow_stands_as_its_groups_do(statuses, want):
    assert workflow_status(statuses) == want


ACTIONS = {
    "in a range": (2, ({"RESCHEDULE": "1-3,7"},), "RESCHEDULE"),
    "by itself": (7, ({"RESCHEDULE": "1-3, 7"},), "RESCHEDULE"),
    "named nowhere": (8, ({"RESCHEDULE": "1-3,7"}, {}), None),
    "the task before its pool": (1, ({"COMPLETE": "1"}, {"FAIL": "1"}), "COMPLETE"),
    "the pool where the task is silent": (3006, ({"FAIL": "1"}, {"RESCHEDULE": "3006"}), "RESCHEDULE"),
    "what is no range": (1, ({"FAIL": "one"},), None),
}


@pytest.mark.parametrize(("code", "sources", "want"), ACTIONS.values(), ids=ACTIONS)
def test_an_exit_code_leads_to_the_first_action_that_names_it(code, sources, want):
    assert exit_action(code, *sources) == want
