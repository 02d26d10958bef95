"""The pages of pools as a person uses them."""

import pytest

from tests.e2e.conftest import workflow

ONE_RACK = "one: {gpu: 4, topology: [{key: rack}]}"


def test_a_pool_shows_its_keys_its_room_and_what_waits_and_follows_it(world, admin):
    pool = world.make_pool("shown", racks=2, size=2)
    admin.open(f"/ui/pools/{pool}")
    admin.page.get_by_text("16 of 16").wait_for()  # by itself, when the observer has seen the nodes
    assert "osmo.local/rack" in admin.text()
    admin.picture("pool")

    runs = world.submit(pool, workflow(("g", ["a", "b"]), resources=ONE_RACK))
    admin.page.get_by_text("8 of 16").wait_for()
    world.wait_group(runs, "g", "RUNNING")
    fills = world.submit(pool, workflow(("g", ["a", "b"]), resources=ONE_RACK))
    world.wait_group(fills, "g", "RUNNING")  # before the next: two gangs of one second have no order
    waits = world.submit(pool, workflow(("g", ["a", "b"]), resources=ONE_RACK))
    admin.page.get_by_role("row").filter(has_text=waits).wait_for()
    admin.picture("pool-with-waiting-work")


def test_the_workflow_that_a_pool_offers_is_accepted_as_it_is_copied(world, admin):
    pool = world.make_pool("copied", racks=1, size=2, nvlink=True)
    admin.context.grant_permissions(["clipboard-read", "clipboard-write"])
    admin.open(f"/ui/pools/{pool}")
    admin.page.get_by_role("button", name="Copy").click()
    admin.page.get_by_role("button", name="Copied").wait_for()
    copied = admin.page.evaluate("navigator.clipboard.readText()")
    assert "key: clique" in copied
    world.wait_group(world.submit(pool, copied), "train", "RUNNING")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pools_can_be_read_without_scripts_in_light_and_dark(scheme, visit, running_service, world):
    pool = world.make_pool("plain")
    visitor = visit(scheme=scheme, script=False)
    visitor.log_in(running_service["admin_user"], running_service["admin_password"])
    visitor.page.get_by_role("link", name=pool, exact=True).click()
    assert "key: rack" in visitor.text()
    visitor.picture(f"pool-{scheme}-without-scripts")
