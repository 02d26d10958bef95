"""PostgreSQL on several hosts: the service follows the one that can be written, through a failover."""

import subprocess
from dataclasses import replace
from urllib.parse import unquote, urlsplit

import psycopg
import pytest
from django.db import connections
from django.db.utils import ConnectionHandler

from localcluster import servers
from localcluster.ports import LOOPBACK, free_ports
from localcluster.supervisor import clean_environment
from osmo_topology import settings as own_settings
from tests.servers.conftest import SECONDS


@pytest.fixture
def as_default():
    """Makes a connection the default one of Django, which reads its own types through that name."""
    usual = connections["default"]

    def replace_default(connection):
        connections["default"] = connection

    yield replace_default
    connections["default"] = usual


@pytest.fixture
def home(tmp_path):
    own = servers.Home.make(tmp_path / "home")
    yield own
    own.remove()


def test_the_service_follows_the_server_that_can_be_written(home, supervisor, django_db_blocker, as_default):
    primary = servers.start_postgres(supervisor, home, durable=False)
    standby = start_standby(supervisor, home, primary)
    both = primary.replace(f"@{LOOPBACK}", f"@{LOOPBACK}:{urlsplit(standby).port},{LOOPBACK}")
    database = own_settings._database(f"{both}?target_session_attrs=read-write")
    common = {"TIME_ZONE": None, "ATOMIC_REQUESTS": False}
    connection = ConnectionHandler({"default": common | database})["default"]
    as_default(connection)
    with django_db_blocker.unblock():
        try:
            assert port_of(connection) == urlsplit(primary).port
            supervisor.stop_one("postgres")
            with psycopg.connect(standby, autocommit=True) as direct:
                direct.execute("SELECT pg_promote(true)")
            connection.close_if_unusable_or_obsolete()  # as each request and task begins
            assert port_of(connection) == urlsplit(standby).port
        finally:
            connection.close()


def port_of(connection):
    with connection.cursor() as cursor:
        cursor.execute("SELECT inet_server_port(), pg_is_in_recovery()")
        port, in_recovery = cursor.fetchone()
    assert not in_recovery
    return port


def start_standby(supervisor, home, primary):
    """A second server that follows the first; its URL."""
    data, parts = home.data / "standby", urlsplit(primary)
    account, (port,) = home.account, free_ports(1)
    subprocess.run(
        [
            *(home.postgres / "pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast", "--no-sync"),
            *("-h", LOOPBACK, "-p", str(parts.port), "-U", parts.username),
        ],
        env=clean_environment() | {"PGPASSWORD": unquote(parts.password)},
        cwd=home.data,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        check=True,
        capture_output=True,
        timeout=SECONDS,
    )
    first = supervisor.find("postgres").command
    arguments = [str(data) if part == str(home.data / "postgres") else part for part in first.argv]
    arguments[arguments.index("-p") + 1] = str(port)
    child = supervisor.start(replace(first, name="standby", argv=arguments))
    url = parts._replace(netloc=f"{parts.username}:{parts.password}@{LOOPBACK}:{port}").geturl()
    supervisor.wait_ready(child, servers._postgres_probe(url), seconds=SECONDS)
    return url
