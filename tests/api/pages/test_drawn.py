"""A page is made from what was drawn before only while every row that it shows is as it was."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from types import ModuleType

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import pages.map.views
import pages.pools.views
from pages.drawn import drawn_pages
from pages.pool_rows import GROUP_COLUMNS, MAP_SOURCES, POOL_SOURCES, WAITING_COLUMNS, RowSource
from pools.models import Backend, Cluster, ForeignUsage, Node, Platform, Pool, SuspectNode, TopologyKey
from pools.values.completeness import NODES, OTHERS
from scheduling.nodes.devices import CLASSES, SLICES
from tests.builders.completeness import note_lists
from tests.factories import (
    RACK,
    ZONE,
    NodeFactory,
    PlatformFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
    foreign_usage,
)
from web import recent_values
from web.models import Role
from workflows.models import Task, TaskGroup, Workflow

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Page:
    """A page that is drawn once; ``content`` is the function of ``views`` that reads its rows."""

    address: str
    views: ModuleType
    content: str
    sources: Sequence[RowSource]
    columns_of_a_group: frozenset[str]


MAP = Page(
    "/ui/pools/train/map",
    pages.map.views,
    "map_content",
    MAP_SOURCES,
    frozenset({*GROUP_COLUMNS, "released_at"}),
)
POOL = Page(
    "/ui/pools/train",
    pages.pools.views,
    "pool_content",
    POOL_SOURCES,
    frozenset({*GROUP_COLUMNS, *WAITING_COLUMNS, "name", "released_at"}),
)
BOTH = (MAP, POOL)
CALLERS = {"auth_user", "django_session", "web_role", "web_roleassignment"}
"""Tables that every request reads before its page: who the caller is, and what they may do."""


@pytest.fixture(autouse=True)
def clear_before():
    drawn_pages.clear()


@pytest.fixture
def pool():
    """Racks r0 and r1 of zone a, two nodes each; a gang on n0, n1; others on n2; n3 tainted, suspect."""
    made = PoolFactory(name="train", levels=[ZONE, RACK], nvlink=True)
    PlatformFactory(pool=made, name="h100")
    cluster = made.backend.cluster
    for number in range(4):
        NodeFactory(
            cluster=cluster, name=f"n{number}", labels={ZONE.label: "a", RACK.label: f"r{number // 2}"}
        )
    Node.objects.filter(name="n3").update(taints=[{"key": "k", "effect": "NoSchedule"}])
    workflow = WorkflowFactory(pool=made, base_name="gang")
    group = TaskGroupFactory(pool=made, workflow=workflow, pods=0, status="RUNNING", name="workers")
    for number in range(2):
        TaskFactory(
            group=group, name=f"t{number}", node_name=f"n{number}", status="RUNNING", placement__gpu=4
        )
    foreign_usage(cluster, "n2", gpu=1)
    suspect(cluster, "n3")
    return made


def suspect(cluster, node, *, until=timedelta(hours=1)):
    now = timezone.now()
    SuspectNode.objects.create(
        cluster=cluster, node=node, since=now, until=now + until, groups=2, users=2, faults=[]
    )


@pytest.fixture(params=BOTH, ids=lambda page: page.content)
def page(request):
    return request.param


@pytest.fixture
def browser(ann, pool, page):
    """Ann's browser with the page, whose tag is ``etag``."""
    client = Client()
    client.force_login(ann)
    client.get(page.address)  # brings the cookie of the forms
    client.etag = client.get(page.address)["ETag"]
    return client


def again(browser, address):
    return browser.get(address, headers={"If-None-Match": browser.etag})


def touch(model):
    """Write the rows of a table as they are."""
    table = model._meta.db_table
    column = model._meta.pk.column
    with connection.cursor() as cursor:
        cursor.execute(f'UPDATE {table} SET "{column}" = "{column}"')


