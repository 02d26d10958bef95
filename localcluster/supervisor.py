"""Start servers in order, watch them, stop them in reverse order.

Every server of the local cluster and of the service is a direct child of one supervisor, which
waits on it: an orphaned postmaster or a zombie that nobody reaps makes the next start fail (seen
with PostgreSQL 18: "lock file postmaster.pid already exists"). Invariants:

- nothing survives the supervisor: on its orderly end it stops children in reverse order, and on
  kill -9 the kernel signals them (``launch.py``). That signal is tied to the thread that started
  the child, so children are started from the main thread only;
- nothing is restarted silently: a server that ends by itself is an error that names it and shows
  the end of its log; a caller who killed it on purpose says ``restart``, and ``revival`` counts and says it;
- every wait has a limit;
- children live in sessions of their own, so Ctrl-C reaches the supervisor alone, which then stops
  them in order.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

LAUNCHER = Path(__file__).with_name("launch.py")
LOG_TAIL_LINES = 20
POLL_SECONDS = 0.02


class ServerFailed(Exception):
    """A server ended by itself or was not ready in time; the message ends with its log's last lines."""


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged user that a server runs as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Command:
    """How one server is started and stopped."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)  # added to a small clean environment
    cwd: Path | None = None
    account: Account | None = None  # None: the supervisor's own user
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 15
    death_signal: signal.Signals = signal.SIGKILL  # sent by the kernel when the supervisor dies
    is_ending: Callable[[], bool] = field(default=lambda: False)  # serves nobody any more, and may stay so


@dataclass(slots=True)
class Child:
    """A running server."""

    command: Command
    process: subprocess.Popen[bytes]
    log: Path
    probe: Callable[[], str | None] | None = None  # what its readiness was waited for with

    @property
    def pid(self) -> int:
        return self.process.pid

    def failure(self, action: str) -> ServerFailed:
        return ServerFailed(f"{self.command.name} {action}\n{tail(self.log)}")

    def check(self) -> None:
        """Raise ServerFailed if the server has ended."""
        if (ending := self.ending()) is not None:
            raise self.failure(f"ended with {ending}; the end of {self.log}:")

    def ending(self) -> str | None:
        """Progress how the server ended, or None while it runs.

        It stays a zombie until it is stopped, so that its process group cannot be given to
        another program before what is left of it is killed.
        """
        result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is None:
            return None
        exited = result.si_code == os.CLD_EXITED
        return f"exit code {result.si_status}" if exited else signal.Signals(result.si_status).name


class Supervisor:
    """Children in the order of their start; use as a context manager."""

    def __init__(self, *, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.children: list[Child] = []
        log_dir.mkdir(parents=True, exist_ok=True)

    def start(self, command: Command) -> Child:
        """Start one server; its output is appended to ``<log_dir>/<name>.log``."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("servers are started from the main thread: they die with the starting thread")
        account = command.account
        identity = (str(account.uid), str(account.gid)) if account else ("-", "-")
        tie = (str(os.getpid()), str(int(command.death_signal)))
        log = self.log_dir / f"{command.name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCHER), *tie, *identity, *command.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=clean_environment() | dict(command.env),
                cwd=command.cwd or "/",
                start_new_session=True,
            )
        child = Child(command=command, process=process, log=log)
        self.children.append(child)
        return child

    def wait_ready(self, child: Child, probe: Callable[[], str | None], *, seconds: float) -> None:
        """Wait until ``probe`` returns None; any other value says what is still missing."""
        child.probe = probe
        deadline = time.monotonic() + seconds
        while True:
            child.check()
            if (missing := probe()) is None:
                return
            if time.monotonic() > deadline:
                raise child.failure(
                    f"was not ready after {seconds:.0f} s ({missing}); the end of {child.log}:"
                )
            time.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Raise ServerFailed if any server has ended by itself."""
        for child in self.children:
            child.check()

    def find(self, name: str) -> Child:
        return next(child for child in self.children if child.command.name == name)

    def stop_one(self, name: str, *, with_signal: signal.Signals | None = None) -> Command:
        """Stop one server on purpose and return its command, so that it can be started again."""
        child = self.find(name)
        _stop(child, with_signal or child.command.stop_signal)
        self.children.remove(child)
        return child.command

    def kill(self, name: str) -> None:
        """Kill a server and all of its session, as a crash would; ``restart`` brings it back."""
        os.killpg(self.find(name).pid, signal.SIGKILL)

    def restart(self, name: str, *, with_signal: signal.Signals | None = None) -> Child:
        """Stop one server, if it has not ended yet, and start it again in its place of the order."""
        old = self.find(name)
        place = self.children.index(old)
        _stop(old, with_signal or old.command.stop_signal)
        self.children.remove(old)
        new = self.start(old.command)
        self.children.remove(new)
        self.children.insert(place, new)
        return new

    def stop(self) -> None:
        """Stop every server, last started first; an interrupt during it does not cut it short."""
        with _signals_ignored():
            while self.children:
                _stop(self.children[-1], self.children[-1].command.stop_signal)
                self.children.pop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def clean_environment() -> dict[str, str]:
    """The variables that servers inherit: none that could point them at somebody's cluster or database."""
    inherited = ("HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER")
    return {"LC_ALL": "C.UTF-8"} | {name: os.environ[name] for name in inherited if name in os.environ}


def tail(log: Path) -> str:
    """The last lines of a log, indented, for an error message."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 16384))
        lines = file.read().decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]
    return "\n".join(f"    {line}" for line in lines) or "    (it is empty)"


def _stop(child: Child, with_signal: signal.Signals) -> None:
    """Signal, wait within the limit, then kill what is left of the server's session and reap it."""
    if child.ending() is None:
        child.process.send_signal(with_signal)
    deadline = time.monotonic() + child.command.stop_seconds
    while child.ending() is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    if child.ending() is None:
        print(
            f"{child.command.name} did not stop in {child.command.stop_seconds:.0f} s: killed",
            file=sys.stderr,
        )
    os.killpg(child.pid, signal.SIGKILL)  # the child leads its session: its workers go with it
    child.process.wait()


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Hold off interrupts; signal handlers can be set from the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
