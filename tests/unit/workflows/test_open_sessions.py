"""What a process does for its sessions and forwards all at once, whatever fails meanwhile."""

import asyncio
from dataclasses import asdict, replace
from json import dumps
from types import SimpleNamespace

import pytest

from scheduling.errors import Busy
from workflows.sessions import announced, forward_state, open_sessions
from workflows.sessions.announced import AnnouncedKeys
from workflows.sessions.open_session import OpenSession, SessionLogin
from workflows.sessions.open_sessions import OpenSessions
from workflows.sessions.tickets import CONNECTION, EXEC, PodTarget, Ticket

TARGET = PodTarget(
    workflow="00000000-0000-0000-0000-000000000000",
    workflow_name="train-1",
    submitted_by="ann",
    pool="train",
    backend=1,
    group="00000000-0000-0000-0000-000000000001",
    task="t",
    retry=0,
    namespace="osmo",
    pod="p",
    uid="u",
    container="t",
)


def ticket(kind=EXEC, **fields):
    return Ticket(kind=kind, user=1, username="ann", address="127.0.0.1", target=TARGET, **fields)


LOOKED_EVERY = open_sessions.CHECK_SECONDS


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(open_sessions, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(announced, "PAUSE", 0.01)


def test_what_is_promised_of_a_lost_right_and_a_killed_process_follows_from_how_often_is_looked():
    """As docs/reference/exec.md says it: within 10 seconds, and half a minute."""
    assert 2 * LOOKED_EVERY <= 10
    assert forward_state.OPEN_SECONDS + 2 * LOOKED_EVERY <= 30


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyError("pool"), TypeError("None")])
def test_a_look_that_fails_is_neither_the_last_nor_in_the_way_of_the_others(monkeypatch, error):
    rounds = []

    def broken(sessions):
        rounds.append(1)
        raise error

    def good(sessions):
        return dict.fromkeys(sessions, "over") if len(rounds) > 2 else {}

    monkeypatch.setattr(open_sessions, "CHECKS", (broken, good))

    async def ending():
        process, session = OpenSessions(), OpenSession(ticket(CONNECTION), SessionLogin())
        await process.enter(session)
        try:
            return await asyncio.wait_for(session.over, 60)
        finally:
            process.leave(session)

    assert asyncio.run(ending()) == ("over", 1000)


def test_connections_of_all_forwards_of_a_user_are_bounded_and_others_are_not_hindered():
    async def fill():
        process = OpenSessions()
        for number in range(64):
            await process.enter(OpenSession(ticket(CONNECTION, session=f"f{number // 20}"), SessionLogin()))
        with pytest.raises(Busy, match="Your forwards have as many connections as may be"):
            await process.enter(OpenSession(ticket(CONNECTION, session="new"), SessionLogin()))
        await process.enter(OpenSession(replace(ticket(CONNECTION, session="other"), user=2), SessionLogin()))

    asyncio.run(fill())


def test_one_call_asks_for_the_keys_of_all_connections_that_wait(monkeypatch):
    calls = []
    content = dumps(asdict(ticket(CONNECTION)))

    def use_keys(keys):
        calls.append(len(keys))
        return [content if len(calls) > 2 else None for _ in keys]

    monkeypatch.setattr(announced, "use_keys", use_keys)

    async def waiting():
        keys, socket = AnnouncedKeys(), SimpleNamespace(has_left=False)
        asks = [keys.ticket(socket, key=f"k{n}", user=1, workflow="train-1") for n in range(30)]
        return await asyncio.wait_for(asyncio.gather(*asks), 5)

    assert len(asyncio.run(waiting())) == 30
    assert calls == [30, 30, 30]