def test_a_page_without_news_is_not_made_again(browser, page, monkeypatch):
    monkeypatch.setattr(page.views, page.content, None)
    with CaptureQueriesContext(connection) as statements:
        answer = again(browser, page.address)
    assert (answer.status_code, answer.content, answer["ETag"]) == (304, b"", browser.etag)
    of_the_page = [row["sql"] for row in statements if not tables_in(row["sql"]) <= CALLERS]
    assert len(of_the_page) == 1


CHANGES = {
    "a node is cordoned": lambda: Node.objects.filter(name="n0").update(unschedulable=True),
    "others use more": lambda: ForeignUsage.objects.update(gpu=5),
    "a suspicion has passed": lambda: SuspectNode.objects.update(until=timezone.now()),
    "a task ends": lambda: Task.objects.filter(name="t1").update(status="COMPLETED"),
    "a workflow is removed": lambda: Workflow.objects.all().delete(),
    "a level goes": lambda: TopologyKey.objects.filter(key="rack").delete(),
}
OF_THE_MAP = {
    "a node is not ready": lambda: Node.objects.filter(name="n0").update(ready=False),
    "a node's label": lambda: Node.objects.filter(name="n0").update(labels={ZONE.label: "b"}),
    "a node's amounts": lambda: Node.objects.filter(name="n3").update(allocatable={"nvidia.com/gpu": "2"}),
    "a node goes": lambda: Node.objects.filter(name="n3").delete(),
    "a node comes": lambda: NodeFactory(cluster=Cluster.objects.get(), name="n9", labels={ZONE.label: "a"}),
    "others are gone": lambda: ForeignUsage.objects.all().delete(),
    "others are not followed any more": lambda: note_lists({OTHERS: None}),
    "a node is suspect": lambda: suspect(Cluster.objects.get(), "n0"),
    "a node is not suspect any more": lambda: SuspectNode.objects.all().delete(),
    "a group is released": lambda: TaskGroup.objects.update(status="COMPLETED", released_at=timezone.now()),
    "a level's label": lambda: TopologyKey.objects.filter(key="rack").update(label="example.com/other"),
    "the pool selects other nodes": lambda: Pool.objects.update(node_selector={RACK.label: "r1"}),
    "the pool has another backend": lambda: Pool.objects.update(backend=other_backend()),
    "the backend has another cluster": lambda: Backend.objects.update(
        cluster=Cluster.objects.create(uid="other")
    ),
    "a node's taint": lambda: Node.objects.filter(name="n0").update(
        taints=[{"key": "k", "effect": "NoSchedule"}]
    ),
    "a node takes another's place": lambda: (
        Node.objects.filter(name="n3").delete(),
        NodeFactory(cluster=Cluster.objects.get(), name="n9", labels={ZONE.label: "a", RACK.label: "r1"}),
    ),
    "the observer falls silent": lambda: Cluster.objects.update(
        heartbeat_at=timezone.now() - timedelta(minutes=4)
    ),
    "the nodes are not known": lambda: note_lists({NODES: None}),
    "a task gets another node": lambda: Task.objects.filter(name="t1").update(node_name="n3"),
    "a workflow ends": lambda: Workflow.objects.update(status="COMPLETED"),
    "a workflow comes": lambda: WorkflowFactory(pool=Pool.objects.get(), base_name="next"),
    "a platform tolerates": lambda: Platform.objects.update(tolerations=[{"operator": "Exists"}]),
}
OF_THE_POOL = {
    "the description": lambda: Pool.objects.update(description="For training."),
    "the pool is in maintenance": lambda: Pool.objects.update(enable_maintenance=True),
    "the scheduler": lambda: Backend.objects.update(scheduler_type="native"),
    "the cluster does not answer": lambda: Backend.objects.update(conditions=[]),
    "nobody has asked the cluster for long": lambda: Backend.objects.update(
        probed_at=timezone.now() - timedelta(hours=1)
    ),
    "a group waits": lambda: TaskGroup.objects.update(
        status="SCHEDULING", waiting_reason="No rack has room.", waiting_since=timezone.now()
    ),
    "a group is placed": lambda: TaskGroup.objects.update(placement_result=DEGRADED),
    "a group came, was placed and ended": lambda: TaskGroupFactory(
        pool=Pool.objects.get(),
        workflow=WorkflowFactory(pool=Pool.objects.get(), status="COMPLETED"),
        pods=0,
        status="COMPLETED",
        placement_result=DEGRADED,
        released_at=timezone.now(),
    ),
    "a node has no channel for long": lambda: without_channel(),  # noqa: PLW0108 -- defined below
}
UNKNOWN_DEVICES = {
    "classes may not be read": {CLASSES: "you may not list them"},
    "slices may not be read": {CLASSES: None, SLICES: "you may not list them"},
    "neither was listed yet": {CLASSES: None},
}


