"""The caller's side of jobs in child processes."""

import atexit
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from signal import SIGKILL, SIGXCPU

import structlog
from prometheus_client import Counter

from scheduling.errors import Unavailable
from web.children.fork_server import MARK, READY, STATUS

log = structlog.get_logger(__name__)

ChildFunction = Callable[[bytes], bytes]

JOBS = Counter(
    "osmo_web_jobs",
    "Jobs in processes of their own, by result: done, cpu, time, memory, answer, crash, error, unavailable.",
    ("result",),
)
START_SECONDS = 30.0
END_SECONDS = 5.0
PIECE = 64 * 1024
_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBounds:
    """The bounds of one job; ``memory`` and ``answer`` are bytes, CPU seconds are whole."""

    cpu_seconds: int
    seconds: float
    memory: int
    answer: int


class Exceeded(Exception):
    """A job met a ``bound``; the text is the end of a sentence, such as ``it takes longer than 10 s``."""

    def __init__(self, bound: str, text: str) -> None:
        super().__init__(text)
        self.bound = bound


class _ServerGone(Exception):
    """The server ended before the job did."""


class Children:
    """Runs jobs in children of one server, which starts with the first job."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """The server's process."""
        return self._server.pid if self._server else None

    def run(self, job: ChildFunction, payload: bytes, bounds: JobBounds) -> memoryview:
        """Run a module's function in a child. Raises Exceeded, Unavailable, RuntimeError where it raised."""
        result = "error"
        try:
            answer = self._tried_twice(job, payload, bounds)
            result = "done"
        except Exceeded as error:
            result = error.bound
            raise
        except Unavailable:
            result = "unavailable"
            raise
        finally:
            JOBS.labels(result).inc()
        return answer

    def close(self) -> None:
        """End the server and its children."""
        with self._lock:
            self._close()

    def _tried_twice(self, job: ChildFunction, payload: bytes, bounds: JobBounds) -> memoryview:
        for _ in range(2):
            try:
                return self._run(job, payload, bounds)
            except _ServerGone:
                log.warning("fork_server_gone", pid=self.pid)
        raise _unavailable()

    def _run(self, job: ChildFunction, payload: bytes, bounds: JobBounds) -> memoryview:
        own, childs = socket.socketpair()
        with own:
            with childs:
                self._send(job.__module__, childs)
            _wait_until_ready(own)
            until = time.monotonic() + bounds.seconds
            own.settimeout(bounds.seconds)
            head = {
                "function": f"{job.__module__}:{job.__name__}",
                "cpu_seconds": bounds.cpu_seconds,
                "memory": bounds.memory,
            }
            try:
                own.sendall(json.dumps(head).encode() + b"\n")
                own.sendall(payload)
                own.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it ended early; its status says why
            except TimeoutError as error:
                raise _late(bounds) from error
            answer = _received(own, bounds, until=until)
        return _result(answer, bounds)

    def _send(self, module: str, job_socket: socket.socket) -> None:
        """Hand a job's socket to the server, which is started if it is not there."""
        with self._lock:
            if self._control is not None:
                try:
                    socket.send_fds(self._control, [module.encode()], [job_socket.fileno()])
                except OSError:  # it ended since its last job
                    self._close()
                else:
                    return
            socket.send_fds(self._start(), [module.encode()], [job_socket.fileno()])

    def _start(self) -> socket.socket:
        own, servers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        file = Path(__file__).with_name("fork_server.py")
        try:
            with servers:
                self._server = subprocess.Popen(  # noqa: S603 -- our own file under our own interpreter
                    [sys.executable, "-I", "-X", "utf8", str(file), str(file.parents[2])],
                    stdin=servers.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={},  # nothing of ours for a job to find
                )
            own.settimeout(START_SECONDS)
            if not own.recv(16):
                raise ConnectionError("it ended")
            own.settimeout(None)
        except OSError as error:
            own.close()
            log.exception("fork_server_cannot_start", error=str(error))
            self._close()
            raise _unavailable() from error
        self._control = own
        return own

    def _close(self) -> None:
        if self._control is not None:
            self._control.close()  # by which the server ends, and its children with it
            self._control = None
        if self._server is not None:
            try:
                self._server.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            self._server = None


def _wait_until_ready(own: socket.socket) -> None:
    """Wait for the child, before which the server may have to import what the job needs."""
    own.settimeout(START_SECONDS)
    try:
        if own.recv(len(READY)) != READY:
            raise _ServerGone
    except ConnectionResetError as error:
        raise _ServerGone from error
    except TimeoutError as error:
        raise _unavailable() from error


def _received(own: socket.socket, bounds: JobBounds, *, until: float) -> bytearray:
    """Everything that comes before the end. Raises Exceeded."""
    answer = bytearray()
    most = 1 + bounds.answer + STATUS.size
    while True:
        own.settimeout(max(until - time.monotonic(), 0.001))
        try:
            piece = own.recv(PIECE)
        except TimeoutError as error:
            raise _late(bounds) from error
        except ConnectionResetError:
            return answer
        if not piece:
            return answer
        answer += piece
        if len(answer) > most:
            raise Exceeded("answer", f"it gives over {bounds.answer} bytes")


def _result(answer: bytearray, bounds: JobBounds) -> memoryview:
    mark, code = STATUS.unpack(answer[-STATUS.size :]) if len(answer) >= STATUS.size else (b"", 0)
    if mark != MARK:
        raise _ServerGone
    letter, content = bytes(answer[:1]), memoryview(answer)[1 : -STATUS.size]
    if code == -SIGXCPU:
        raise Exceeded("cpu", f"it needs over {bounds.cpu_seconds} s of CPU")
    if code == -SIGKILL or letter == b"M":  # killed by a system that is short of memory
        raise Exceeded("memory", f"it needs over {bounds.memory // _MIB} MiB of memory")
    if code < 0:
        raise Exceeded("crash", f"its process was ended by signal {-code}")
    if code or letter != b"=":
        raise RuntimeError(f"a job failed with code {code}: {bytes(content).decode(errors='replace')}")
    return content


def _late(bounds: JobBounds) -> Exceeded:
    return Exceeded("time", f"it takes longer than {bounds.seconds:g} s")


def _unavailable() -> Unavailable:
    return Unavailable("The service cannot start a process for this at the moment. Try again in a while.")


@cache
def children() -> Children:
    """The children of this process."""
    pool = Children()
    atexit.register(pool.close)
    return pool
