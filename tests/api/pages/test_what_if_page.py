"""What-if beside the map: what may be chosen, which groups change, and who may ask."""

import pytest

from tests.api.pages.reading import text
from tests.factories import (
    RACK,
    ZONE,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
)
from web.models import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """Zone a with racks r1 (n0 to n2) and r2 (n3, n4), each node of eight GPUs."""
    made = PoolFactory(name="train", levels=[ZONE, RACK])
    for number, rack in enumerate(["r1", "r1", "r1", "r2", "r2"]):
        labels = {ZONE.label: "a", RACK.label: rack}
        NodeFactory(cluster=made.backend.cluster, name=f"n{number}", labels=labels)
    return made


@pytest.fixture
def admin(browser_of):
    return browser_of("root", is_staff=True, is_superuser=True)


def waiting(pool, name, tasks):
    """A gang that waits for whole nodes in one rack."""
    workflow = WorkflowFactory(pool=pool, base_name=name)
    group = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, status="SCHEDULING", name="workers")
    for number in range(tasks):
        task = TaskFactory(group=group, name=f"t{number}", node_name="", placement__gpu=8)
        task.spec = {**task.spec, "requirements": [{"key": "rack", "group": "r", "required": True}]}
        task.save()
    return workflow


def page_of(browser, query="", status=200):
    answer = browser.get(f"/ui/pools/train/what-if{query}")
    assert answer.status_code == status, answer.content.decode()
    return text(answer)


def test_a_domain_of_the_map_is_chosen_and_the_groups_that_change_are_listed(admin, pool):
    large, small = waiting(pool, "large", 3), waiting(pool, "small", 1)
    page = page_of(admin, "?open=a/r1&drain=true")
    assert "3 nodes would be gone" in page
    assert "Of 2 groups that wait, 1 would change and 1 would stay as they are." in page
    assert f"{large.name} workers 3 ✕ Would become impossible" in page
    assert f"{small.name} workers" not in page


def test_nodes_are_chosen_by_their_boxes(admin, pool):
    large = waiting(pool, "large", 3)
    page = page_of(admin, "?open=a/r1&node=n0")
    assert "1 node would be gone" in page
    assert f"{large.name} workers 3 ✕ Would become impossible" in page


def test_nodes_like_one_of_the_open_place_are_added(admin, pool):
    large = waiting(pool, "large", 4)
    page = page_of(admin, "?open=a/r1&add=1")
    assert f"{large.name} workers 4 ✓ Would fit now" in page


def test_without_a_choice_nothing_is_judged(admin, pool):
    waiting(pool, "large", 3)
    page = page_of(admin, "?open=a/r1")
    assert "All of rack r1 is gone" in page
    assert "What would change" not in page


def test_the_pool_as_a_whole_is_no_domain_to_choose(admin, pool):
    assert "Open a box of the picture to choose its domain." in page_of(admin)


def test_a_node_that_does_not_exist_is_named_beside_the_form(admin, pool):
    page = page_of(admin, "?node=nosuch", status=400)
    assert "nosuch" in page
    assert "Compare" in page


def test_the_map_leads_there_for_those_who_may_ask_alone(admin, browser, pool):
    Role.objects.create(name="osmo-user", policies=[{"actions": ["pool:List"], "resources": ["pool/train"]}])
    assert "/ui/pools/train/what-if" in admin.get("/ui/pools/train/map").content.decode()
    assert "/what-if" not in browser.get("/ui/pools/train/map").content.decode()
    assert browser.get("/ui/pools/train/what-if").status_code == 403