@pytest.mark.parametrize("case", UNKNOWN_DEVICES)
def test_devices_that_are_not_known_any_more_give_the_new_page(browser, page, case):
    Backend.objects.update(scheduler_type="kubernetes")
    Node.objects.filter(name="n3").update(allocatable={"cpu": "8"})
    browser.etag = browser.get(page.address)["ETag"]
    assert again(browser, page.address).status_code == 304
    note_lists(UNKNOWN_DEVICES[case])
    answer = again(browser, page.address)
    assert answer.status_code == 200
    assert "not known" in answer.content.decode() or "are not counted" in answer.content.decode()


DEGRADED = {
    "outcome": "degraded",
    "at": "",
    "places": "",
    "sets": [{"key": "rack", "required": False, "outcome": "degraded"}],
}


def without_channel():
    long_ago = timezone.now() - timedelta(hours=1)
    note_lists({SLICES: ""}, heartbeat_at=timezone.now())
    Node.objects.filter(name="n0").update(offers_channel=False, channel_since=long_ago)


def other_backend():
    return PoolFactory(name="elsewhere", levels=[ZONE], backend__name="elsewhere").backend


@pytest.mark.parametrize(
    ("page", "change"),
    [
        *(
            pytest.param(page, change, id=f"{page.content}: {name}")
            for page in BOTH
            for name, change in CHANGES.items()
        ),
        *(pytest.param(MAP, change, id=f"map: {name}") for name, change in OF_THE_MAP.items()),
        *(pytest.param(POOL, change, id=f"pool: {name}") for name, change in OF_THE_POOL.items()),
    ],
    indirect=["page"],
)
def test_each_change_of_what_a_page_shows_gives_the_new_page(change, browser, page):
    change()
    answer = again(browser, page.address)
    drawn_pages.clear()
    want = browser.get(page.address)
    assert answer.status_code == 200
    assert answer["ETag"] == want["ETag"] != browser.etag


MODELS = (
    Pool,
    TopologyKey,
    Platform,
    Backend,
    Cluster,
    Node,
    ForeignUsage,
    SuspectNode,
    TaskGroup,
    Task,
    Workflow,
)


def test_a_row_that_is_written_makes_the_page_again_unless_its_columns_say_no(browser, page, monkeypatch):
    by_version = {source.table for source in page.sources if "xmin" in (source.columns or ["xmin"])}
    makes = []
    made = getattr(page.views, page.content)
    monkeypatch.setattr(page.views, page.content, lambda *pool, **how: makes.append(1) or made(*pool, **how))
    found = {}
    for model in MODELS:
        makes.clear()
        touch(model)
        assert again(browser, page.address).status_code == 304
        found[model._meta.db_table] = bool(makes)
        makes.clear()
        assert again(browser, page.address).status_code == 304
        assert not makes
    assert found == {table: table in by_version for table in found}


