"""``/livez`` of a process without a web server tells a loop that turns from one that hangs."""

import time
from types import SimpleNamespace

import pytest

from web.operation import metrics, periodic, pulse


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    monkeypatch.setattr(pulse, "_checks", [])


@pytest.fixture
def later(monkeypatch):
    """Move the monotonic clock on."""

    def later(seconds):
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + seconds)

    return later


def livez():
    answers = []
    body = metrics._application({"PATH_INFO": "/livez"}, lambda status, headers: answers.append(status))
    return answers[0], b"".join(body).decode()


def test_a_process_whose_loop_turns_is_alive(later):
    loop = pulse.Loop("the loop")
    pulse.watch(loop.fault)
    assert livez() == ("200 OK", "ok\n")
    later(pulse.LOOP_SECONDS + 10)
    assert livez() == ("503 Service Unavailable", "the loop has not turned for 310 s\n")
    loop.turn()
    assert livez()[0] == "200 OK"


def test_a_worker_is_alive_until_all_its_threads_hang(later):
    threads = pulse.TaskThreads(2)
    pulse.watch(threads.fault)
    threads.begin("a")
    later(pulse.TASK_SECONDS + 10)
    threads.begin("b")
    assert livez()[0] == "200 OK"
    later(pulse.TASK_SECONDS + 10)
    assert livez()[0] == "503 Service Unavailable"
    threads.end("a")
    assert livez()[0] == "200 OK"


def test_each_entry_of_beat_is_a_turn_of_its_loop(later, monkeypatch):
    """One entry may wait long for a broker that is away; twelve of them must not add up to a hang."""
    entries = {name: SimpleNamespace(schedule=SimpleNamespace(run_every=SimpleNamespace(
        total_seconds=lambda: 1.0))) for name in ("a", "b")}  # fmt: skip
    scheduler = periodic.Steady.__new__(periodic.Steady)
    monkeypatch.setattr(periodic.Steady, "data", entries, raising=False)
    monkeypatch.setattr(periodic.Steady, "producer", None)
    monkeypatch.setattr(periodic.Steady, "apply_entry", lambda *_, **__: later(pulse.LOOP_SECONDS - 10))
    pulse.watch(periodic.BEAT.fault)
    scheduler.tick()
    assert livez()[0] == "200 OK"


def test_the_page_needs_no_token_and_shows_nothing_else(settings):
    settings.ENV = settings.ENV.model_copy(update={"metrics_token": "t" * 40})
    assert livez()[0] == "200 OK"
    answers = []
    metrics._application({"PATH_INFO": "/metrics"}, lambda status, headers: answers.append(status))
    assert answers == ["401 Unauthorized"]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_port_is_served_on_an_address_of_either_kind(host):
    server = metrics.listen(host, 0)
    assert server.server_address[0] == host
    server.server_close()
