"""No text of a page is printed over another, or cut without a way to the rest, with names as real ones are.

The pages are served from rows: 12, 306 or 5,000 nodes of NVL72 racks, and workflows as four people submit
them. What is checked is in ``overlaps.js``.
"""

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from localcluster.scenario import nvl72
from pools.models import Node
from scheduling.topology.levels import Level
from tests.artefacts import artefacts
from tests.builders.gangs_of_others import follow, observe_gang, observe_topology, pod_group, waiting_pod
from tests.factories import (
    ClusterFactory,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
)
from workflows.models import Workflow

CHECK = (Path(__file__).parent / "overlaps.js").read_text()
PER_RACK = 18
PEOPLE = (
    "alice.liddell@research.example.com",
    "bartholomew.featherstonehaugh@cluster-operations.example.org",
    "carol@example.com",
    "d.o.christopherson-mckenzie@foundation-models.example.ai",
)
NAMES = ("nemotron-ultra-pretraining-stage2-packed", "eval", "llama-405b-sft-long-context-ablation-007")
REASON = (
    "no rack has room: of 17, us-east-02a/us-east-02a-block-1/us-east-02a-rack14 comes nearest, has room for "
    "3 of 8 tasks and lacks 5 (used by nemotron-ultra-pretraining-stage2-packed-12)"
)
IN_RACK = [{"key": "rack", "group": "workers", "required": True}]
BROAD, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SCHEMES = ["light", "dark"]


@pytest.fixture(scope="module")
def _unsafe():
    """Playwright's loop runs in this thread, in which pytest-django prepares and empties the database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


def fill(size):
    """A pool of so many nodes, three others, and the workflows of four people, some of which wait."""
    place = nvl72(-(-size // PER_RACK))
    cluster = ClusterFactory()
    Node.objects.bulk_create(
        NodeFactory.build(cluster=cluster, name=machine.name, labels=machine.labels, allocatable=AMOUNTS)
        for machine in place.machines({"osmo.local/pool": "gb200"})[:size]
    )
    levels = [Level(key, label) for key, label in place.keys.items()]
    pool = PoolFactory(
        name="gb200-nvl72-us-east-02a-foundation-models",
        description="The racks of hall 2. Ask #cluster-operations before you take more than four of them.",
        backend__cluster=cluster,
        nvlink=True,
        levels=levels,
    )
    for name in ("evaluation", "h100-hgx-interactive-and-notebooks", "z"):
        PoolFactory(name=name, backend=pool.backend, levels=levels[-2:])
    machines = iter(place.machines({})[:size])
    for at in range(30):
        gang(pool, at, [next(machines, None) if at % 3 else None for _ in range(4)])
    follow(pool.backend)
    observe_topology(pool.backend, levels)
    for namespace, name, tasks in OF_OTHERS:
        manifest = pod_group(namespace, name, members=tasks, required=levels[-1].label, queue=QUEUE)
        observe_gang(pool.backend, manifest, [waiting_pod(gpus=4, report=REPORT)] * tasks)
    return pool


OF_OTHERS = (
    ("foundation-models-inference-eu", "deepseek-r1-disaggregated-prefill-and-decode-0-multinode-19", 19),
    ("research", "pg-llama-405b-sft-7f9c2d4e-1b0a-4c53-9d1e-6a2f8b7c3d10", 8),
)
QUEUE = "research-foundation-models-reserved"
REPORT = "0/306 nodes are available: 288 node(s) didn't match topology, 18 Insufficient nvidia.com/gpu."
AMOUNTS = {"cpu": "144", "memory": "960Gi", "nvidia.com/gpu": "4", "ephemeral-storage": "1Ti"}


def gang(pool, at, machines):
    """A workflow on these nodes, or one that waits if they are too few."""
    runs = all(machines)
    workflow = WorkflowFactory(
        pool=pool,
        base_name=NAMES[at % 3],
        submitted_by=PEOPLE[at % 4],
        status="RUNNING" if runs else "PENDING",
        priority="HIGH" if at % 5 == 0 else "NORMAL",
    )
    group = TaskGroupFactory(
        pool=pool,
        workflow=workflow,
        pods=0,
        name="pretraining-workers-and-launcher",
        status="RUNNING" if runs else "SCHEDULING",
        waiting_reason="" if runs else REASON,
        waiting_since=None if runs else timezone.now() - timedelta(hours=at),
    )
    for number in range(4):
        task = TaskFactory(
            group=group,
            name=f"megatron-worker-rank-{number:04}-of-0004",
            lead=number == 0,
            node_name=machines[number].name if runs else "",
            placement__gpu=4,
        )
        task.spec = {**task.spec, "requirements": IN_RACK}
        task.save()


@pytest.fixture
def open_page(_unsafe, chromium, transactional_db, live_server):
    """A function that opens a page as an administrator, light and dark in a tab each."""
    client = Client()
    client.force_login(User.objects.create_superuser(PEOPLE[1]))
    cookie = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": live_server.url}
    pages = {}

    def open_page(path, *, scheme="light"):
        if scheme not in pages:
            context = chromium.new_context(color_scheme=scheme)
            context.add_cookies([cookie])
            pages[scheme] = context.new_page()
        page = pages[scheme]
        page.set_viewport_size(BROAD)
        assert page.goto(live_server.url + path).status == 200
        return page

    yield open_page
    for page in pages.values():
        page.context.close()


def faults_of(open_page, path, *, name, inside="body"):
    """What is wrong with the texts of a page, in light and dark, in a broad and a narrow window."""
    for scheme in SCHEMES:
        page = open_page(path, scheme=scheme)
        page.evaluate("for (const part of document.querySelectorAll('main details')) part.open = true")
        for window in (BROAD, NARROW):
            page.set_viewport_size(window)
            view = f"{name}-{scheme}-{window['width']}"
            if faults := page.evaluate(CHECK, inside):
                page.screenshot(path=artefacts("screenshots") / f"texts-{view}.png", animations="disabled")
            yield from (f"{view}: {fault}" for fault in faults)


@pytest.mark.parametrize("size", [12, 306, pytest.param(5000, marks=pytest.mark.deep)])
def test_no_text_is_printed_over_another_or_cut_without_a_way_to_the_rest(open_page, size):
    pool = fill(size)
    runs, waits = (
        Workflow.objects.filter(status=status).order_by("-name").first() for status in ("RUNNING", "PENDING")
    )
    here = f"/ui/pools/{pool.name}"
    rack = "us-east-02a/us-east-02a-block-0/us-east-02a-rack06"
    pages = {
        "pools": "/ui/",
        "pool": here,
        "submit": f"{here}/submit",
        "map": f"{here}/map",
        "map-of-a-rack": f"{here}/map?open={rack}",
        "what-if": f"{here}/what-if?open={rack}&drain=true",
        "map-with-a-workflow": f"{here}/map?workflow={runs.name}",
        "cluster": f"/ui/clusters/{pool.backend.name}",
        "group-of-others": f"/ui/clusters/{pool.backend.name}/{'/'.join(OF_OTHERS[0][:2])}",
        "workflows": "/ui/workflows?whose=all",
        "workflow": f"/ui/workflows/{runs.name}",
        "workflow-that-waits": f"/ui/workflows/{waits.name}",
    }
    faults = [
        fault for name, path in pages.items() for fault in faults_of(open_page, path, name=f"{name}-{size}")
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("path", ["/ui/", "/ui/workflows?whose=all"])
def test_a_list_fits_into_a_broad_window(open_page, path):
    fill(12)
    table = open_page(path).get_by_role("region").first
    assert table.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_no_text_of_the_form_of_a_pool_is_printed_over_another_or_cut(open_page):
    """The theme's own frame shortens the way to a page; it is left out."""
    path = f"/admin/pools/pool/{fill(306).pk}/change/"
    faults = list(faults_of(open_page, path, name="admin", inside="#content"))
    assert not faults, "\n".join(faults)


