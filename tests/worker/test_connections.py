"""Worker threads keep their database connections from task to task, and drop broken ones."""

from types import SimpleNamespace

import pytest
from celery.signals import task_postrun, task_prerun
from django.db import connection

from osmo_topology.celery import app
from web.database.connections import KeptConnections


@pytest.fixture
def kept(transactional_db):
    fixup = KeptConnections(app)
    fixup.install()
    yield fixup
    task_prerun.disconnect(fixup.on_task_prerun)
    task_postrun.disconnect(fixup.on_task_postrun)


TASK = SimpleNamespace(request=SimpleNamespace(is_eager=False))


def backend_pid():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def test_the_application_uses_it():
    (fixup,) = app._fixups
    assert isinstance(fixup.worker_fixup, KeptConnections)


def test_a_connection_outlives_a_task(kept):
    first = backend_pid()
    kept.on_task_postrun(TASK)
    kept.on_task_prerun(TASK)
    assert backend_pid() == first


def test_a_connection_that_the_server_cut_is_replaced_before_the_next_task(kept):
    first = backend_pid()
    connection.connection.close()
    kept.on_task_postrun(TASK)
    kept.on_task_prerun(TASK)
    assert backend_pid() != first
