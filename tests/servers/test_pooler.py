"""PgBouncer in transaction mode between the service and PostgreSQL."""

import time
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from doctor.rows import read_rows
from osmo_topology import settings as own_settings
from pools.preflight import servers
from tests.factories import NodeFactory, installation
from tests.identity.certificates import write_certificates
from tests.servers.conftest import SECONDS, default_database
from tests.web.conftest import started_web
from tests.worker.world import World, workflow_of
from web.access.services import make_token
from workflows.services.retention import remove_old


@pytest.fixture
def pooled(transactional_db, pooler):
    """The service's database through it, once one transaction after the other has another connection."""
    with default_database(PORT=str(pooler(mode="transaction"))) as own:
        deadline = time.monotonic() + SECONDS
        while server_process() == server_process():
            assert time.monotonic() < deadline, "the pooler keeps to one connection"
        yield own


def server_process():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def test_a_workflow_runs_to_its_end(pooled):
    world = World()
    group = world.group(pods=2)
    world.settle()
    world.finish(group)
    world.settle()
    assert workflow_of(group).status == "COMPLETED"
    assert world.cluster.objects == {}
    remove_old()


def test_the_consistency_check_reads_one_snapshot(pooled):
    world = World()
    group = world.group(pods=1)
    world.step()
    rows = read_rows(
        installation=installation(), clusters=None, mentioned=(), claimants=(), history=timedelta(hours=1)
    )
    assert list(rows.groups) == [group.pk]


def test_answers_that_read_row_after_row(pooled, client):
    """A cursor that outlives its transaction is not there on the next connection."""
    world = World()
    pool = world.pool(name="train")
    NodeFactory(cluster=pool.backend.cluster)
    group = world.group(pool=pool)
    headers = {"Authorization": f"Bearer {make_token(User.objects.create_superuser('ann'), name='t')}"}
    for limit in (1, 2):
        call = {"configs_dict": {"max_num_tasks": limit}}
        answer = client.patch("/api/configs/workflow", call, "application/json", headers=headers)
        assert answer.status_code == 200, answer.content
    for path in (
        "/api/resources?all_pools=true",
        f"/api/workflow/{group.workflow.name}",
        "/api/configs/history?limit=5",
        "/api/pool/train/topology",
    ):
        answer = client.get(path, headers=headers)
        assert answer.status_code == 200, (path, answer.content)


@pytest.mark.parametrize("bounded", [True, False])
def test_the_preflight_knows_whether_statements_are_bounded(transactional_db, pooler, bounded):
    """The limits of the service's connections are among the options that the pooler ignores."""
    with default_database(PORT=str(pooler(mode="transaction", bounded=bounded))):
        assert servers._bounded() is bounded


def test_the_web_server_answers(pooled, tmp_path, redis_url):
    World().pool(name="train")
    token = make_token(User.objects.create_superuser("ann"), name="t")
    with started_web(tmp_path, redis_url) as web:
        header = f"Authorization: Bearer {token}"
        for _ in range(3):
            assert web.json(header, path="/api/pool")[0] == 200
            assert web.json(header, path="/api/resources")[0] == 200
        status, body = web.json(path="/readyz")
    assert (status, body["database"], body["migrations"]) == (200, "ok", "ok")


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_migrations_past_it_are_refused_with_what_to_do(transactional_db, pooler, mode):
    with (
        default_database(PORT=str(pooler(mode=mode))),
        pytest.raises(CommandError, match="Migrations need PostgreSQL itself"),
    ):
        call_command("migrate", verbosity=0)
    call_command("migrate", verbosity=0)


def test_a_pooler_that_refuses_options_says_so(transactional_db, pooler):
    with (
        default_database(PORT=str(pooler(mode="transaction", ignored="extra_float_digits"))) as own,
        pytest.raises(OperationalError, match="unsupported startup parameter: options"),
    ):
        own.ensure_connection()


def test_the_servers_certificate_is_verified(transactional_db, pooler, tmp_path):
    """By PgBouncer's TLS, since the embedded PostgreSQL has none; what verifies is libpq for both."""
    authority, certificate, key = write_certificates(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    port = pooler(
        mode="session",
        lines=(
            "client_tls_sslmode = require",
            f"client_tls_cert_file = {certificate}",
            f"client_tls_key_file = {key}",
        ),
    )
    known, unknown = (
        own_settings._database(f"postgresql://h/d?sslmode=verify-full&sslrootcert={file}")["OPTIONS"]
        for file in (authority, write_certificates(other)[0])
    )
    with default_database(PORT=str(port), OPTIONS=known):
        assert server_process()
    with (
        default_database(PORT=str(port), OPTIONS=unknown) as own,
        pytest.raises(OperationalError, match="certificate verify failed"),
    ):
        own.ensure_connection()