def test_a_shortened_name_is_there_in_full_to_point_at_to_copy_and_for_the_keyboard(open_page):
    fill(12)
    workflow = Workflow.objects.filter(status="RUNNING").first()
    page = open_page(f"/ui/workflows/{workflow.name}")
    host = workflow.groups.get().tasks.order_by("position").first().node_name
    table = page.get_by_role("region", name="Table of tasks")
    name = table.locator("td.node span[title]").first
    short = name.bounding_box()["width"]

    assert name.get_attribute("title") == host
    name.evaluate("name => getSelection().selectAllChildren(name)")
    assert page.evaluate("getSelection().toString()") == host
    table.focus()
    page.keyboard.press("Shift")  # from here on the focus is the keyboard's, and shows
    assert name.bounding_box()["width"] > 2 * short


def test_the_box_that_has_the_focus_of_the_keyboard_says_its_name_in_full(open_page):
    pool = fill(306)
    page = open_page(f"/ui/pools/{pool.name}/map")
    page.get_by_role("link", name="us-east-02a-rack22").first.focus()
    line = page.locator("#map-focus")
    assert "us-east-02a/us-east-02a-block-2/us-east-02a-rack22: 18 of 18 nodes" in line.inner_text()
    assert page.viewport_size["height"] >= sum(line.bounding_box()[side] for side in ("y", "height"))


FAULTY = """<!doctype html>
<p style="margin:0;height:9px">first words</p><p style="margin:0">second words</p>
<p style="width:40px;overflow:hidden;white-space:nowrap">these words are cut</p>
<p style="width:40px;overflow:hidden;white-space:nowrap" title="titled words">titled words</p>
<div style="width:90px;overflow-x:auto;white-space:nowrap">words that nobody can scroll to</div>
<p style="width:2000px">broad</p>
<svg width="200" height="60">
  <g><rect class="frame" width="40" height="30"/><text y="20">too broad for it</text></g>
</svg>
"""


def test_texts_that_overlap_or_are_cut_are_noticed(chromium):
    page = chromium.new_page(viewport={"width": 800, "height": 600})
    page.set_content(FAULTY)
    faults = page.evaluate(CHECK, "body")
    page.close()
    assert sorted(faults) == [
        '"first words" and "second words" overlap',
        '"these words are cut" is cut',
        '"too broad for it" leaves its box',
        '"words that nobody can scroll to" is in a scrolling part without a hint',
        '"words that nobody can scroll to" is in a scrolling part without focus',
        "the page is 2008 wide in a window of 800",
    ]
