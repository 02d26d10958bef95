"""A real browser before the whole service on the local cluster; pictures are kept as artefacts.

The browser is the system's Chromium. Without one these tests, and no others, are skipped, saying so; where
``OSMO_BROWSER`` is ``needed`` they fail instead. Pictures go to ``artefacts/screenshots``, or to
``screenshots`` in the directory that ``OSMO_ARTEFACTS`` names.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect, sync_playwright

from tests.artefacts import artefacts

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 90
FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items):
    """A page that waits for a cluster takes longer than a test of values."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Let the fixtures know how the test ended."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="module")
def chromium():
    """Chromium, ended with the module: what drives it must not outlive its tests in this process."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        said = "no Chromium on this machine: `make browser` installs it as root"
        if os.environ.get("OSMO_BROWSER") == "needed":
            pytest.fail(said)
        pytest.skip(said)
    expect.set_options(timeout=SECONDS * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"],
        )
        yield browser
        browser.close()


@dataclass
class Visitor:
    """Somebody at a browser: what they do on the page, and what went wrong on it."""

    page: Page
    context: BrowserContext
    url: str
    complaints: list[str]

    def open(self, path):
        answer = self.page.goto(self.url + path)
        assert answer.status < 500, (path, answer.status)
        return answer

    def log_in(self, user, password, *, to="/ui/"):
        self.open(f"/ui/login?next={to}")
        self.page.get_by_label("Name").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        self.page.wait_for_url(f"{self.url}{to}")

    def picture(self, name):
        """Keep a picture of the whole page."""
        path = artefacts("screenshots") / f"{name}.png"
        self.page.screenshot(path=path, full_page=True, animations="disabled")

    def text(self):
        return self.page.get_by_role("main").inner_text()


@pytest.fixture
def visit(chromium, running_service, request):
    """A function that opens a browser of its own: ``scheme`` light or dark, ``script`` or none, ``width``.

    At the test's end no page may have complained: a script that failed, a file that the policy of content
    kept out, an answer of 5xx.
    """
    visitors = []

    def visit(*, scheme="light", script=True, width=1400, height=1000):
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=script
        )
        context.set_default_timeout(SECONDS * 1000)
        page = context.new_page()
        complaints = []
        page.on("pageerror", lambda error: complaints.append(f"script: {error}"))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on(
            "response",
            lambda answer: (
                complaints.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None
            ),
        )
        visitor = Visitor(page=page, context=context, url=running_service["api_url"], complaints=complaints)
        visitors.append(visitor)
        return visitor

    yield visit
    for index, visitor in enumerate(visitors):
        if request.node.stash.get(FAILED, False):
            visitor.picture(f"failed-{request.node.name}-{index}")
        visitor.context.close()
    assert [said for visitor in visitors for said in visitor.complaints] == []


@pytest.fixture
def admin(visit, running_service):
    """The administrator's browser, logged in."""
    visitor = visit()
    visitor.log_in(running_service["admin_user"], running_service["admin_password"])
    return visitor
