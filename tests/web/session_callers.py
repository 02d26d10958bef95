"""Callers of exec on a web server: as OSMO's client, as our own command, and as bytes."""

from pathlib import Path
from urllib.parse import quote

from websockets.sync.client import connect

from tests.builders.osmo_exec import ask, open_session
from tests.web.conftest import process_of

CHANNELS = "v5.channel.k8s.io"


def answer_of(server, group, who, command="echo", target="task/task-0", **query):
    more = "".join(f"&{name}={value}" for name, value in query.items())
    path = f"/api/workflow/{group.workflow.name}/exec/{target}?entry_command={quote(command)}{more}"
    return ask(f"http://127.0.0.1:{server.port}", path, who)


def shell(server, group, who, command="echo", **more):
    return open_session(answer_of(server, group, who, command), group.workflow.name, who, **more)


def channels(server, group, who, command="echo", **query):
    """A session as our own command opens it."""
    return opened_channels(answer_of(server, group, who, command, **query), group, who)


def opened_channels(answer, group, who):
    address = f"{answer['router_address']}/api/router/exec/{group.workflow.name}/client/{answer['key']}"
    return connect(address, additional_headers=who, subprotocols=[CHANNELS], proxy=None)


OWN = f"Sec-WebSocket-Protocol: {CHANNELS}"


def handshake(group, who, key, *more):
    """The bytes of a request for a session's socket; ``more`` are further headers."""
    lines = (
        f"GET /api/router/exec/{group.workflow.name}/client/{key} HTTP/1.1",
        "Host: 127.0.0.1",
        *(f"{name}: {value}" for name, value in who.items()),
        *("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
        *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *more),
    )
    return "\r\n".join([*lines, "", ""]).encode()


def thread_count(server):
    pid = process_of(server)
    return len(list(Path(f"/proc/{pid}/task").iterdir()))
