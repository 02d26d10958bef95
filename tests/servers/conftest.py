"""Servers as administrators run them, from Debian's packages, before and beside those of every test run."""

import os
import socket
from contextlib import contextmanager

import pytest
from django.db import connections

from localcluster import debian
from localcluster.ports import LOOPBACK, free_ports
from localcluster.supervisor import Command, Supervisor

SECONDS = 120


def program(name):
    """The path of a program of these packages; the test is skipped where there is none."""
    path = debian.program(name)
    if path is None and os.environ.get("OSMO_DEBIAN") == "needed":
        pytest.fail(f"{name} was not unpacked")
    if path is None:
        pytest.skip(f"{name} is not here: make debian")
    return str(path)


def command(name, *arguments, **more):
    """How such a program is started."""
    env = {"LD_LIBRARY_PATH": debian.library_path(), **more.pop("env", {})}
    return Command(name=name, argv=[program(name), *arguments], env=env, **more)


@pytest.fixture
def supervisor(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    with Supervisor(log_dir=logs) as own:
        yield own


@pytest.fixture
def pooler(supervisor, tmp_path):
    """Start PgBouncer before the database of the tests; its port.

    Every transaction gets the next one of three connections to the server, so nothing that a session keeps
    is there again by luck.
    """

    def start(*, mode, ignored="options", bounded=True, lines=()):
        database = connections["default"].settings_dict
        (port,) = free_ports(1)
        server = " ".join(
            f"{name}={value}"
            for name, value in {
                "host": database["HOST"],
                "port": database["PORT"],
                "dbname": database["NAME"],
                "user": database["USER"],
                "password": f"'{database['PASSWORD']}'",
                "connect_query": f"'SET statement_timeout = {30000 if bounded else 0}'",
            }.items()
        )
        content = [
            "[databases]",
            f"{database['NAME']} = {server}",
            "[pgbouncer]",
            f"listen_addr = {LOOPBACK}",
            f"listen_port = {port}",
            "unix_socket_dir =",
            "auth_type = any",
            f"pool_mode = {mode}",
            "default_pool_size = 3",
            "min_pool_size = 3",
            "server_round_robin = 1",
            "max_client_conn = 100",
            f"ignore_startup_parameters = {ignored}",
            *(["user = nobody"] if os.geteuid() == 0 else []),
            *lines,
        ]
        file = tmp_path / "pgbouncer.ini"
        file.write_text("\n".join(content) + "\n")
        file.chmod(0o600)
        child = supervisor.start(command("pgbouncer", str(file), cwd=tmp_path))
        supervisor.wait_ready(child, lambda: listening(port), seconds=SECONDS)
        return port

    return start


def listening(port):
    """None once somebody listens there, or why not."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=2).close()
    except OSError as error:
        return repr(error)
    return None


@contextmanager
def default_database(**changes):
    """Let this process reach its database in another way."""
    settings = connections["default"].settings_dict
    before = {name: settings[name] for name in changes}
    connections.close_all()
    settings.update(changes)
    try:
        yield connections["default"]
    finally:
        connections.close_all()
        settings.update(before)