def test_a_page_reads_no_table_but_its_sources(browser, page):
    drawn_pages.clear()
    with CaptureQueriesContext(connection) as statements:
        assert browser.get(page.address).status_code == 200
    read = set().union(*(tables_in(row["sql"]) for row in statements))
    assert read - CALLERS == {source.table for source in page.sources}


def test_a_page_reads_no_column_of_a_group_but_those_that_count(browser, page):
    drawn_pages.clear()
    with CaptureQueriesContext(connection) as statements:
        browser.get(page.address)
    columns = {
        column for row in statements for column in re.findall(r'"workflows_taskgroup"\."(\w+)"', row["sql"])
    }
    assert columns <= page.columns_of_a_group


def tables_in(sql):
    return set(re.findall(r'(?:FROM|JOIN) "?((?:auth|django|pools|web|workflows)_\w+)', sql))


def test_a_heartbeat_makes_no_page(browser, page, monkeypatch):
    Cluster.objects.update(heartbeat_at=timezone.now())
    monkeypatch.setattr(page.views, page.content, None)
    assert again(browser, page.address).status_code == 304


def test_another_reader_has_a_page_of_their_own_that_is_drawn_once(browser, page, monkeypatch):
    monkeypatch.setattr(page.views, page.content, None)
    bob = Client()
    bob.force_login(User.objects.create_user("bob"))
    bob.etag = browser.etag
    answer = again(bob, page.address)
    assert answer.status_code == 200
    assert b">bob<" in answer.content
    assert b">ann<" not in answer.content


def test_a_reader_with_other_rights_has_nothing_of_what_was_drawn_for_others(browser, page, monkeypatch):
    makes, made = [], getattr(page.views, page.content)
    monkeypatch.setattr(page.views, page.content, lambda *pool, **how: makes.append(1) or made(*pool, **how))
    Role.objects.create(name="readers", policies=[READS_POOLS])
    eve = Client()
    user = User.objects.create_user("eve")
    user.role_assignments.create(role="readers")
    eve.force_login(user)
    for _ in range(2):
        assert b"gang" not in eve.get(page.address).content
    assert makes == [1]


def test_a_page_that_is_read_in_a_transaction_of_its_caller_is_not_kept(browser, page, monkeypatch):
    drawn_pages.clear()
    monkeypatch.setattr(drawn_pages, "keep", None)
    with transaction.atomic():
        assert browser.get(page.address).status_code == 200


def test_a_value_that_is_no_longer_good_is_made_by_one_caller_while_others_have_it(monkeypatch):
    values = recent_values.RecentValues(most=2)
    values.keep("a", "old", seconds=-1)
    assert [values.find("a"), values.find("a")] == [None, "old"]
    values.keep("a", "new", seconds=60)
    assert values.find("a") == "new"
    monkeypatch.setattr(recent_values, "MAKING_SECONDS", -1)
    values.keep("a", "old", seconds=-1)
    assert [values.find("a"), values.find("a")] == [None, None]


@pytest.mark.parametrize(
    ("version", "late"),
    [("", -1 - recent_values.LATE_SECONDS), ("1", -1)],
    ids=["without a version", "of a version"],
)
def test_a_value_is_given_to_nobody_for_longer_than_it_may_serve(version, late):
    values = recent_values.RecentValues(most=2)
    values.keep("a", "old", version=version, seconds=late)
    assert [values.find("a", version=version), values.find("a", version=version)] == [None, None]


def test_only_the_values_that_were_used_last_are_kept():
    values = recent_values.RecentValues(most=2)
    for key in ("a", "b"):
        values.keep(key, key, seconds=60)
    values.find("a")
    values.keep("c", "c", seconds=60)
    assert [values.find(key) for key in ("a", "b", "c")] == ["a", None, "c"]


@pytest.mark.parametrize("page", [MAP], indirect=True, ids=["map"])
def test_another_address_has_a_page_of_its_own(browser, page):
    assert again(browser, f"{page.address}?open=a").status_code == 200


