"""Make the pictures of README.md and docs/ anew: ``python -m tests.browser.pictures`` while ``make up`` runs.

Use case 3 is submitted five times to pool ``gb200``, which holds it four times: those run, and the first is
photographed on the map; the fifth waits and is photographed with its reason. All are cancelled afterwards, so
the pool must be free at the start. The pictures replace those in docs/pictures; look at them.
"""

import json
import shutil
import sys
import time

import requests
from playwright.sync_api import sync_playwright

from localcluster.directories import CHECKOUT

PICTURES = CHECKOUT / "docs" / "pictures"
POOL = "gb200"
RUNNING = 4
"""How often the pool holds the workflow."""
SETTLED = 5
"""Seconds for which the reason of the one that waits has to stay the same before it is photographed."""


def main() -> None:
    run = json.loads((CHECKOUT / ".local" / "run.json").read_text())
    service = Service(run["api_url"], run["token"])
    names = []
    try:
        for _ in range(RUNNING):
            names.append(service.submit())
            service.wait(names[-1], lambda workflow: workflow["status"] == "RUNNING")
        names.append(service.submit())
        service.wait_for_one_reason(names[-1])
        photograph(run, running=names[0], waiting=names[-1])
    finally:
        service.cancel(names)


class Service:
    """The REST interface of the service that ``make up`` started."""

    def __init__(self, url, token):
        self.url = url
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token}"

    def submit(self):
        text = (CHECKOUT / "examples" / "use-case-3.yaml").read_text()
        reply = self.session.post(f"{self.url}/api/pool/{POOL}/workflow", json={"file": text}, timeout=30)
        reply.raise_for_status()
        return reply.json()["name"]

    def workflow(self, name):
        return self.session.get(f"{self.url}/api/workflow/{name}", timeout=30).json()

    def wait(self, name, is_so):
        deadline = time.monotonic() + 60
        while not is_so(self.workflow(name)):
            if time.monotonic() > deadline:
                sys.exit(f"{name} is {self.workflow(name)['status']}; is pool {POOL} free?")
            time.sleep(0.5)

    def wait_for_one_reason(self, name):
        """Wait until the reason names no room and has not changed for some seconds."""
        last, since = "", time.monotonic()

        def settled(workflow):
            nonlocal last, since
            reason = workflow["groups"][0]["waiting_reason"] or ""
            if reason != last:
                last, since = reason, time.monotonic()
            return "room" in reason and time.monotonic() - since > SETTLED

        self.wait(name, settled)

    def cancel(self, names):
        for name in names:
            self.session.post(f"{self.url}/api/workflow/{name}/cancel", json={}, timeout=30)


def photograph(run, *, running, waiting):
    program = shutil.which("chromium") or shutil.which("chromium-browser") or sys.exit("there is no Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1240, "height": 720}, color_scheme="light")
        page.goto(f"{run['api_url']}/ui/login?next=/ui/pools/{POOL}/map%3Fworkflow={running}")
        page.get_by_label("Name").fill(run["admin_user"])
        page.get_by_label("Password").fill(run["admin_password"])
        page.get_by_role("button", name="Log in").click()
        page.get_by_text("as asked").first.wait_for()
        bottom = page.locator("#live-map svg").bounding_box()
        size = {"x": 0, "y": 0, "width": 1240, "height": bottom["y"] + bottom["height"] + 8}
        page.screenshot(path=PICTURES / "map.png", full_page=True, clip=size, animations="disabled")
        page.goto(f"{run['api_url']}/ui/workflows/{waiting}")
        page.get_by_text("Would it fit?").first.click()
        page.get_by_role("cell", name=running).first.wait_for()
        box = page.get_by_text("Evidence").first.bounding_box()
        size = {"x": 0, "y": 0, "width": 1240, "height": box["y"] + box["height"] + 32}
        page.screenshot(path=PICTURES / "why.png", full_page=True, clip=size, animations="disabled")
        browser.close()


if __name__ == "__main__":
    main()
