"""The map of a pool: what it shows of nodes, of a placed and of a waiting workflow, and to whom."""

import re
import xml.etree.ElementTree as ET

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from pages.map.views import style
from tests.api.pages.reading import words
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
IN_RACK = [{"key": "rack", "group": "r", "required": True}]


@pytest.fixture
def pool():
    """Zone a with racks r1 (n0 to n2) and r2 (n3, n4), each node of eight GPUs; n5 has no rack."""
    made = PoolFactory(name="train", levels=[ZONE, RACK])
    for number, rack in enumerate(["r1", "r1", "r1", "r2", "r2", None]):
        labels = {ZONE.label: "a", **({RACK.label: rack} if rack else {})}
        NodeFactory(cluster=made.backend.cluster, name=f"n{number}", labels=labels)
    return made


def gang(pool, nodes, *, asks=IN_RACK, status="RUNNING", gpu=8, name="train"):
    """A workflow with a task on each of these nodes; a node of "" is one that waits."""
    workflow = WorkflowFactory(pool=pool, base_name=name)
    group = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, status=status, name="workers")
    for number, node in enumerate(nodes):
        task = TaskFactory(group=group, name=f"t{number}", node_name=node, placement__gpu=gpu)
        task.spec = {**task.spec, "requirements": asks}
        task.save()
    return workflow


def page_of(client, pool, query=""):
    answer = client.get(f"/ui/pools/{pool.name}/map{query}")
    assert answer.status_code == 200, answer.content.decode()
    return answer.content.decode()


def titles(page):
    return re.findall(r"<title>(.*?)</title>", page)


def test_each_node_says_what_is_free_and_who_holds_it(browser, pool):
    workflow = gang(pool, ["n0", "n0", "n1"], gpu=4)
    page = page_of(browser, pool)
    assert f"n0: 0 of 8 GPUs free; held by {workflow.name}: t0 and t1" in titles(page)
    assert f"n1: 4 of 8 GPUs free; held by {workflow.name}: t2" in titles(page)
    assert "n2: 8 of 8 GPUs free" in titles(page)


def test_nodes_that_take_no_work_say_why(browser, pool):
    taints = [{"key": "maintenance", "effect": "NoSchedule", "value": "yes"}]
    cluster = pool.backend.cluster
    labels = {ZONE.label: "a", RACK.label: "r3"}
    NodeFactory(cluster=cluster, name="cord", labels=labels, unschedulable=True)
    NodeFactory(cluster=cluster, name="down", labels=labels, ready=False)
    NodeFactory(cluster=cluster, name="tainted", labels=labels, taints=taints)
    page = page_of(browser, pool)
    assert "cord: 8 of 8 GPUs free; takes no new work: cordoned" in titles(page)
    assert "down: 8 of 8 GPUs free; takes no new work: not ready" in titles(page)
    assert "tainted: 8 of 8 GPUs free; takes no new work: tainted (maintenance:NoSchedule)" in titles(page)


