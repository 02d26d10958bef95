"""The program of the start barrier as a process, beside a DNS server."""

import signal
import socket
import subprocess
import sys
import time

import pytest

from barrier import COMMAND, MISCONFIGURED, NO_ADDRESS
from localcluster.directories import CHECKOUT
from localcluster.kubelet.image import Image, build
from localcluster.ports import LOOPBACK, free_ports
from tests.servers.conftest import command

DOMAIN = "osmo-group.team.svc"
SEARCH = "team.svc.corp.example svc.corp.example corp.example"
SECONDS = 60


class Dns:
    """dnsmasq; its log has a line for each question."""

    def __init__(self, supervisor, directory):
        (self.port,) = free_ports(1)
        self.hosts, self.records = directory / "hosts", 0
        self.hosts.mkdir()
        directory.chmod(0o755)
        self.child = supervisor.start(
            command(
                "dnsmasq",
                *(
                    "--no-daemon",
                    "--conf-file=/dev/null",
                    "--pid-file=",
                    "--no-resolv",
                    "--no-hosts",
                    "--log-queries",
                ),
                *(f"--port={self.port}", f"--listen-address={LOOPBACK}", "--bind-interfaces"),
                *(f"--hostsdir={self.hosts}", "--local=/corp.example/"),
            )
        )
        supervisor.wait_ready(self.child, self._trouble, seconds=SECONDS)

    def _trouble(self):
        try:
            socket.create_connection((LOOPBACK, self.port), timeout=2).close()
        except OSError as error:
            return repr(error)
        return None

    def publish(self, *hosts, address="10.0.0.1"):
        self.records += 1
        lines = [f"{address} {host}.{DOMAIN}.corp.example\n" for host in hosts]
        hidden = self.hosts / f".{self.records}#"
        hidden.write_text("".join(lines))
        hidden.rename(self.hosts / f"{self.records}.hosts")

    def await_question(self, host):
        until = time.monotonic() + SECONDS
        while f" {host}." not in self.child.log.read_text():
            assert time.monotonic() < until, self.child.log.read_text()[-2000:]
            time.sleep(0.02)


@pytest.fixture
def dns(supervisor, tmp_path):
    return Dns(supervisor, tmp_path)


class Barrier:
    """Starts the program for task ``own`` of a gang."""

    def __init__(self, directory, port):
        self.directory, self.port, self.host = directory, port, "own"
        self.ended, self.message = directory / "ended", directory / "message"
        self.resolv = directory / "resolv.conf"
        self.resolve_with(LOOPBACK)
        self.begin_with((sys.executable, *COMMAND[1:]), cwd=CHECKOUT)

    def begin_with(self, command, **place):
        self.command, self.place = command, place

    def resolve_with(self, *servers):
        lines = [f"nameserver {server}" for server in servers]
        self.resolv.write_text("\n".join([f"search {SEARCH}", *lines, "options ndots:5"]) + "\n")

    def start(self, *peers, limit=SECONDS):
        names = self.directory / "peers"
        names.write_text("".join(f"{host} task-{host}\n" for host in ("own", *peers)))
        return subprocess.Popen(
            [
                *(*self.command, "--peers", names, "--ended", self.ended),
                *("--host", self.host, "--domain", DOMAIN, "--limit", str(limit), "--message", self.message),
                *("--resolv-conf", self.resolv, "--dns-port", str(self.port)),
            ],
            **self.place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *peers, limit=SECONDS):
        process = self.start(*peers, limit=limit)
        output, _ = process.communicate(timeout=2 * SECONDS)
        return process.returncode, output


@pytest.fixture
def barrier(dns, tmp_path):
    return Barrier(tmp_path, dns.port)


def test_it_ends_when_all_peers_have_addresses(dns, barrier):
    dns.publish("own", "a", "b")
    assert barrier.run("a", "b") == (0, "Every peer has had an address (2).\n")
    assert not barrier.message.exists()


def test_the_services_image_has_it(dns, barrier, tmp_path):
    directory = build(CHECKOUT, tmp_path / "image")
    image = Image.read(directory)
    barrier.begin_with(COMMAND, cwd=image.workdir, env={**image.environment, "LC_ALL": "C.UTF-8"})
    dns.publish("own", "a")
    assert barrier.run("a") == (0, "Every peer has had an address (1).\n")


def test_it_waits_for_a_peer_that_is_late(dns, barrier):
    dns.publish("own", "a")
    process = barrier.start("a", "late")
    dns.await_question("late")
    assert process.poll() is None
    dns.publish("late")
    assert process.communicate(timeout=2 * SECONDS)[0] == "Every peer has had an address (2).\n"
    assert process.returncode == 0


def test_addresses_of_ipv6_count(dns, barrier):
    dns.publish("own", "a", address="fd00::1")
    assert barrier.run("a")[0] == 0


def test_after_its_limit_it_names_the_peers_without_an_address(dns, barrier):
    dns.publish("own", "b")
    code, output = barrier.run("a", "b", "c", limit=1)
    want = "After 1 s 2 of 3 peers had no address: task-a, task-c."
    assert (code, output, barrier.message.read_text()) == (NO_ADDRESS, f"{want}\n", want)


def test_many_missing_peers_are_counted_and_some_named(dns, barrier):
    there, missing = [f"there-{n}" for n in range(150)], [f"gone-{n}" for n in range(80)]
    dns.publish("own", *there)
    code, _ = barrier.run(*missing, *there, limit=1)
    assert code == NO_ADDRESS
    message = barrier.message.read_text()
    assert message.startswith("After 1 s 80 of 230 peers had no address: task-gone-0, task-gone-1, ")
    assert message.endswith(", task-gone-9 and 70 more.")


def test_nobody_waits_for_a_peer_that_has_ended(dns, barrier):
    dns.publish("own", "a")
    barrier.ended.write_text("early")
    process = barrier.start("early", "a", "b")
    dns.await_question("b")
    barrier.ended.write_text("early b")
    process.communicate(timeout=2 * SECONDS)
    assert process.returncode == 0


def test_its_own_name_without_an_address_is_said(dns, barrier):
    dns.publish("a")
    assert barrier.run("a", limit=1)[0] == NO_ADDRESS
    assert f"Nor has this task's own name, own.{DOMAIN}." in barrier.message.read_text()


def test_a_silent_dns_server_is_followed_by_the_next(dns, barrier):
    dns.publish("own", "a")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.2", dns.port))
        barrier.resolve_with("127.0.0.2", LOOPBACK)
        assert barrier.run("a")[0] == 0


def test_dns_that_does_not_answer_is_said(tmp_path):
    (port,) = free_ports(1)
    barrier = Barrier(tmp_path, port)
    assert barrier.run("a", limit=1)[0] == NO_ADDRESS
    assert barrier.message.read_text().endswith(" No DNS server answers (127.0.0.1).")


def test_a_termination_signal_ends_it(dns, barrier):
    dns.publish("own")
    process = barrier.start("a")
    dns.await_question("a")
    process.terminate()
    process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + signal.SIGTERM


def test_files_that_cannot_be_used_have_an_exit_code_of_their_own(tmp_path):
    barrier = Barrier(tmp_path, 53)
    barrier.host = "stranger"
    assert barrier.run("a")[0] == MISCONFIGURED
    assert barrier.message.read_text().endswith("peers has no line for stranger.")
    barrier.host = "own"
    barrier.resolve_with()
    code, output = barrier.run("a")
    assert code == MISCONFIGURED
    assert output.startswith("The start barrier cannot begin: ")
    assert output.endswith("resolv.conf names no DNS server.\n")
