"""No page of the admin or of users breaks a rule of axe-core, wide or narrow, light or dark."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from pools import services
from pools.models import Backend, Cluster, ConfigRevision, PodTemplate, SuspectNode
from pools.values.completeness import NODES
from tests.builders.completeness import note_lists
from tests.builders.gangs_of_others import follow, observe_gang, observe_topology, pod_group, waiting_pod
from tests.factories import RACK, ZONE, NodeFactory, TaskGroupFactory, WorkflowFactory
from tests.fakes.kai import cluster, clusters  # noqa: F401 -- fixtures
from tests.installed import npm_packages
from web.access.services import make_token
from web.models import PersonalToken, Role

SECONDS = 60
SETUP = services.ConfigChange(username="setup", description="as it began")
SAID = """found => found.violations.flatMap(rule => rule.nodes.map(node => [
    rule.id, node.target.join(" "), node.html.slice(0, 160),
    node.any.concat(node.all, node.none).map(check => check.message).join("; "),
].join(" | ")))"""
ADMIN = {
    "desk": "/admin/",
    "pools": "/admin/pools/pool/",
    "pool-add": "/admin/pools/pool/add/",
    "pool": "/admin/pools/pool/{pool}/change/",
    "pool-delete": "/admin/pools/pool/{pool}/delete/",
    "pool-rename": "/admin/pools/pool/{pool}/rename/",
    "pool-what-if": "/admin/pools/pool/{pool}/what-if/",
    "pool-log": "/admin/pools/pool/{pool}/history/",
    "import": "/admin/pools/pool/import/",
    "backends": "/admin/pools/backend/",
    "backend-add": "/admin/pools/backend/add/",
    "backend": "/admin/pools/backend/{backend}/change/",
    "templates": "/admin/pools/podtemplate/",
    "template-add": "/admin/pools/podtemplate/add/",
    "template": "/admin/pools/podtemplate/{template}/change/",
    "suspects": "/admin/pools/suspectnode/",
    "suspect": "/admin/pools/suspectnode/{suspect}/change/",
    "suspect-trust": "/admin/pools/suspectnode/{suspect}/trust/",
    "revisions": "/admin/pools/configrevision/",
    "revision": "/admin/pools/configrevision/{revision}/change/",
    "revision-rollback": "/admin/pools/configrevision/{revision}/go-back/",
    "revision-compare": "/admin/pools/configrevision/{revision}/compare/",
    "revision-tags": "/admin/pools/configrevision/{revision}/tags/",
    "revision-take-out": "/admin/pools/configrevision/{revision}/take-out/",
    "users": "/admin/auth/user/",
    "user-add": "/admin/auth/user/add/",
    "user": "/admin/auth/user/{user}/change/",
    "user-password": "/admin/auth/user/{user}/password/",
    "roles": "/admin/web/role/",
    "role-add": "/admin/web/role/add/",
    "role": "/admin/web/role/{role}/change/",
    "tokens": "/admin/web/personaltoken/",
    "token": "/admin/web/personaltoken/{token}/change/",
    "password": "/admin/password_change/",
}
PAGES = {
    "home": "/ui/",
    "ui-pools": "/ui/pools",
    "ui-pool": "/ui/pools/train",
    "ui-submit": "/ui/pools/train/submit",
    "ui-map": "/ui/pools/train/map",
    "ui-what-if": "/ui/pools/train/what-if",
    "ui-what-if-answered": "/ui/pools/train/what-if?add=1&like=n0",
    "ui-cluster": "/ui/clusters/kai",
    "ui-group-of-others": "/ui/clusters/kai/research/pg-train",
    "ui-workflows": "/ui/workflows?whose=all",
    "ui-workflow": "/ui/workflows/{workflow}",
    "ui-cancel": "/ui/workflows/{workflow}/cancel",
    "ui-again": "/ui/workflows/{workflow}/again",
    "ui-nowhere": "/ui/nowhere",
    "ui-refused": "/ui/workflows?fo=1",
}


@pytest.fixture(scope="module")
def _unsafe():
    """Playwright's loop runs in this thread, in which pytest-django prepares and empties the database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture(scope="session")
