"""The pages of workflows as a person uses them: watched, read and cancelled in a browser."""

import re

import pytest

from tests.e2e.conftest import workflow

ONE_RACK = "one: {gpu: 4, topology: [{key: rack}]}"


def test_a_workflow_is_watched_from_the_list_to_its_cancelled_end(world, admin):
    pool = world.make_pool("watched", racks=1, size=2, nvlink=True)
    after = ("eval", ["c"], {"inputs": "[{task: a}]"})
    runs = world.submit(pool, workflow(("train", ["a", "b"]), after, resources=ONE_RACK))
    world.wait_group(runs, "train", "RUNNING")
    waits = world.submit(pool, workflow(("train", ["a", "b"]), resources=ONE_RACK))

    admin.open(f"/ui/workflows?whose=all&pool={pool}")
    row = admin.page.get_by_role("row").filter(has_text=waits)
    row.get_by_text("rack").wait_for()  # why it waits, by itself
    admin.picture("workflows")
    admin.page.get_by_role("link", name=runs, exact=True).click()
    admin.page.get_by_text("2 nodes have joined it, 2 ready.").first.wait_for()
    admin.picture("workflow-that-runs")

    with admin.page.expect_response(re.compile(rf"/api/workflow/{waits}/watch$")) as stream:
        admin.open(f"/ui/workflows/{waits}")
    assert stream.value.status == 200
    admin.page.get_by_text("Would it fit?").first.click()
    admin.page.get_by_role("cell", name=re.compile(rf"\b{runs}\b")).first.wait_for()  # who is in the way
    admin.picture("workflow-that-waits")

    admin.page.get_by_role("link", name="Cancel…").click()
    admin.page.get_by_label("Why").fill("not needed")
    admin.page.get_by_role("button", name="Cancel the workflow").click()
    admin.page.locator("#live-status").get_by_text("Cancelled by admin: not needed").wait_for()
    admin.page.get_by_text("Nothing on this page changes any more.").wait_for()
    assert not admin.page.get_by_role("link", name="Cancel…").count()


@pytest.mark.parametrize(("scheme", "width"), [("light", 400), ("dark", 1400)])
def test_a_workflow_can_be_read_without_scripts(scheme, width, visit, running_service, world):
    pool = world.make_pool("read", racks=1, size=2)
    name = world.submit(pool, workflow(("train", ["a", "b", "c"]), resources=ONE_RACK), force_infeasible=True)
    world.wait(lambda: world.groups(name)["train"]["waiting_reason"], lambda reason: "rack" in (reason or ""))
    visitor = visit(scheme=scheme, script=False, width=width)
    visitor.log_in(running_service["admin_user"], running_service["admin_password"])
    visitor.open(f"/ui/workflows/{name}")
    assert "Would it fit?" in visitor.text()
    visitor.page.get_by_role("link", name="Refresh").click()
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width
    visitor.picture(f"workflow-{scheme}-{width}-without-scripts")


def test_the_attempts_that_ended_fit_into_a_window(visit, running_service, world):
    pool = world.make_pool("tried", racks=1, size=2)
    name = world.submit(pool, workflow(("train", ["a", "b"]), resources=ONE_RACK))
    world.wait_group(name, "train", "RUNNING")
    pod = world.pods(name)[0]["metadata"]["name"]
    world.api.delete(f"/api/v1/namespaces/{world.namespace}/pods/{pod}")
    world.wait(lambda: world.groups(name)["train"]["attempts"], lambda found: len(found) == 2)
    visitor = visit(width=1280)
    visitor.log_in(running_service["admin_user"], running_service["admin_password"])
    visitor.open(f"/ui/workflows/{name}")
    table = visitor.page.get_by_role("region", name="Attempts that ended")
    table.wait_for()
    assert table.evaluate("box => box.scrollWidth <= box.clientWidth")
    visitor.picture("attempts-that-ended")
