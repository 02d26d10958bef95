"""The line of a session in the timeline, whatever was run, and in whatever order its ends come."""

import hashlib

import pytest
from structlog.testing import capture_logs

from tests.factories import TaskGroupFactory
from workflows.models import Event
from workflows.sessions.audit import SessionRecord
from workflows.sessions.tickets import EXEC, PodTarget, Ticket

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def redis(settings, redis_url):
    settings.CELERY_BROKER_URL = redis_url


@pytest.fixture
def record():
    group = TaskGroupFactory(pods=1, status="RUNNING")
    target = PodTarget(
        workflow=str(group.workflow.pk),
        workflow_name=group.workflow.name,
        submitted_by="ann",
        pool=group.workflow.pool_name,
        backend=group.backend.pk,
        group=str(group.pk),
        task="task-0",
        retry=0,
        namespace="osmo",
        pod="p",
        uid="u",
        container="task-0",
    )

    def record(*command):
        who = {"user": 1, "username": "ann", "address": "192.0.2.1"}
        return SessionRecord(Ticket(kind=EXEC, target=target, command=command, **who))

    return record


def line():
    return Event.objects.get(reason="Session").message


def test_a_long_command_is_cut_in_the_line_with_a_digest_and_complete_in_the_log(record):
    command = "a" * 8000
    with capture_logs() as logs:
        record(command).begin()
    digest = hashlib.sha256(command.encode()).hexdigest()
    assert line() == (
        f"ann from 192.0.2.1 ran {'a' * 1000}... (8,000 characters, SHA-256 {digest}) in the task."
    )
    assert logs[0]["command"] == command


def test_nothing_that_a_terminal_obeys_is_in_the_line(record):
    record("echo", "\x1b[2J\u202e\n").begin()
    assert "'\\x1b[2J\\u202e\\n'" in line()


def test_a_session_whose_end_comes_before_its_begin_has_no_line(record):
    cut = record("echo")
    cut.end(why="Cut.", received=0, sent=0)
    cut.begin()
    assert not Event.objects.exists()


def test_an_end_that_is_written_again_is_the_same_and_logged_once(record):
    session = record("echo")
    session.begin()
    with capture_logs() as logs:
        session.end(why="It ended well.", received=1, sent=2)
        first = line()
        session.end(why="It ended well.", received=1, sent=2)
    assert line() == first
    assert [entry["event"] for entry in logs] == ["session_ended"]