def axe():
    """The text of axe-core."""
    packages = npm_packages("axe", Path(__file__).parent / "axe")
    return (packages / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture
def service(_unsafe, chromium, transactional_db, live_server):
    """The address of the service, with an administrator."""
    User.objects.create_superuser("root", password="correct horse")
    return live_server.url


@pytest.fixture
def places(service):
    """Rows of each kind that addresses name, and a pool with keys, nodes and a workflow that waits."""
    services.put_backend(name="kai", document={"kubeconfig": "/etc/kai"}, change=SETUP)
    template = services.put_pod_template(
        name="shm", document={"metadata": {"labels": {"team": "a"}}}, change=SETUP
    )
    document = {
        "backend": "kai",
        "nvlink": True,
        "topology_keys": [{"key": level.key, "label": level.label} for level in (ZONE, RACK)],
        "platforms": {"h100": {"node_selector": {"example.com/gpu": "h100"}}},
        "common_pod_template": ["shm"],
    }
    services.put_pool(name="train", document=document, change=SETUP)
    pool = services.patch_pool(name="train", changes={"description": "For training."}, change=SETUP).value
    now = timezone.now()
    note_lists({NODES: ""}, heartbeat_at=now)
    for number in range(4):
        labels = {ZONE.label: "z1", **({RACK.label: f"r{number // 2}"} if number < 3 else {})}
        NodeFactory(cluster=Cluster.objects.get(), name=f"n{number}", labels=labels)
    follow(pool.backend)
    observe_topology(pool.backend, [ZONE, RACK])
    pods = [waiting_pod(report="no room", unread=("pod affinity",))] * 3
    observe_gang(pool.backend, pod_group(members=3, required=RACK.label), pods)
    suspect = SuspectNode.objects.create(
        cluster=Cluster.objects.get(),
        node="n1",
        since=now,
        until=now + timedelta(hours=1),
        groups=3,
        users=2,
        faults=["node_lost"],
    )
    root = User.objects.get(username="root")
    make_token(root, name="laptop")
    workflow = WorkflowFactory(pool=pool)
    TaskGroupFactory(pool=pool, workflow=workflow, pods=2, name="workers", status="SCHEDULING")
    return {
        "pool": pool.pk,
        "backend": Backend.objects.get().pk,
        "template": PodTemplate.objects.get(pk=template.pk).pk,
        "suspect": suspect.pk,
        "revision": ConfigRevision.objects.filter(config_type="POOL").latest("revision").pk,
        "user": root.pk,
        "role": Role.objects.create(name="reader", description="Reads.").pk,
        "token": PersonalToken.objects.get().pk,
        "workflow": workflow.name,
    }


@pytest.fixture
def page_of(chromium):
    """A function that opens a page of a browser of its own, of this width and scheme of colours."""
    contexts = []

    def open_page(width, scheme="light"):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        context.set_default_timeout(SECONDS * 1000)
        contexts.append(context)
        return context.new_page()

    yield open_page
    for context in contexts:
        context.close()


def log_in(page, service, *, to):
    page.goto(f"{service}/ui/login?next={to}")
    page.get_by_label("Name").fill("root")
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{service}{to}")


def broken_rules(page, axe):
    """What axe-core finds, one line for each place; folded parts are opened first."""
    page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
    page.evaluate(axe)
    return page.evaluate(f"axe.run(document, {{resultTypes: ['violations']}}).then({SAID})")


@pytest.fixture
def broken(service, places, page_of, axe):
    """A function that says which of these pages break rules, and where, wide and light, narrow and dark."""

    def visit(paths):
        found = {}
        for width, scheme in ((1280, "light"), (390, "dark")):
            page = page_of(width, scheme)
            log_in(page, service, to="/admin/")
            for name, path in paths.items():
                answer = page.goto(service + path.format(**places))
                want = {"ui-nowhere": 404, "ui-refused": 400}.get(name, 200)
                assert answer.status == want, (name, answer.status)
                if lines := broken_rules(page, axe):
                    found[name, width] = lines
        return found

    return visit


def test_no_page_of_the_admin_breaks_a_rule_of_axe(broken):
    assert broken(ADMIN) == {}


def test_no_page_for_users_breaks_a_rule_of_axe(broken):
    assert broken(PAGES) == {}


@pytest.mark.parametrize("path", ["/ui/login", "/ui/logged-out", "/admin/login/"])
def test_no_page_for_strangers_breaks_a_rule_of_axe(path, service, page_of, axe):
    page = page_of(390)
    page.goto(service + path)
    assert broken_rules(page, axe) == []