def test_a_taint_that_the_pools_pods_tolerate_closes_nothing(browser, pool):
    pool.tolerations = [{"key": "gpu", "operator": "Exists"}]
    pool.save()
    NodeFactory(cluster=pool.backend.cluster, name="tainted", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    assert "tainted: 8 of 8 GPUs free" in titles(page_of(browser, pool))


def test_a_node_without_a_label_stands_outside(browser, pool):
    page = page_of(browser, pool)
    assert any(
        title.startswith("Nodes without rack, outside every domain of that key:") for title in titles(page)
    )


def test_only_the_pools_own_nodes_are_drawn(browser, pool):
    pool.node_selector = {RACK.label: "r2"}
    pool.save()
    page = page_of(browser, pool)
    assert "n3: 8 of 8 GPUs free" in titles(page)
    assert "n0: 8 of 8 GPUs free" not in titles(page)


def test_a_placed_workflow_shows_its_sets_where_they_landed(browser, pool):
    workflow = gang(pool, ["n0", "n1", "n2"])
    page = page_of(browser, pool, f"?workflow={workflow.name}")
    assert "✓ as asked" in page
    assert 'rack &quot;r&quot; <span class="quiet">(required)</span>' in page
    assert any(title.startswith("rack a/r1:") and "set A has 3 tasks here" in title for title in titles(page))
    assert f"n0: 0 of 8 GPUs free; held by {workflow.name}: t0; set A: 1 task" in titles(page)


@pytest.mark.parametrize(("required", "word"), [(True, "requirement missed"), (False, "preference missed")])
def test_a_set_that_is_torn_apart_is_called_so(browser, pool, required, word):
    asks = [{"key": "rack", "group": "r", "required": required}]
    workflow = gang(pool, ["n0", "n1", "n3"], asks=asks)
    page = page_of(browser, pool, f"?workflow={workflow.name}")
    assert f"▲ {word}" in page or f"✕ {word}" in page
    assert "a/r1 (2), a/r2 (1)" in words(page)


def test_a_workflow_without_requirements_is_shown_too(browser, pool):
    workflow = gang(pool, ["n0", "n3"], asks=[])
    page = page_of(browser, pool, f"?workflow={workflow.name}")
    assert "all its tasks, bound to no domain, on 2 nodes" in page


def test_a_waiting_workflow_shows_which_domains_are_too_small_and_by_how_much(browser, pool):
    holder = gang(pool, ["n1"], asks=[], name="night")
    workflow = gang(pool, ["", "", ""], status="SCHEDULING")
    page = page_of(browser, pool, f"?workflow={workflow.name}")
    assert any(
        title.startswith("rack a/r1:") and title.endswith("room for 2 of 3.") for title in titles(page)
    )
    assert any(
        title.startswith("rack a/r2:") and title.endswith("room for 2 of 3.") for title in titles(page)
    )
    assert f"has room for 2 of 3 tasks and lacks 1, held by &quot;{holder.name}&quot;" in page
    assert '<td class="number">2 of 3</td><td class="number">1</td>' in page


def test_of_several_waiting_groups_one_is_drawn_and_the_others_are_a_link_away(browser, pool):
    workflow = gang(pool, ["", "", "", ""], status="SCHEDULING")
    group = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, status="SCHEDULING", name="others")
    for number in range(2):
        task = TaskFactory(group=group, name=f"o{number}", placement__gpu=8)
        task.spec = {**task.spec, "requirements": IN_RACK}
        task.save()
    first = page_of(browser, pool, f"?workflow={workflow.name}")
    second = page_of(browser, pool, f"?workflow={workflow.name}&group=others")
    assert "room for 3 of 4." in "".join(titles(first))
    assert "room for 2." in "".join(titles(second))


def test_a_domain_opens_and_leads_back(browser, pool):
    page = page_of(browser, pool, "?open=a/r2")
    assert "<h1>Map of pool train: rack r2</h1>" in page
    assert "n3: 8 of 8 GPUs free" in titles(page)
    assert "n0: 8 of 8 GPUs free" not in titles(page)
    assert '<a href="/ui/pools/train/map?open=a">a</a>' in page
    assert 'href="/ui/pools/train/map?open=a%2Fr2"' in page_of(browser, pool)


def test_a_domain_that_is_gone_leads_to_the_whole_pool(browser, pool):
    page = page_of(browser, pool, "?open=a/r9")
    assert "There is no a/r9 any more." in page
    assert "n0: 8 of 8 GPUs free" in titles(page)


def test_the_table_says_the_same(browser, pool):
    workflow = gang(pool, ["n3"])
    page = page_of(browser, pool)
    rows = re.findall(r"<tr><th scope=\"row\" class=\"in\d\">(.*?)</tr>", page)
    text = [re.sub(r"<[^>]+>", "|", row) for row in rows]
    assert any(
        row.startswith("rack |r2||") and "1 of 2 nodes" in row and workflow.name in row for row in text
    )
    assert len([row for row in text if row.startswith("node ")]) == 6


def test_free_room_in_one_piece_is_told_for_each_key(browser, pool):
    gang(pool, ["n0", "n1"], asks=[])
    page = page_of(browser, pool)
    assert "2 nodes in a/r2" in words(page)
    assert '<span class="slot"><b>1</b> \N{MULTIPLICATION SIGN} 2</span>' in page


def test_the_picture_alone_carries_its_style_and_its_words(browser, pool):
    workflow = gang(pool, ["n0", "n1", "n2"])
    answer = browser.get(f"/ui/pools/{pool.name}/map.svg?workflow={workflow.name}")
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/svg+xml; charset=utf-8")
    assert "script" not in answer["Content-Security-Policy"]
    text = answer.content.decode()
    assert ET.fromstring(text).tag.endswith("svg")
    assert "<style>" in text
    assert "rack &quot;r&quot; · 3 in a/r1 · as asked" in text or 'rack "r" · 3 in a/r1 · as asked' in text
    assert "href" not in text


def test_the_style_of_the_picture_has_the_frames_colours_in_light_and_dark():
    assert style().count("--busy-soft:") == 2
    assert ".map .frame" in style()


def test_a_pool_that_is_not_the_callers_is_not_there(pool):
    Role.objects.create(name="osmo-user", policies=[{"actions": ["pool:List"], "resources": ["pool/other"]}])
    client = Client()
    client.force_login(User.objects.create_user("eve"))
    for page in ("map", "map.svg"):
        assert client.get(f"/ui/pools/{pool.name}/{page}").status_code == 404


