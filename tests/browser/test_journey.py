"""One story on the local cluster: an administrator makes a pool of an NVLink system, and people use it.

::

    zone z1: rack r0 [2 nodes] clique c.0, rack r1 [2 nodes] clique c.1        4 GPUs a node
"""

import re

import pytest

from localcluster import nodes

ZONE, RACK = "topology.kubernetes.io/zone", "osmo.local/rack"
CLIQUE, LOOK_ALIKE = "nvidia.com/gpu.clique", "nvidia.com/gpu-clique"


@pytest.fixture
def name(world):
    """The name of a pool that nobody has made yet; its nodes are there."""
    pool = f"{world.prefix}nvl"
    made = [
        node
        for rack in range(2)
        for node in nodes.rack(
            f"{pool}-r{rack}",
            count=2,
            gpus=4,
            labels={"osmo.local/pool": pool, ZONE: "z1", RACK: f"r{rack}", CLIQUE: f"c.{rack}"},
        )
    ]
    nodes.create(world.api, made)
    nodes.wait_ready(world.api, made)
    return pool


class Desk:
    """The administrator at the page of a pool."""

    def __init__(self, admin, name):
        self.admin, self.page, self.name = admin, admin.page, name

    def found(self, row):
        """What stands beside a row of the editor."""
        return self.page.locator(f"#topology_keys-{row}-coverage")

    def write(self, row, key, label):
        self.page.locator(f"#id_topology_keys-{row}-key").fill(key)
        self.page.locator(f"#id_topology_keys-{row}-label").fill(label)

    def order(self):
        rows = self.page.locator("#topology_keys-rows .desk-row")
        return [key for row in rows.all() if (key := row.locator("input[name$=-key]").input_value())]

    def open(self):
        self.admin.open("/admin/")
        self.page.locator("#desk-pools").get_by_role("link", name=self.name, exact=True).click()
        self.page.locator("#id_change_reason").wait_for()
        self.page.wait_for_load_state()

    def press(self, button):
        self.page.get_by_role("button", name=button, exact=True).click()


def keys_of(world, name):
    return [key["key"] for key in world.service.get(f"/api/pool/{name}/topology")["topology_keys"]]


def submit_in_browser(admin, name):
    """Submit what the pool offers, through its page; returns the workflow's name."""
    admin.open(f"/ui/pools/{name}")
    admin.page.get_by_role("link", name="Edit, check and submit it here").click()
    admin.page.get_by_role("button", name="Check").click()
    admin.page.get_by_role("heading", name="It would be accepted").wait_for()
    admin.page.get_by_role("button", name="Submit").click()
    admin.page.wait_for_url(re.compile(r"/ui/workflows/[^/]+$"))
    return admin.page.url.rpartition("/")[2]


def make(desk, world):
    """A pool is made; the editor knows the label that was meant, and what would nest with it."""
    page = desk.page
    desk.admin.open("/admin/pools/pool/add/")
    page.locator("#id_name").fill(desk.name)
    page.locator("#id_backend").select_option(label=f"{world.backend}-kai")
    page.locator("label[for=id_nvlink]").first.click()
    page.locator("summary").get_by_role("heading", name="Nodes", exact=True).click()
    page.locator("#id_node_selector").fill(f"osmo.local/pool: {desk.name}")
    desk.write(0, "clique", LOOK_ALIKE)
    desk.found(0).get_by_text("No node of 4 carries it").wait_for()
    desk.admin.picture("journey-1-look-alike")
    page.get_by_role("button", name=f"Use {CLIQUE}").click()
    desk.found(0).get_by_text("All 4 nodes carry it").wait_for()
    page.get_by_role("button", name="Add as zone").click()
    desk.found(1).get_by_text("1 domain").wait_for()
    desk.press("Save")
    page.get_by_text("was added successfully").wait_for()


def turn_round(desk, world):
    """The order is turned round, which the editor warns of, and another scheduler is refused."""
    page = desk.page
    desk.open()
    page.locator("#topology_keys-1-row .desk-handle").drag_to(page.locator("#topology_keys-0-row"))
    page.locator("#topology_keys-rows").get_by_text("Does not nest").wait_for()
    assert desk.order() == ["clique", "zone"]
    desk.press("Preview")
    page.get_by_text("The order changes from zone, clique to clique, zone").wait_for()
    desk.admin.picture("journey-2-preview-of-another-order")
    assert keys_of(world, desk.name) == ["zone", "clique"]
    page.locator("#id_backend").select_option(label=f"{world.backend}-default")
    desk.press("Save")
    page.get_by_text("lacks capability topology.required").first.wait_for()
    desk.admin.picture("journey-3-refused")
    page.locator("#id_backend").select_option(label=f"{world.backend}-kai")
    page.locator("#id_change_reason").fill("turned round by mistake")
    desk.press("Save")
    page.get_by_text("was changed successfully").wait_for()


def go_back(desk):
    page = desk.page
    desk.open()
    page.get_by_role("link", name="History and rollback").click()  # opens the group
    page.locator("#history").get_by_role("link", name="Roll back to").first.click()
    page.get_by_text("This restores").wait_for()
    desk.admin.picture("journey-4-going-back")
    desk.press("Roll back")


def see_on_the_map(admin, name, workflow, *, says, picture):
    admin.open(f"/ui/pools/{name}/map")
    admin.page.get_by_label("Workflow").select_option(workflow)
    admin.page.get_by_role("button", name="Show").click()
    admin.page.get_by_role("main").get_by_text(says).first.wait_for()
    admin.picture(picture)


def test_a_pool_from_its_first_key_to_the_way_back(world, default_backend, admin, name):
    desk, page = Desk(admin, name), admin.page
    make(desk, world)
    assert keys_of(world, name) == ["zone", "clique"]
    turn_round(desk, world)
    assert keys_of(world, name) == ["clique", "zone"]
    go_back(desk)
    world.wait(lambda: keys_of(world, name), lambda keys: keys == ["zone", "clique"])
    page.wait_for_load_state()

    # people submit in the browser; two gangs find a clique each, the third says why it waits
    first = submit_in_browser(admin, name)
    world.wait_group(first, "train", "RUNNING")
    page.get_by_text("Running").first.wait_for()
    second = submit_in_browser(admin, name)
    world.wait_group(second, "train", "RUNNING")
    page.get_by_text("Running").first.wait_for()
    third = submit_in_browser(admin, name)
    page.get_by_text("has room for 0 of 2 tasks and lacks 2").first.wait_for()
    admin.picture("journey-5-why-it-waits")

    # the map shows where the first stands, and which cliques are too small for the third
    see_on_the_map(admin, name, first, says=re.compile("as asked", re.IGNORECASE), picture="journey-6-placed")
    see_on_the_map(admin, name, third, says="lacks 2", picture="journey-7-too-small")

    # the second is cancelled, and the third starts by itself
    admin.open(f"/ui/workflows/{third}")
    world.service.cancel(second)
    page.get_by_text("Running").first.wait_for()
    admin.picture("journey-8-it-runs")
