"""``make up`` keeps what it was told: through the end of every part, ``make down`` and a new start."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import redis

from localcluster import directories, homes, stack
from localcluster.directories import CHECKOUT
from localcluster.ports import LOOPBACK, lasting_ports
from localcluster.processes import Process
from localcluster.rest import Rest
from localcluster.revival import MOST, Revival
from localcluster.servers import Home, start_postgres, start_redis
from localcluster.supervisor import Command, ServerFailed, Supervisor
from tests.builders.waiting import until

WORKFLOW = """
workflow:
  name: lasting
  resources: {default: {gpu: 4}}
  tasks:
  - {name: a, image: alpine, command: [sleep, infinity]}
"""
SECONDS = 300


@pytest.fixture
def home(tmp_path):
    made = Home.make(tmp_path / "databases", lasting=True)
    yield made
    homes.remove_lasting(tmp_path / "databases")


def fragile(name):
    return Command(name=name, argv=[sys.executable, "-c", "raise SystemExit(3)"])


def test_databases_that_were_killed_have_what_was_written_at_the_next_start(home, tmp_path):
    addresses = set()
    for attempt in range(2):
        with Supervisor(log_dir=tmp_path / "logs") as supervisor:
            url, broker = start_postgres(supervisor, home, durable=True), start_redis(supervisor, home)
            addresses.add((url, broker))
            with psycopg.connect(url, autocommit=True) as connection, redis.Redis.from_url(broker) as client:
                if attempt == 0:
                    connection.execute("CREATE TABLE written (x int)")
                    client.set("written", "1")
                assert connection.execute("SELECT count(*) FROM written").fetchone() == (0,)
                assert client.get("written") == b"1"
            for child in supervisor.children:
                os.kill(child.pid, signal.SIGKILL)
        home = Home.make(tmp_path / "databases", lasting=True)
    assert len(addresses) == 1


def test_a_lock_whose_number_is_another_programs_does_not_keep_postgres_from_its_start(home, tmp_path):
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        start_postgres(supervisor, home, durable=True)
        broker = start_redis(supervisor, home)  # a process of the same account
        assert broker
        lock = home.data / "postgres" / "postmaster.pid"
        lines = lock.read_text().splitlines()
        supervisor.stop_one("postgres")
        home.write(lock, "\n".join([str(supervisor.find("redis").pid), *lines[1:]]) + "\n")
        start_postgres(supervisor, home, durable=True)


def test_a_home_that_nobody_else_can_enter_is_kept_where_they_can(tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    place = homes.lasting_home(private / "databases")
    assert place.parent == homes.LASTING
    assert place == homes.lasting_home(private / "databases")
    assert place != homes.lasting_home(private / "other")


def test_ports_stay_and_are_exchanged_only_where_another_program_has_them(tmp_path, capsys):
    file = tmp_path / "ports.json"
    first, second = lasting_ports(file, "web", "worker")
    with socket.create_server((LOOPBACK, first)):
        other, same = lasting_ports(file, "web", "worker")
    assert (other != first, same) == (True, second)
    assert f"another program uses port {first} of web" in capsys.readouterr().out
    assert lasting_ports(file, "web", "worker") == [other, second]


def test_a_part_is_started_again_three_times_and_then_everything_stops_with_its_name_and_log(tmp_path):
    lines = []
    with Supervisor(log_dir=tmp_path) as supervisor:
        supervisor.start(fragile("weak"))
        revival = Revival(supervisor, None, report=lines.append)
        with pytest.raises(ServerFailed, match=rf"weak ended with exit code 3 .*{MOST} times") as failure:
            until(lambda: revival.check() and False)
    assert str(tmp_path / "weak.log") in str(failure.value)
    assert revival.counts == {"weak": MOST}
    assert [f"{n} of at most 3 times" in line for n, line in enumerate(lines, start=1)] == [True] * MOST


def test_postgres_is_started_again_where_its_end_waits_for_connections(home, tmp_path):
    """Its SIGTERM, the signal of a plain `kill`, lets nobody in until everybody has left."""
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        url = start_postgres(supervisor, home, durable=True)
        revival = Revival(supervisor, None, report=lambda _: None)
        with psycopg.connect(url):
            os.kill(supervisor.find("postgres").pid, signal.SIGTERM)
            until(revival.check, seconds=30)
        psycopg.connect(url).close()
    assert revival.counts == {"postgres": 1}


class Site:
    """A stack of its own, as ``make up`` starts it, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def command(self, *arguments, **variables):
        answer = subprocess.run(
            [sys.executable, "-m", "localcluster", *arguments],
            cwd=CHECKOUT,
            env=os.environ | {"OSMO_LOCAL": str(self.directory)} | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * SECONDS,
        )
        return answer.returncode, answer.stdout + answer.stderr

    @property
    def run(self):
        return json.loads((self.directory / "run.json").read_text())

    @property
    def service(self):
        return Rest(api_url=self.run["api_url"], token=self.run["token"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("up") / "local")
    status, printed = made.command("up")
    assert status == 0, printed
    yield made
    made.command("clean")


def test_a_second_start_beside_the_first_says_so(tmp_path):
    site = Site(tmp_path / "local")
    site.directory.mkdir()
    directories.own(site.directory)
    status, printed = site.command("up")
    assert (status, printed) == (1, f"it is being started: {site.directory}/logs/up.log says how far it is\n")


@pytest.mark.deep
def test_the_preflight_leaves_no_question_open(site):
    report = site.service.get("/api/preflight")
    checks = [*report["installation"], *(check for entry in report["backends"] for check in entry["checks"])]
    assert [check for check in checks if check["status"] != "passed"] == []


@pytest.mark.deep
def test_what_an_administrator_changed_stays_over_down_and_up(site):
    site.service.call("PATCH", "/api/configs/pool/spines", {"configs_dict": {"allow_exec": True}})
    site.service.post("/api/configs/backend/plain", {"configs": {"description": "ours"}})
    site.service.call("DELETE", "/api/configs/pool/split", {})
    assert site.command("down") == (0, "stopped\n")
    status, printed = site.command("up")
    assert status == 0, printed
    assert site.service.get("/api/configs/pool/spines")["allow_exec"] is True
    assert site.service.get("/api/configs/backend/plain")["description"] == "ours"
    assert site.service.get("/api/configs/pool/split")["revision"] > 0  # what is missing is made again


@pytest.mark.deep
def test_nothing_is_lost_when_parts_are_killed_one_by_one_nor_over_down_and_up(site):
    before = site.run
    name = site.service.submit("spines", WORKFLOW)["name"]
    until(lambda: site.service.workflow(name)["status"] == "RUNNING", seconds=SECONDS)
    parts = [part for part in before["processes"] if part != "supervisor"]
    for part in parts:
        count = site.run["revived"].get(part, 0)
        pid = site.run["pids"][part]
        os.kill(pid, signal.SIGKILL)
        until(lambda: site.run["revived"].get(part, 0) > count, seconds=SECONDS)  # noqa: B023 -- run at once
        assert site.run["pids"][part] != pid
    until(lambda: site.service.workflow(name)["status"] == "RUNNING", seconds=SECONDS)
    another = site.service.submit("spines", WORKFLOW)["name"]
    until(lambda: site.service.workflow(another)["status"] == "RUNNING", seconds=SECONDS)

    assert site.command("down") == (0, "stopped\n")
    status, printed = site.command("up")
    assert status == 0, printed
    same = ("api_url", "token", "admin_password", "database_url", "redis_url", "kubeconfig", "data_dirs")
    assert {key: site.run[key] for key in same} == {key: before[key] for key in same}
    assert site.run["revived"] == {}
    assert site.service.workflow(name)["status"] == "RUNNING"
    assert site.service.workflow(another)["status"] == "RUNNING"

    Process(**site.run["processes"]["supervisor"]).kill()  # as a restart of the machine ends it
    status, printed = site.command("up")
    assert status == 0, printed
    assert site.service.workflow(name)["status"] == "RUNNING"
    site.service.cancel(name)
    until(lambda: site.service.workflow(name)["status"] == "FAILED_CANCELED", seconds=SECONDS)


@pytest.mark.deep
def test_what_was_created_in_somebodys_cluster_is_never_forgotten(tmp_path, plane, namespace):
    site = Site(tmp_path / "local")
    foreign = {"CLUSTER_KUBECONFIG": str(plane.kubeconfig("admin")), "BACKEND_NAMESPACE": namespace}
    try:
        assert site.command("up", **foreign)[0] == 0
        pool = {"backend": "default", "platforms": {"gpu": {}}, "default_platform": "gpu"}
        site.service.put("/api/configs/pool/theirs", {"configs": pool})
        name = site.service.submit("theirs", WORKFLOW)["name"]
        group = site.service.workflow(name)["groups"][0]["uuid"]
        assert site.command("down")[0] == 0

        assert site.command("up")[0] == 0  # with a cluster of its own, and the other one still in its care
        assert site.service.workflow(name)["groups"][0]["uuid"] == group
        until(lambda: reachable(site.service), seconds=SECONDS)
        site.service.cancel(name)
        until(lambda: site.service.workflow(name)["groups"][0]["released_at"], seconds=SECONDS)
        assert site.command("clean")[0] == 1
    finally:
        assert site.command("clean", "--forget")[0] == 0


def reachable(service):
    conditions = service.get("/api/configs/backend/default")["conditions"]
    return any(entry["type"] == "Reachable" and entry["status"] == "True" for entry in conditions)


def leave_data(directory):
    """The leavings of a start, in both places; the lasting home."""
    home = homes.lasting_home(directory / "databases")
    for folder in (home / "postgres", directory / "cluster" / "etcd", directory / "failed" / "demo"):
        folder.mkdir(parents=True)
    (directory / "token").write_text("t")
    run = directory / "demo-1"
    run.mkdir()
    (run / "owner.json").write_text("{}")
    return home


def test_all_data_are_removed_when_that_is_wanted_but_not_what_other_runs_have(tmp_path):
    site = Site(tmp_path / "local")
    home = leave_data(site.directory)
    assert site.command("clean")[0] == 0
    assert not home.exists()
    assert {path.name for path in site.directory.iterdir()} == {"failed", "demo-1"}


def test_data_that_say_what_is_in_somebodys_cluster_are_removed_only_by_a_word_more(tmp_path):
    site = Site(tmp_path / "local")
    home = leave_data(site.directory)
    (site.directory / stack.FOREIGN_CLUSTERS).write_text('["/home/ann/kubeconfig"]')
    status, printed = site.command("clean")
    assert (status, "/home/ann/kubeconfig" in printed, home.exists()) == (1, True, True)
    assert site.command("clean", "--forget")[0] == 0
    assert not home.exists()