def test_work_in_pools_that_are_hidden_is_nobodys_by_name(pool):
    """Another pool on the same nodes: neither page nor REST tells whose work is in the way."""
    allowed = {"actions": ["workflow:*", "pool:List"], "resources": ["pool/train"]}
    Role.objects.create(name="osmo-user", policies=[allowed])
    client = Client()
    client.force_login(User.objects.create_user("eve"))
    gang(PoolFactory(backend=pool.backend, levels=[ZONE, RACK]), ["n0", "n1", "n2"], name="secret")
    gang(pool, ["n3"], name="known")
    waits = gang(pool, ["", ""], status="SCHEDULING")
    waits.groups.update(waiting_why="capacity", waiting_reason="No rack has room.")
    addresses = {
        "map": f"/ui/pools/train/map?workflow={waits.name}",
        "picture": f"/ui/pools/train/map.svg?workflow={waits.name}",
        "page": f"/ui/workflows/{waits.name}",
        "explanation": f"/api/workflow/{waits.name}/explain",
    }
    for place, address in addresses.items():
        answer = client.get(address)
        assert answer.status_code == 200
        assert "secret" not in answer.content.decode(), place
        assert "another workflow" in answer.content.decode() or place == "picture", place
    assert "known" in client.get(addresses["explanation"]).content.decode()


def test_a_user_who_may_not_list_workflows_does_not_learn_their_names(pool):
    Role.objects.create(name="osmo-user", policies=[{"actions": ["pool:List"], "resources": ["pool/train"]}])
    client = Client()
    client.force_login(User.objects.create_user("eve"))
    workflow = gang(pool, ["n0"])
    page = page_of(client, pool)
    assert workflow.name not in page
    assert "n0: 0 of 8 GPUs free; held by another workflow" in titles(page)
    assert client.get(f"/ui/pools/train/map?workflow={workflow.name}").status_code == 403


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?workflow=none", 404),
        ("?open=%00", 400),
        ("?workflow=a%00b", 400),
        ("?nothing=1", 400),
        ("?open=" + "x" * 2000, 400),
        ("?open=%2F%2F", 200),
        ("?open=", 200),
        ("?open=%40999", 200),
        ("?group=nobody", 200),
    ],
)
def test_a_strange_address_is_answered_in_words(browser, pool, query, status):
    assert browser.get(f"/ui/pools/{pool.name}/map{query}").status_code == status


def test_an_ended_workflow_says_that_nothing_of_it_is_left(browser, pool):
    workflow = gang(pool, ["n0"], status="COMPLETED")
    assert "Nothing of it is live" in page_of(browser, pool, f"?workflow={workflow.name}")


def test_a_pool_whose_cluster_was_never_reached_has_a_page(browser):
    pool = PoolFactory(name="new", backend__cluster=None)
    assert "have not been observed yet" in page_of(browser, pool)


def test_the_number_of_queries_does_not_grow_with_the_pool(browser, pool):
    workflow = gang(pool, ["", "", ""], status="SCHEDULING")
    gang(pool, ["n0", "n1"], asks=[], name="night")
    with CaptureQueriesContext(
        connection,
    ) as few:
        page_of(browser, pool, f"?workflow={workflow.name}")
    for number in range(40):
        labels = {ZONE.label: "a", RACK.label: f"s{number % 4}"}
        NodeFactory(cluster=pool.backend.cluster, name=f"m{number}", labels=labels)
    gang(pool, [f"m{number}" for number in range(20)], asks=[], name="day")
    with CaptureQueriesContext(connection) as many:
        page_of(browser, pool, f"?workflow={workflow.name}")
    assert len(few) == len(many) <= 26


def test_a_workflow_of_another_cluster_does_not_stand_on_nodes_of_the_same_name(browser, pool):
    elsewhere = PoolFactory(name="other", levels=[ZONE, RACK])
    workflow = gang(elsewhere, ["n0"])
    page = page_of(browser, pool, f"?workflow={workflow.name}")
    assert "n0: 8 of 8 GPUs free" in titles(page)
    assert "It was submitted to pool" in page


def test_room_that_a_waiting_group_holds_itself_is_room_for_it(browser, pool):
    """One of its three tasks stands on n0 already: the rack has room for all of them."""
    workflow = gang(pool, ["n0", "", ""], status="SCHEDULING")
    page = page_of(browser, pool, f"?workflow={workflow.name}")
    assert "It fits now" in page
    assert any(title.startswith("rack a/r1:") and "room for 3" in title for title in titles(page))
