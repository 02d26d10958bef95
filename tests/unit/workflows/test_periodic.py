"""A periodic task is neither late behind other work, nor void by a clock, nor done too often."""

import pytest
import time_machine
from django.conf import settings

from osmo_topology.celery import EVERY, PARTS, app
from web.operation import periodic


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(periodic, "_ended", {})
    monkeypatch.setattr(periodic, "_began", {})


@pytest.mark.parametrize("task", sorted(EVERY))
def test_periodic_work_has_a_queue_of_its_own_and_no_expiry(task):
    options = app.amqp.router.route({}, task)
    assert options["queue"].name == periodic.QUEUE != settings.CELERY_TASK_DEFAULT_QUEUE
    assert "expires" not in app.conf.beat_schedule[task].get("options", {})


@pytest.mark.parametrize("task", sorted(EVERY | PARTS))
def test_periodic_work_knows_how_often_it_is_asked_for(task):
    app.loader.import_default_modules()
    assert isinstance(app.tasks[task], periodic.Periodic)
    assert app.tasks[task].every == (EVERY | PARTS)[task]


def test_work_that_piled_up_is_done_once():
    runs = []

    def run():
        runs.append(1)
        task.apply()  # asked for again while it goes on

    task = app.task(run, base=periodic.Periodic, name="piled", every=60.0)
    for _ in range(3):
        task.apply()
    assert runs == [1]
    task()
    assert runs == [1, 1]


def test_a_run_that_hangs_does_not_stop_its_work_for_ever(monkeypatch):
    now, runs = [1000.0], []
    monkeypatch.setattr(periodic.time, "monotonic", lambda: now[0])

    def run():
        runs.append(now[0])
        if len(runs) == 1:  # it hangs; messages go on to come
            for _ in range(2):
                now[0] += periodic.HUNG_SECONDS / 2
                task.apply()

    task = app.task(run, base=periodic.Periodic, name="hanging", every=60.0)
    task.apply()
    assert len(runs) == 2


def test_no_task_claims_a_time_limit_that_threads_do_not_have():
    app.loader.import_default_modules()
    limited = [name for name, task in app.tasks.items() if task.soft_time_limit or task.time_limit]
    assert limited == []


def test_beat_sends_at_a_steady_pace_whatever_the_time_of_day_does():
    now = [100.0]
    with time_machine.travel("2026-01-01", tick=False) as clock, pytest.MonkeyPatch.context() as patch:
        patch.setattr(periodic.time, "monotonic", lambda: now[0])
        sent = []
        patch.setattr(periodic.Steady, "apply_entry", lambda self, entry, producer: sent.append(entry.task))
        patch.setattr(periodic.Steady, "producer", None)
        beat = periodic.Steady(app=app)
        assert beat.tick() == min(EVERY.values())
        assert sorted(sent) == sorted(EVERY)
        clock.shift(-300)
        now[0] += min(EVERY.values())
        beat.tick()
        soonest = {task for task, seconds in EVERY.items() if seconds == min(EVERY.values())}
        assert set(sent[len(EVERY) :]) == soonest


def test_workers_serve_both_queues():
    assert set(app.amqp.queues.consume_from) == {settings.CELERY_TASK_DEFAULT_QUEUE, periodic.QUEUE}
