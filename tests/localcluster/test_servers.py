"""PostgreSQL and Redis of our own: unprivileged, on loopback, behind a password, and kept."""

from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from localcluster import servers
from localcluster.homes import remove_home
from localcluster.servers import Home, start_postgres, start_redis
from localcluster.supervisor import Supervisor


@pytest.fixture
def home(tmp_path):
    home = Home.make(tmp_path / "data")
    yield home
    home.remove()


def listens_on(pid):
    """Addresses, as the kernel writes them, of the sockets that a process listens on."""
    inodes = {
        p.readlink().name for p in Path(f"/proc/{pid}/fd").iterdir() if p.readlink().name.startswith("socket")
    }
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {line[1].split(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in inodes}


LOOPBACK = "0100007F"


def test_data_is_there_again_after_a_restart(home, tmp_path):
    for attempt in range(2):
        with Supervisor(log_dir=tmp_path / "logs") as supervisor:
            url, broker = start_postgres(supervisor, home, durable=True), start_redis(supervisor, home)
            with psycopg.connect(url, autocommit=True) as connection, redis.Redis.from_url(broker) as client:
                if attempt == 0:
                    connection.execute("CREATE TABLE kept (x int)")
                    client.set("kept", "1")
                assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
                assert client.get("kept") == b"1"


def test_neither_runs_as_root_nor_listens_beyond_loopback_nor_lets_anyone_in(home, tmp_path):
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        urls = start_postgres(supervisor, home, durable=False), start_redis(supervisor, home)
        for child in supervisor.children:
            assert Path(f"/proc/{child.pid}").stat().st_uid != 0
            assert listens_on(child.pid) == {LOOPBACK}
        postgres, broker = (urlsplit(url) for url in urls)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(
                host="127.0.0.1", port=postgres.port, user=postgres.username, dbname="osmo", password="x"
            )
        with redis.Redis(port=broker.port) as client, pytest.raises(redis.AuthenticationError):
            client.ping()


def test_a_temporary_home_is_removed(tmp_path):
    home = Home.make(tmp_path / "data")
    home.remove()
    assert home.data.exists() is not home.temporary


@pytest.mark.parametrize("path", ["/etc", "/var/tmp", "/var/tmp/other", "/var/tmp/osmo-topology-x/.."])
def test_no_other_directory_is_ever_removed(path):
    with pytest.raises(ValueError, match="not a directory made by this program"):
        remove_home(Path(path))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(servers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="make venv"):
        servers._packages()