def test_a_reader_who_lost_the_pool_gets_no_page(browser, page, ann):
    ann.role_assignments.create(role="osmo-elsewhere")
    assert again(browser, page.address).status_code == 404


def test_a_page_that_is_made_while_its_rows_change_is_not_taken_for_the_new_rows(browser, page, monkeypatch):
    made = getattr(page.views, page.content)

    def slow(*pool, **how):
        content = made(*pool, **how)
        elsewhere(lambda: Node.objects.filter(name="n0").update(unschedulable=True))
        return content

    drawn_pages.clear()
    with monkeypatch.context() as patch:
        patch.setattr(page.views, page.content, slow)
        browser.etag = browser.get(page.address)["ETag"]
    assert again(browser, page.address).status_code == 200


@pytest.mark.parametrize("page", [MAP], indirect=True, ids=["map"])
def test_a_row_that_came_and_went_while_a_page_was_made_is_not_on_it(browser, page, monkeypatch):
    made = getattr(page.views, page.content)

    def slow(*pool, **how):
        elsewhere(lambda: NodeFactory(cluster=Cluster.objects.get(), name="brief", labels={ZONE.label: "a"}))
        content = made(*pool, **how)
        elsewhere(lambda: Node.objects.filter(name="brief").delete())
        return content

    with monkeypatch.context() as patch:
        patch.setattr(page.views, page.content, slow)
        answer = browser.get(page.address)
    assert b"brief" not in answer.content


def elsewhere(act):
    """Do it in another connection, as another process would."""

    def run():
        try:
            act()
        finally:
            connection.close()

    thread = Thread(target=run)
    thread.start()
    thread.join()


READS_POOLS = {"actions": ["pool:List"], "resources": ["*"]}
OF_THE_READER = {
    "they log out": (lambda browser: browser.session.flush(), 302),
    "the session expires": (lambda _: Session.objects.update(expire_date=timezone.now()), 302),
    "the user is made inactive": (lambda _: User.objects.update(is_active=False), 302),
    "the password changes": (lambda _: change_password(), 302),
    "the user is removed": (lambda _: User.objects.all().delete(), 302),
    "the pool is taken away": (lambda _: reassign("osmo-elsewhere"), 404),
    "a role grants nothing more": (lambda _: Role.objects.update(policies=[]), 403),
    "the user administers": (lambda _: User.objects.update(is_staff=True), 200),
}


def change_password():
    ann = User.objects.get()
    ann.set_password("another")
    ann.save()


def assign(role):
    User.objects.get().role_assignments.create(role=role)


def reassign(role):
    User.objects.get().role_assignments.all().delete()
    assign(role)


@pytest.mark.parametrize(("change", "status"), OF_THE_READER.values(), ids=OF_THE_READER)
def test_each_change_of_who_the_reader_is_holds_at_once(change, status, browser, page):
    Role.objects.create(name="readers", policies=[READS_POOLS])
    assign("readers")
    browser.etag = browser.get(page.address)["ETag"]
    for _ in range(2):
        assert again(browser, page.address).status_code == 304
    change(browser)
    assert again(browser, page.address).status_code == status


def test_a_login_that_does_not_follow_from_rows_is_judged_with_each_request(pool, page, ann, settings):
    settings.TRUSTED_PROXY_SECRETS = ["s" * 32]
    gateway = {"x-osmo-user": "ann", "x-osmo-roles": "osmo-user", "x-osmo-proxy-secret": "s" * 32}
    browser = Client()
    browser.etag = browser.get(page.address, headers=gateway)["ETag"]
    for _ in range(3):
        headers = {**gateway, "If-None-Match": browser.etag}
        assert browser.get(page.address, headers=headers).status_code == 304
    lost = {**headers, "x-osmo-proxy-secret": "another"}
    assert browser.get(page.address, headers=lost).status_code == 401
