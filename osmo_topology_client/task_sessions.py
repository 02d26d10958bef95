"""Sessions in running tasks: a POST gives a key, and a WebSocket of this user opens the session.

A session of exec speaks Kubernetes' own channels: each message is the number of a channel and data, and the
last one of the service is the ``Status`` of the command.
"""

import json
import shlex
import ssl
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from requests.utils import DEFAULT_CA_BUNDLE_PATH
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from osmo_topology_client.errors import ServiceUnreachable
from osmo_topology_client.service import CONNECT, Service

CHANNELS = Subprotocol("v5.channel.k8s.io")
STDIN, STDOUT, STDERR, END, RESIZE = range(5)
CLOSE = 255
MOST_MESSAGE = 2**21


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code, None if it has none, and the words of whoever ended it."""

    code: int | None
    message: str


class ExecSession:
    """An open session; one thread may read while others write. Raises ServiceUnreachable."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self.ending: Ending | None = None

    def output(self) -> Iterator[tuple[int, bytes]]:
        """What comes on STDOUT and STDERR, until the command has ended; ``ending`` says how."""
        try:
            for message in self._socket:
                data = message if isinstance(message, bytes) else message.encode()
                if data[:1] == bytes((END,)):
                    self.ending = _ending(data[1:])
                elif data[1:]:
                    yield data[0], data[1:]
        except ConnectionClosed as error:
            if self.ending is not None and self.ending.code is not None:
                return  # how it ended is known, whatever became of the connection
            reason = (error.rcvd and error.rcvd.reason) or "the connection was lost"
            words = self.ending.message if self.ending else f"The session broke off: {reason}."
            raise ServiceUnreachable(words) from error
        if self.ending is None:
            raise ServiceUnreachable("The session broke off.")

    def write(self, data: bytes) -> None:
        self._send(STDIN, data)

    def end_input(self) -> None:
        """Say that nothing more is written."""
        self._send(CLOSE, bytes((STDIN,)))

    def resize(self, *, columns: int, rows: int) -> None:
        self._send(RESIZE, json.dumps({"Width": columns, "Height": rows}).encode())

    def _send(self, channel: int, data: bytes) -> None:
        try:
            self._socket.send(bytes((channel,)) + data)
        except ConnectionClosed as error:
            raise ServiceUnreachable(f"The session broke off: {error}.") from error


@contextmanager
def exec_session(
    service: Service, workflow: str, task: str, command: Sequence[str], *, tty: bool, stdin: bool
) -> Iterator[ExecSession]:
    """Run a command in a running task. Raises Refused and ServiceUnreachable."""
    answer = service.post(
        "workflow",
        workflow,
        "exec",
        "task",
        task,
        entry_command=shlex.join(command),
        tty=str(tty),
        stdin=str(stdin),
    )
    path = f"/api/router/exec/{quote(workflow, safe='')}/client/{answer['key']}"
    with opened(service, answer, path, subprotocols=[CHANNELS]) as socket:
        yield ExecSession(socket)


@contextmanager
def opened(
    service: Service, answer: dict[str, Any], path: str, *, subprotocols: Sequence[Subprotocol] = ()
) -> Iterator[ClientConnection]:
    """A socket below the address of an answer, as this user, with the trust that requests have."""
    address = f"{answer['router_address'].rstrip('/')}{path}"
    if fault := _fault_of(address, service.url):
        raise ServiceUnreachable(f"Your login is not sent to {answer['router_address']}: {fault}.")
    trust = ssl.create_default_context(cafile=service.ca_file() or DEFAULT_CA_BUNDLE_PATH)
    opening = connect(
        address,
        ssl=trust if address.startswith("wss:") else None,
        additional_headers=service.identity,
        user_agent_header="osmo-topology",
        subprotocols=list(subprotocols) or None,
        compression=None,
        open_timeout=CONNECT,
        max_size=MOST_MESSAGE,
    )
    with ExitStack() as stack:
        try:
            socket = stack.enter_context(opening)
        except (InvalidHandshake, OSError) as error:
            raise ServiceUnreachable(f"{answer['router_address']} opens no session: {error}.") from error
        yield socket


def _fault_of(address: str, service: str) -> str:
    """Why a login of a service is not for this address; empty if it is."""
    try:
        router, own = urlsplit(address), urlsplit(service)
        is_own_host = router.hostname == own.hostname
    except ValueError as error:
        return str(error)
    if router.scheme != "wss" and (router.scheme != "ws" or own.scheme == "https"):
        return "it is not reached by TLS, as the service is"
    return "" if is_own_host else f"the service is at {own.hostname}"


def _ending(data: bytes) -> Ending:
    status = json.loads(data)
    causes = (status.get("details") or {}).get("causes") or ()
    code = next((int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"), None)
    return Ending(0 if status.get("status") == "Success" else code, str(status.get("message") or ""))
