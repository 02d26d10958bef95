"""The process that forks one child for each job; run by path, with the control socket as standard input.

A message on the control socket names the module of a job and carries the job's socket. There the child
writes ``READY``, from when on the caller counts time, and reads its request until the caller stops
sending: a line of JSON (``function``, ``cpu_seconds``, ``memory``), then bytes. It answers with a letter
and bytes: ``=`` and the function's result, ``M`` for too little memory, ``E`` and the trace of an error.
Behind that the server writes how the child ended (``STATUS``).

It imports nothing of this package, since it starts without it.
"""

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass

STATUS = struct.Struct("!8si")
MARK = b"\0ended:\0"  # an answer without it is that of a server that ended itself
READY = b"!"
OPEN_FILES = 32
NICENESS = 5  # those who answer everybody come first
MOST_NAME = 256


@dataclass(frozen=True, slots=True)
class Job:
    pid: int
    socket: socket.socket


class Server:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._by_socket: dict[int, Job] = {}
        self._by_process: dict[int, Job] = {}

    def run(self) -> None:
        """Serve until the other end of the control socket is closed."""
        try:
            while True:
                for file, _ in self._poll.poll():
                    if file == self._control.fileno():
                        if not self._take():
                            return
                    elif job := self._by_socket.get(file):  # nobody waits for it any more
                        self._kill(job)
                    elif job := self._by_process.get(file):
                        self._end(file, job)
        finally:
            for job in self._by_process.values():
                os.kill(job.pid, signal.SIGKILL)

    def _take(self) -> bool:
        """Start the job that comes; False if the caller has gone."""
        module, files, _, _ = socket.recv_fds(self._control, MOST_NAME, 1)
        if not module or not files:
            return False
        job_socket = socket.socket(fileno=files[0])
        try:
            _load(module.decode())
        except Exception:  # noqa: BLE001 -- a faulty module must not end the others' jobs
            traceback.print_exc()
            job_socket.close()
            return True
        pid = os.fork()
        if pid == 0:
            _work(job_socket)
        job, process = Job(pid, job_socket), os.pidfd_open(pid)
        self._by_socket[job_socket.fileno()] = job
        self._by_process[process] = job
        self._poll.register(job_socket, 0)  # its end is reported whatever is registered
        self._poll.register(process, select.POLLIN)
        return True

    def _kill(self, job: Job) -> None:
        self._poll.unregister(job.socket)
        del self._by_socket[job.socket.fileno()]
        os.kill(job.pid, signal.SIGKILL)  # still ours: it was not waited for

    def _end(self, process: int, job: Job) -> None:
        _, status = os.waitpid(job.pid, 0)
        if job.socket.fileno() in self._by_socket:
            self._poll.unregister(job.socket)
            del self._by_socket[job.socket.fileno()]
            with suppress(OSError):  # a caller that waits for it reads until the end, or is gone
                job.socket.sendall(STATUS.pack(MARK, os.waitstatus_to_exitcode(status)))
        job.socket.close()
        self._poll.unregister(process)
        del self._by_process[process]
        os.close(process)


def _load(module: str) -> None:
    """Import a module into the server, so that no child has to."""
    if module not in sys.modules:
        importlib.import_module(module)
        gc.collect()
        gc.freeze()  # a collection in a child would copy the pages of what it does not even use


def _work(job_socket: socket.socket) -> None:
    """Do one job and end, in the child."""
    code = 1
    try:
        file = job_socket.fileno()
        os.closerange(3, file)
        os.closerange(file + 1, OPEN_FILES * 100)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        job_socket.sendall(READY)
        head, _, payload = _received(job_socket).partition(b"\n")
        _answer(job_socket, json.loads(head), payload)
        code = 0
    except OSError:  # the caller has gone
        pass
    finally:
        os._exit(code)


def _received(job_socket: socket.socket) -> bytes:
    with job_socket.makefile("rb") as stream:
        return stream.read()


def _answer(job_socket: socket.socket, job: "dict[str, object]", payload: bytes) -> None:
    module, _, name = str(job["function"]).partition(":")
    function = getattr(sys.modules[module], name)
    _limit(cpu_seconds=int(str(job["cpu_seconds"])), memory=int(str(job["memory"])))
    try:
        letter, answer = b"=", function(payload)
    except MemoryError:
        letter, answer = b"M", b""
    except Exception:  # noqa: BLE001 -- the caller raises it
        letter, answer = b"E", traceback.format_exc().encode()
    job_socket.sendall(letter)
    job_socket.sendall(answer)


def _limit(*, cpu_seconds: int, memory: int) -> None:
    """Bound this process; ``memory`` is what it may take beside what the server had."""
    os.nice(NICENESS)
    with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 -- nothing more is imported
        pages = int(statm.read().split()[0])
    total = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (total, total))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    os.setsid()  # a signal to the caller's group is not for this one: it ends when its caller has
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:  # noqa: PTH123
        score.write("1000")  # where memory runs out, a job goes first
    control = socket.socket(fileno=0)
    control.send(READY)
    Server(control).run()


if __name__ == "__main__":
    main()
