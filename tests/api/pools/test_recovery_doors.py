"""A scheduler that cannot place one task again refuses recovery by `task` at every door."""

import pytest

from pools.models import Pool
from scheduling.backends.default import Default
from tests.api.workflows.specs import gang, text

pytestmark = pytest.mark.django_db

ALONE = {"recovery": {"node_lost": "task"}}


@pytest.fixture(autouse=True)
def plain(put, monkeypatch):
    """A backend whose scheduler has no capability at all; every scheduler of the service has this one."""
    monkeypatch.setattr(Default, "needs", {})
    assert put("backend/plain", {"scheduler_settings": {"scheduler_type": "default"}})[0] == 200


def faults(reply):
    return [(fault["path"], fault["code"]) for fault in reply["details"]]


def test_a_pool_is_not_saved_there_with_it(put):
    status, reply = put("pool/new", {"backend": "plain", **ALONE})
    assert (status, faults(reply)) == (400, [("configs.recovery.node_lost", "unsupported_capability")])
    assert put("pool/new", {"backend": "plain"})[0] == 200


def test_a_pool_that_says_it_is_not_moved_there_and_its_scheduler_is_not_changed(put, kai, admin):
    assert put("pool/new", {"backend": "kai", **ALONE})[0] == 200
    moved = admin.patch("/api/configs/pool/new", {"configs_dict": {"backend": "plain"}}, format="json")
    assert faults(moved.json()) == [("configs_dict.recovery.node_lost", "unsupported_capability")]
    settings = {"scheduler_settings": {"scheduler_type": "default"}}
    status, reply = put("backend/kai", {"kubeconfig": "/etc/kai", **settings})
    path = "configs.scheduler_settings.scheduler_type"
    assert (status, faults(reply)) == (400, [(path, "unsupported_capability")])
    (fault,) = reply["details"]
    assert 'Pool "new" of this backend has recovery by `task`' in fault["message"]
    assert Pool.objects.get(name="new").backend.name == "kai"


def test_a_file_names_the_line(admin, put):
    file = "pools:\n  new:\n    backend: plain\n    recovery:\n      max: 1\n      failed: task\n"
    answer = admin.put("/api/configs/file", {"file": file}, format="json")
    assert [(fault["path"], fault["line"]) for fault in answer.json()["details"]] == [
        ("pools.new.recovery.failed", 6)
    ]


def test_a_workflow_is_refused_with_the_line_of_the_narrowest_word(admin, put):
    assert put("pool/new", {"backend": "plain"})[0] == 200
    workflow = gang(2, recovery={"failed": "task"})
    workflow["groups"][0] |= ALONE
    file = text(workflow)
    answer = admin.post("/api/pool/new/workflow?dry_run=True", {"file": file}, format="json")
    found = {fault["path"]: (fault["code"], fault["line"]) for fault in answer.json()["details"]}
    lines = file.splitlines()
    assert found == {
        "workflow.groups[0].recovery.node_lost": (
            "unsupported_capability",
            lines.index("      node_lost: task") + 1,
        ),
        "workflow.recovery.failed": ("unsupported_capability", lines.index("    failed: task") + 1),
    }
