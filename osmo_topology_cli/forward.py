"""Ports of a running task on this machine's loopback, for as long as the command runs.

A control socket stands for the forward of each port. A local connection gets a key, which is announced
there, and a socket of its own. When the service restarts, each forward is opened again; when the task has
ended, the service says so, and the command ends with its words.
"""

import json
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from osmo_topology_client.errors import Failure, Misused, Refused, ServiceUnreachable
from osmo_topology_client.task_sessions import opened

if TYPE_CHECKING:
    from osmo_topology_client.client import Client

LOOPBACK = "127.0.0.1"
PIECE = 16 * 1024
MOST_LOCAL = 32
"""Connections at a time to one port, as many as the service carries."""

LINGER_SECONDS = 2.0
"""How long an answer is waited for once the local program has sent its last byte."""

OPEN_SECONDS = 30.0
"""How long a local connection waits for a forward that is opened again."""

AGAIN_SECONDS = 2.0
ENDS = (1000, 1011)
"""Codes with which the service closes a forward for good."""


@dataclass(frozen=True)
class Ports:
    local: int
    task: int


def read_ports(texts: Sequence[str]) -> list[Ports]:
    """``8888:80`` or ``8888`` for the same on both sides; 0 for any free local port. Raises Misused."""
    ports = []
    for text in texts:
        local, colon, task = text.partition(":")
        numbers = [local, task if colon else local]
        if not all(number.isascii() and number.isdecimal() and len(number) <= 5 for number in numbers):
            raise Misused(f"{text} is no port; write 8888 or 8888:80 (this machine's, then the task's).")
        pair = Ports(*map(int, numbers))
        if pair.local > 65_535 or not 0 < pair.task <= 65_535:
            raise Misused(f"{text}: ports are numbers from 1 to 65535.")
        ports.append(pair)
    return ports


def run(
    service: "Client", workflow: str, task: str, ports: Sequence[Ports], *, show: Callable[[str], None]
) -> None:
    """Forward the ports until the service ends one of the forwards. Raises Failure with its reason."""
    answers = _answers(service, workflow, task, ports)
    ends: queue.Queue[Exception] = queue.Queue()
    lock = threading.Lock()
    with ExitStack() as stack:
        listeners = [stack.enter_context(_listener(pair.local)) for pair in ports]
        for pair, answer, listener in zip(ports, answers, listeners, strict=True):
            forward = _Forward(service, workflow, task, pair, listener, ends, service.notify, lock)
            threading.Thread(target=forward.hold, args=[answer], daemon=True).start()
            threading.Thread(target=forward.accept, daemon=True).start()
            address = "{}:{}".format(*listener.getsockname())
            show(f"Forwarding {address} to port {pair.task} of {workflow}/{task}.")
        raise ends.get()


def _answers(service: "Client", workflow: str, task: str, ports: Sequence[Ports]) -> list[dict[str, Any]]:
    numbers = [str(pair.task) for pair in ports]
    answers: list[dict[str, Any]] = service.post(
        "workflow", workflow, "portforward", task, task_ports=numbers, use_udp="False"
    )
    return answers


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise Misused(f"Port {port} of this machine cannot be listened at: {error.strerror}.") from error


@dataclass
class _Forward:
    """One port."""

    service: "Client"
    workflow: str
    task: str
    ports: Ports
    listener: socket.socket
    ends: "queue.Queue[Exception]"
    note: Callable[[str], None]
    lock: threading.Lock
    """Of the service, which one thread may use at a time."""

    control: tuple[ClientConnection, dict[str, Any]] | None = None
    is_open: threading.Event = field(default_factory=threading.Event)
    places: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_LOCAL))

    def hold(self, answer: dict[str, Any]) -> None:
        """Keep the control socket open, and open it again after a restart."""
        try:
            while True:
                reason = self._attach(answer)
                self.note(f"The forward of port {self.ports.task} was cut off ({reason}); opening it again.")
                time.sleep(AGAIN_SECONDS)
                with self.lock:
                    answer = self.service.patiently(
                        lambda: _answers(self.service, self.workflow, self.task, [self.ports])[0],
                        interval=AGAIN_SECONDS,
                    )
        except Exception as error:  # noqa: BLE001 -- the command waits for it, and raises it
            self.ends.put(error)

    def _attach(self, answer: dict[str, Any]) -> str:
        """Why the control socket was lost. Raises Refused where the service ended it."""
        try:
            with opened(self.service, answer, self._path(answer["key"])) as control:
                self.control = (control, answer)
                self.is_open.set()
                for _ in control:
                    pass  # nothing is said here
        except ServiceUnreachable as error:
            return error.message
        except ConnectionClosed:
            pass
        finally:
            self.is_open.clear()
        code, reason = control.close_code, control.close_reason or "no reason was given"
        if code in ENDS:
            raise Refused(status=400, body={"message": reason, "error_code": "USER"})
        return reason

    def accept(self) -> None:
        """Carry each local connection in a thread of its own."""
        try:
            while self.places.acquire():
                local, _ = self.listener.accept()
                threading.Thread(target=self._carry, args=[local], daemon=True).start()
        except OSError as error:
            why = f"Connections to port {self.ports.task} of the task cannot be accepted: {error.strerror}."
            self.ends.put(Failure(why))  # which nobody reads if the command ends anyway

    def _carry(self, local: socket.socket) -> None:
        try:
            with local:
                if self.is_open.wait(OPEN_SECONDS) and self.control is not None:
                    self._joined(local, *self.control)
        except Failure as failure:
            self.note(failure.message)
        except (OSError, ConnectionClosed):
            pass  # the local program has left, or the forward is lost
        finally:
            self.places.release()

    def _joined(self, local: socket.socket, control: ClientConnection, answer: dict[str, Any]) -> None:
        key = f"PORTFORWARD-{secrets.token_hex(16)}"
        control.send(json.dumps({"key": key, "cookie": answer["cookie"]}).encode())
        with opened(self.service, answer, self._path(key)) as connection:
            threading.Thread(target=_send, args=[local, connection], daemon=True).start()
            try:
                for message in connection:
                    local.sendall(message if isinstance(message, bytes) else message.encode())
            except ConnectionClosed as closed:
                self._note_end(closed)
            finally:
                local.shutdown(socket.SHUT_RDWR)  # a close alone would wait for the thread that reads it

    def _note_end(self, closed: ConnectionClosed) -> None:
        if closed.rcvd is None or not closed.rcvd.reason:
            return
        reason = closed.rcvd.reason
        if reason[0].islower():  # no sentence of the service, such as when web stops
            reason = f"A connection to port {self.ports.task} was cut off ({reason})."
        self.note(reason)

    def _path(self, key: str) -> str:
        return f"/api/router/portforward/{quote(self.workflow, safe='')}/client/{key}"


def _send(local: socket.socket, connection: ClientConnection) -> None:
    with suppress(OSError, ConnectionClosed):
        while data := local.recv(PIECE):
            connection.send(data)
        time.sleep(LINGER_SECONDS)  # for the answer to a program that only sends no more
    connection.close()
