"""The command reads a wide workflow by pages, and prints them as they come."""

import io
import json

import pytest

from osmo_topology_cli import watching
from osmo_topology_cli.show import Format, Printer
from osmo_topology_client import Client, group_pages
from osmo_topology_client.group_pages import complete_reply, explained_pages

WIDE = 5


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(group_pages, "GROUPS_A_PAGE", 2)
    monkeypatch.setattr(watching, "GROUPS_A_PAGE", 2)
    monkeypatch.setattr(watching.time, "sleep", lambda _: None)


def group(number, status="RUNNING", reason=None):
    name = f"g{number}"
    return {
        "group": name,
        "name": name,
        "status": status,
        "tasks": [{"status": status}],
        "waiting_reason": reason,
        "failure_message": None,
    }


class WideService(Client):
    """A service with one workflow; ``ends_at`` is the number of the request that finds it ended."""

    def __init__(self, *, waiting=(), ends_at=None):
        super().__init__("http://127.0.0.1:9")
        self.waiting, self.ends_at = waiting, ends_at
        self.requests = []

    def get(self, *address, limit, offset):
        self.requests.append((address[-1], offset))
        ended = self.ends_at is not None and len(self.requests) >= self.ends_at
        status = "COMPLETED" if ended else "RUNNING"
        groups = [group(n, status, "No room." if n in self.waiting else None) for n in range(WIDE)]
        if address[-1] == "explain":
            groups = [groups[n] for n in self.waiting]
        page = groups[offset : offset + limit]
        return {
            "name": "w-1",
            "status": status,
            "groups": page,
            "more_entries": offset + limit < len(groups),
        }


def test_each_page_has_the_explanations_of_its_groups_and_no_more_is_read():
    service = WideService(waiting=(0, 3, 4))
    pages = explained_pages(service, "w-1")
    page, waits = next(pages)
    assert ([row["name"] for row in page["groups"]], "g0" in waits) == (["g0", "g1"], True)
    assert service.requests == [("w-1", 0), ("explain", 0)]
    rest = [([row["name"] for row in page["groups"]], sorted(waits)) for page, waits in pages]
    assert rest == [(["g2", "g3"], ["g3"]), (["g4"], ["g4"])]


def test_a_group_without_an_explanation_yet_is_shown_without():
    service = WideService(waiting=(0,))
    service.waiting = (0,)
    pages = explained_pages(service, "w-1")
    next(pages)
    service.waiting = (2,)
    assert [len(page["groups"]) for page, _ in pages] == [2, 1]


def test_programs_get_all_groups_in_one_reply():
    service = WideService()
    reply = complete_reply(group_pages.group_pages(service, "w-1"))
    assert [row["name"] for row in reply["groups"]] == [f"g{n}" for n in range(WIDE)]
    assert reply["more_entries"] is False


@pytest.mark.parametrize("ends_at", [1, 2, 3, 4, 5])
def test_a_watch_asks_for_a_page_at_a_time_and_ends_with_all_groups(ends_at):
    out = io.StringIO()
    service = WideService(ends_at=ends_at)
    code = watching.watch(service, "w-1", printer=Printer(format=Format.JSON, out=out), interval=2.0)
    changes = [json.loads(line) for line in out.getvalue().splitlines()]
    assert code == 0
    assert [offset for _, offset in service.requests][: ends_at - 1] == [0, 2, 4, 0][: ends_at - 1]
    assert [offset for _, offset in service.requests][-3:] == [0, 2, 4]
    ends = [change["group"] for change in changes if change["status"] == "COMPLETED"]
    assert ends == [*(f"g{n}" for n in range(WIDE)), None]
