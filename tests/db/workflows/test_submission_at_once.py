"""Submissions at the same moment: numbers are given once, a repeated key makes one workflow."""

import threading

import pytest
from django.contrib.auth.models import User
from django.db import connections

from pools.models import Backend
from scheduling.errors import Conflict
from tests.api.workflows.specs import alone, text
from tests.factories import PoolFactory
from workflows.models import Task, Workflow
from workflows.submission import submit as submission
from workflows.submission.request import Mode, SubmissionRequest

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_broker(settings):
    settings.CELERY_BROKER_URL = "memory://"


@pytest.fixture
def ann():
    return User.objects.create_user("ann")


def request(user, **changes):
    values = {
        "pool_name": "h100",
        "text": text(alone()),
        "variables": (),
        "string_variables": (),
        "user": user,
        "priority": "NORMAL",
        "labels": (),
        "env_vars": (),
        "mode": Mode.SUBMIT,
        "uploaded_template": "",
        "idempotency_key": None,
        "request_id": "r",
    }
    return SubmissionRequest(**{**values, **changes})


def at_once(count, act):
    """Run ``act`` in several threads that start together; returns what each gave or raised."""
    barrier = threading.Barrier(count, timeout=20)
    results = [None] * count

    def run(place):
        try:
            barrier.wait()
            results[place] = act()
        except Exception as error:  # noqa: BLE001 -- handed to the test
            results[place] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return results


def test_each_submission_gets_a_number_of_its_own(ann):
    PoolFactory(name="h100")
    replies = at_once(8, lambda: submission.submit(request(ann)))
    assert sorted(reply["name"] for reply in replies) == [f"train-{n}" for n in range(1, 9)]
    assert Workflow.objects.count() == Task.objects.count() == 8


def test_one_key_at_the_same_moment_makes_one_workflow(ann):
    PoolFactory(name="h100")
    replies = at_once(6, lambda: submission.submit(request(ann, idempotency_key="k")))
    assert replies == [replies[0]] * 6
    assert replies[0]["name"] == "train-1"
    assert Workflow.objects.count() == Task.objects.count() == 1


def test_a_backend_disabled_while_the_checks_ran_takes_nothing(ann, monkeypatch):
    pool = PoolFactory(name="h100")
    write = submission.write

    def disable_first(accepted):
        Backend.objects.filter(pk=pool.backend_id).update(enabled=False)
        return write(accepted)

    monkeypatch.setattr(submission, "write", disable_first)
    with pytest.raises(Conflict):
        submission.submit(request(ann))
    assert not Workflow.objects.exists()


def test_a_failure_while_writing_leaves_nothing(ann, monkeypatch):
    PoolFactory(name="h100")

    def fail(*args, **kwargs):
        raise RuntimeError("the last rows")

    monkeypatch.setattr(Task.objects, "bulk_create", fail)
    with pytest.raises(RuntimeError):
        submission.submit(request(ann))
    assert not Workflow.objects.exists()
