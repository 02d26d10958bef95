"""The service-wide limits on workflows."""

import pytest

from pools import selectors
from pools.models import ConfigRevision

pytestmark = pytest.mark.django_db


def patch(admin, changes):
    answer = admin.patch("/api/configs/workflow", {"configs_dict": changes}, format="json")
    return answer.status_code, answer.json()


def test_the_defaults_hold_until_somebody_changes_them(ann):
    reply = ann.get("/api/configs/workflow").json()
    assert (reply["max_num_tasks"], reply["max_retry_per_task"], reply["revision"]) == (10_000, 0, 0)
    limits = selectors.workflow_limits()
    assert (limits.max_exec_timeout, limits.max_name_length) == (60 * 86400, 64)
    assert (reply["max_pod_restart_limit"], limits.max_pod_restart_limit) == ("30m", 1800)


def test_a_change_holds_and_leaves_a_revision(admin):
    assert patch(admin, {"max_num_tasks": 5, "default_exec_timeout": "8h"})[0] == 200
    assert patch(admin, {"max_retry_per_task": 2})[1]["max_num_tasks"] == 5
    limits = selectors.workflow_limits()
    assert (limits.max_num_tasks, limits.default_exec_timeout, limits.max_retry_per_task) == (5, 28800, 2)
    assert ConfigRevision.objects.filter(config_type="WORKFLOW").count() == 2
    assert patch(admin, {"max_num_tasks": None})[1]["max_num_tasks"] == 10_000


def test_a_put_accepts_what_a_get_returned(admin, put):
    patch(admin, {"max_num_tasks": 5})
    shown = admin.get("/api/configs/workflow").json()
    assert put("workflow", shown)[1] == shown


def test_a_write_is_refused_where_somebody_else_wrote_meanwhile(admin, put):
    patch(admin, {"max_num_tasks": 5})
    for old in (0, 7):
        assert put("workflow", {}, HTTP_IF_MATCH=f'W/"{old}"')[0] == 412
        body = {"configs_dict": {"max_num_tasks": 6}}
        answer = admin.patch("/api/configs/workflow", body, format="json", HTTP_IF_MATCH=f'W/"{old}"')
        assert answer.status_code == 412
        body = {"config_type": "WORKFLOW", "revision": 1}
        url = "/api/configs/history/rollback"
        assert admin.post(url, body, format="json", HTTP_IF_MATCH=f'W/"{old}"').status_code == 412
    assert selectors.workflow_config()[1] == 1
    assert put("workflow", {}, HTTP_IF_MATCH=admin.get("/api/configs/workflow")["ETag"])[0] == 200


def test_no_fault_follows_from_a_mistyped_limit(put):
    status, reply = put("workflow", {"max_exec_timout": "90d", "default_exec_timeout": "90d"})
    assert (status, [(fault["path"], fault["code"]) for fault in reply["details"]]) == (
        400,
        [("configs.max_exec_timout", "unknown_field")],
    )


def test_a_dry_run_shows_what_would_be(admin):
    answer = admin.patch(
        "/api/configs/workflow?dry_run=True", {"configs_dict": {"max_num_tasks": 7}}, format="json"
    )
    assert answer.json()["max_num_tasks"] == 7
    assert selectors.workflow_config()[0].max_num_tasks == 10_000


WRONG = {
    "a limit of nothing": ({"max_num_tasks": 0}, "max_num_tasks"),
    "a limit that is a word": ({"max_num_tasks": "5"}, "max_num_tasks"),
    "a timeout that is none": ({"max_exec_timeout": "soon"}, "max_exec_timeout"),
    "a default over the maximum": ({"max_exec_timeout": "1d"}, "default_exec_timeout"),
    "a field nobody knows": ({"max_tasks": 3}, "max_tasks"),
}


@pytest.mark.parametrize(("changes", "path"), WRONG.values(), ids=WRONG)
def test_the_limits_are_refused_for(admin, changes, path):
    status, reply = patch(admin, changes)
    assert status == 400
    assert [entry["path"] for entry in reply["details"]] == [f"configs_dict.{path}"]
    assert selectors.workflow_config()[1] == 0


def test_only_staff_writes(ann):
    assert ann.patch("/api/configs/workflow", {}, format="json").status_code == 403
