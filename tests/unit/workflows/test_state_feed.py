"""One process reads each watched workflow once, however many watch it; the rows are played here."""

import asyncio
from contextlib import aclosing
from uuid import UUID

import pytest
from django.db import OperationalError

from web.database import row_threads
from workflows import state_feed
from workflows.state_feed import GroupState, StateFeed, WorkflowState, rest_seconds

FIRST, SECOND = UUID(int=1), UUID(int=2)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(state_feed, "READ_SECONDS", 0.02)
    monkeypatch.setattr(state_feed, "AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(row_threads, "close_old_connections", lambda: None)


def state_of(status, *, is_over=False):
    group = GroupState(
        name="g",
        status=status,
        attempt=1,
        waiting_reason="",
        waiting_since=None,
        placement_result=None,
        released_at=None,
        task_counts={status: 1},
        nodes=(),
    )
    return WorkflowState(name="w-1", status=status, groups=(group,), more_groups=False, is_over=is_over)


class PlayedRows:
    """The rows of each workflow, one state for each read; the last stays. ``reads`` has what was read."""

    def __init__(self, states):
        self.states, self.reads, self.rendered = states, [], []

    def read(self, workflows):
        self.reads.append(list(workflows))
        if isinstance(self.states[FIRST][0], Exception):
            raise self.states[FIRST].pop(0)
        return {
            key: states.pop(0) if len(states) > 1 else states[0]
            for key, states in self.states.items()
            if key in workflows
        }

    def render(self, state, version):
        self.rendered.append(version)
        return state.status.encode() if state else b"removed"

    def feed(self):
        return StateFeed(read=self.read, render=self.render)


async def texts(feed, workflow=FIRST, *, most=100):
    """The states that a watcher gets, up to so many."""
    got = []
    async with aclosing(feed.states(workflow, seconds=30)) as states:
        async for state in states:
            got.append(state.text)
            if len(got) == most:
                break
    return got


def test_watchers_of_one_workflow_share_its_reads_and_its_texts():
    rows = PlayedRows({FIRST: [state_of("PENDING"), state_of("RUNNING"), state_of("DONE", is_over=True)]})

    async def run():
        feed = rows.feed()
        return await asyncio.gather(*(texts(feed) for _ in range(50)))

    assert asyncio.run(run()) == [[b"PENDING", b"RUNNING", b"DONE"]] * 50
    assert (len(rows.reads), len(rows.rendered)) == (3, 3)


def test_watched_workflows_are_read_together():
    rows = PlayedRows({key: [state_of("DONE", is_over=True)] for key in (FIRST, SECOND)})

    async def run():
        feed = rows.feed()
        return await asyncio.gather(texts(feed, FIRST), texts(feed, SECOND))

    assert asyncio.run(run()) == [[b"DONE"], [b"DONE"]]
    assert rows.reads == [[FIRST, SECOND]]


def test_a_client_that_reads_slowly_misses_states_and_gets_the_last():
    rows = PlayedRows({FIRST: [state_of("A"), state_of("B"), state_of("C"), state_of("D", is_over=True)]})

    async def run():
        got, feed = [], rows.feed()
        quick_client = asyncio.create_task(texts(feed))
        async for state in feed.states(FIRST, seconds=30):
            got.append(state.text)
            await quick_client
        return got

    assert asyncio.run(run()) == [b"A", b"D"]


def test_nothing_is_read_when_nobody_watches_any_more():
    rows = PlayedRows({FIRST: [state_of("PENDING")]})

    async def run():
        feed = rows.feed()
        assert await texts(feed, most=1) == [b"PENDING"]
        await asyncio.sleep(0.1)
        reads = len(rows.reads)
        await asyncio.sleep(0.1)
        assert len(rows.reads) == reads
        assert await texts(feed, most=1) == [b"PENDING"]  # the next watcher begins anew

    asyncio.run(run())


def test_a_database_that_fails_is_asked_again():
    rows = PlayedRows({FIRST: [OperationalError("away"), state_of("DONE", is_over=True)]})
    assert asyncio.run(texts(rows.feed())) == [b"DONE"]


def test_a_read_that_cannot_go_on_ends_the_watches_so_that_clients_ask_again():
    rows = PlayedRows({FIRST: [state_of("PENDING"), RuntimeError("a fault")]})
    assert asyncio.run(texts(rows.feed())) == [b"PENDING"]


@pytest.mark.parametrize(
    ("rows", "watched", "want"),
    [(2, 1, 1.0), (9, 1000, 1.0), (10_000, 1, 1.0), (10_000, 10, 5.0), (10_000, 1000, 60.0)],
)
def test_a_wide_workflow_is_read_less_often_the_more_are_watched(monkeypatch, rows, watched, want):
    monkeypatch.setattr(state_feed, "READ_SECONDS", 1.0)
    assert rest_seconds(rows, watched) == want
