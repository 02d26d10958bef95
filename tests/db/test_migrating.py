"""A change of the schema gives way to the service, and to another one that runs already."""

import os
import subprocess
import sys
import time
from threading import Thread

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, models, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.models.signals import pre_migrate

from localcluster.directories import CHECKOUT
from localcluster.ports import free_ports
from web.database.migrating import ADVISORY_KEY, BuildIndex, LockTables, alone, bounded, patiently


def setting(name):
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return cursor.fetchone()[0]


@pytest.fixture
def somebody(transactional_db):
    """Another session of the same database."""
    given = connection.settings_dict
    with psycopg.connect(
        host=given["HOST"],
        port=given["PORT"],
        user=given["USER"],
        password=given["PASSWORD"],
        dbname=given["NAME"],
    ) as other:
        yield other


def test_each_statement_of_a_migration_is_bounded_and_those_after_it_are_as_before(db, settings):
    names = ("lock_timeout", "statement_timeout")
    before, during = [setting(name) for name in names], []

    def look(**_):
        during.append([setting(name) for name in names])

    pre_migrate.connect(look, weak=False)
    try:
        call_command("migrate", verbosity=0)
    finally:
        pre_migrate.disconnect(look)
    assert during[0] == ["4s", "1min"]
    assert [setting(name) for name in names] == before == ["0", "30s"]


def test_a_change_that_gets_no_lock_lets_others_pass_and_is_done_later(somebody):
    somebody.execute("LOCK TABLE pools_node IN ACCESS SHARE MODE")
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        somebody.rollback()

    def change():
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE pools_node ALTER COLUMN name SET NOT NULL")

    with bounded(connection, lock_seconds=0.05, statement_seconds=5):
        patiently(change, sleep=pause)
    assert len(pauses) == 1


def wait_for_lock(pid):
    """Return when a session waits for a lock."""
    deadline = time.monotonic() + 10
    with connection.cursor() as cursor:
        while not cursor.execute("SELECT FROM pg_locks WHERE pid = %s AND NOT granted", [pid]).rowcount:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_read_that_waits_for_a_migration_which_waits_for_it_is_answered(somebody):
    pid = somebody.info.backend_pid
    answers, threads = [], []

    def read():
        answers.append(somebody.execute("SELECT count(*) FROM pools_pool").fetchone())
        somebody.rollback()

    def change():
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("ALTER TABLE pools_pool ALTER COLUMN name SET NOT NULL")
            if not threads:
                threads.append(Thread(target=read))
                threads[0].start()
                wait_for_lock(pid)
            cursor.execute("ALTER TABLE pools_node ALTER COLUMN name SET NOT NULL")

    pauses = []
    somebody.execute("LOCK TABLE pools_node IN ACCESS SHARE MODE")
    with bounded(connection, lock_seconds=4, statement_seconds=30):
        patiently(change, sleep=lambda seconds: (pauses.append(seconds), threads[0].join()))
    assert (answers, len(pauses)) == ([(0,)], 1)


def lock(*models):
    """Run the operation as a migration does, in its transaction; returns what then holds a lock alone."""
    operation = LockTables(*models)
    state = MigrationLoader(None).project_state()
    with connection.schema_editor(atomic=True) as editor:
        operation.database_forwards("pools", editor, state, state)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT relation::regclass::text FROM pg_locks WHERE pid = pg_backend_pid()"
                " AND mode = 'AccessExclusiveLock'"
            )
            return {table for (table,) in cursor}


def test_tables_are_taken_once_all_of_them_are_free(somebody, monkeypatch):
    somebody.execute("LOCK TABLE pools_node IN ACCESS SHARE MODE")
    tries = []

    def pause(_):
        tries.append(somebody.execute("SELECT count(*) FROM pools_pool").fetchone())
        somebody.rollback()

    monkeypatch.setattr("web.database.migrating.time.sleep", pause)
    assert lock("pool", "node") == {"pools_pool", "pools_node"}
    assert tries == [(0,)], "a request passes between two tries"


def test_an_index_whose_building_got_no_lock_is_built_by_the_next_try(somebody):
    index = models.Index(fields=["name"], name="an_index")
    operation = BuildIndex("node", index)
    before = MigrationLoader(None).project_state()
    after = before.clone()
    operation.state_forwards("pools", after)
    valid = []

    def is_valid():
        with connection.cursor() as cursor:
            cursor.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = 'an_index'::regclass")
            return cursor.fetchone()[0]

    def build():
        with connection.schema_editor(atomic=False) as editor:
            operation.database_forwards("pools", editor, before, after)

    def pause(_):
        valid.append(is_valid())
        somebody.rollback()

    somebody.execute("LOCK TABLE pools_node IN ROW EXCLUSIVE MODE")
    try:
        with bounded(connection, lock_seconds=0.2, statement_seconds=5):
            patiently(build, sleep=pause)
        valid.append(is_valid())
        build()
        valid.append(is_valid())
    finally:
        somebody.rollback()
        with connection.schema_editor(atomic=False) as editor:
            operation.database_backwards("pools", editor, after, before)
    assert valid == [False, True, True]


def test_tables_that_are_never_all_free_are_given_up(somebody, monkeypatch):
    monkeypatch.setattr("web.database.migrating.TABLES_SECONDS", 0.05)
    somebody.execute("LOCK TABLE pools_node IN ACCESS SHARE MODE")
    with pytest.raises(OperationalError, match="could not obtain lock"):
        lock("pool", "node")


def test_a_lock_that_is_never_free_is_told(somebody):
    somebody.execute("LOCK TABLE pools_node IN ACCESS SHARE MODE")

    def change():
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE pools_node ALTER COLUMN name SET NOT NULL")

    with (
        bounded(connection, lock_seconds=0.05, statement_seconds=5),
        pytest.raises(OperationalError, match="lock timeout"),
    ):
        patiently(change, tries=2, sleep=lambda _: None)


def test_of_two_migrations_the_second_waits(somebody):
    somebody.execute("SELECT pg_advisory_lock(%s)", [ADVISORY_KEY])
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        somebody.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_KEY])
        somebody.commit()

    with alone(connection, sleep=pause):
        got = somebody.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_KEY]).fetchone()[0]
    assert (len(pauses), got) == (1, False)


def test_a_server_that_does_not_answer_is_named_in_one_sentence():
    (port,) = free_ports(1)
    away = os.environ | {"OSMO_DATABASE_URL": f"postgresql://osmo@127.0.0.1:{port}/osmo"}
    command = (sys.executable, "manage.py", "migrate", "--noinput")
    answer = subprocess.run(
        command, cwd=CHECKOUT, env=away, capture_output=True, text=True, check=False, timeout=120
    )
    assert answer.returncode == 1
    words = answer.stderr.splitlines()[-1]
    assert words.startswith("CommandError: PostgreSQL does not answer, so nothing was changed: ")
    assert f"port {port}" in words
