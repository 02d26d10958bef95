"""Submissions as their service takes them, and several of them together."""

import threading

from django.db import connections

from tests.api.workflows.specs import alone, text
from workflows.submission.request import Mode, SubmissionRequest


def submission_request(user, **changes):
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
    barrier = threading.Barrier(count, timeout=120)
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
        thread.join(200)
    assert not any(thread.is_alive() for thread in threads)
    return results
