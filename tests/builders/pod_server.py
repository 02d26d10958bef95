"""An API server that knows pods and their sessions alone, for what a real one cannot be made to do.

Sessions speak v5, v4 or no protocol, as the test says, and do what the first word of their command names;
connections to ports do what PORTS says.
"""

import asyncio
import base64
import json
import ssl
import tarfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import yaml
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from localcluster.ports import LOOPBACK

STDIN, STDOUT, STDERR, END, RESIZE = range(5)
DATA, FAILURE = range(2)
PORTS = {80: "echo", 81: "refuse", 82: "drop", 83: "deaf", 84: "flood", 85: "close"}
SUCCESS = {"kind": "Status", "status": "Success"}


def failed(code):
    cause = {"reason": "ExitCode", "message": str(code)}
    return {
        "kind": "Status",
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [cause]},
    }


@dataclass(eq=False)
class PodSession:
    """One session: its query, and what came on which channel."""

    query: dict
    socket: object
    input: list = field(default_factory=list)
    is_open: bool = True

    async def say(self, data, channel=STDOUT):
        await self.socket.send(bytes((channel,)) + data)

    async def end(self, status):
        await self.say(json.dumps(status).encode(), END)

    async def run(self):
        if "ports" in self.query:
            await self._run_port(int(self.query["ports"][0]))
            return
        await self.say(b"")  # as a real one: the first message is empty
        behaviour, *words = self.query["command"]
        await getattr(self, f"_{behaviour}")(*words)

    async def _run_port(self, port):
        for channel in (DATA, FAILURE):
            await self.say(port.to_bytes(2, "little"), channel)
        match PORTS[port]:
            case "echo":
                async for message in self.socket:
                    self.input.append((message[0], message[1:]))
                    await self.say(message[1:], DATA)
            case "refuse":
                await self.say(b"dial tcp 127.0.0.1:81:\n connection refused", FAILURE)
            case "flood":
                while True:
                    await self.say(b"x" * 32_000, DATA)
            case behaviour:
                await getattr(self, f"_{behaviour}")()

    async def _echo(self, *_):
        async for message in self.socket:
            self.input.append((message[0], message[1:]))
            if message[0] == STDIN:
                await self.say(message[1:])
            if message in {bytes((STDIN,)) + b"exit", bytes((255, STDIN))}:
                await self.end(SUCCESS)
                return

    async def _exit(self, code):
        await self.end(failed(int(code)) if int(code) else SUCCESS)

    async def _unreachable(self):
        message = "error dialing backend: dial tcp 192.0.2.1:10250: no route to host"
        await self.end({"kind": "Status", "status": "Failure", "message": message, "code": 500})

    async def _say(self, *chunks):
        for chunk in chunks:
            await self.say(bytes.fromhex(chunk))
        await self.end(SUCCESS)

    async def _flood(self):
        while True:
            await self.say(b"x" * 32_000)

    async def _flood_later(self):
        await self.socket.recv()
        await self._flood()

    async def _tar(self, *words):
        """Copy from a directory that says what is wrong with it."""
        place = words[words.index("-C") + 1]
        if place == "/no-tar":
            message = 'exec: "tar": executable file not found in $PATH: unknown'
            await self.end(
                {"kind": "Status", "status": "Failure", "reason": "InternalError", "message": message}
            )
        elif place == "/fails":
            await self.say(b"tar: out: file changed as we read it", STDERR)
            await self.end(failed(1))
        elif place == "/cut":
            await self.say(tarfile.TarInfo("./out").tobuf()[:400])
            self.socket.transport.abort()
        else:
            await self.say(tarfile.TarInfo("./../out").tobuf() + bytes(10_240))
            await self.end(SUCCESS)

    async def _deaf(self):
        await asyncio.sleep(3600)

    async def _close(self):
        await self.socket.close()

    async def _drop(self):
        self.socket.transport.abort()


class PodServer:
    """Runs in a thread of its own; ``uids`` are its pods, ``successors`` those after a handshake."""

    def __init__(self, *, protocol="v5.channel.k8s.io", certificate=None):
        self.uids, self.sessions, self.refusals = {}, [], {}
        self.successors = {}
        self._protocols = [protocol, "v4.channel.k8s.io"] if protocol else None
        self._certificate = certificate
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)

    def kubeconfig(self, path):
        """A file that names this server."""
        cluster = {"server": f"http://{LOOPBACK}:{self.port}"}
        if self._certificate:
            authority = base64.b64encode(self._certificate[0].read_bytes()).decode()
            cluster = {
                "server": f"https://{LOOPBACK}:{self.port}",
                "certificate-authority-data": authority,
            }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        path.write_text(yaml.safe_dump(content))
        return str(path)

    def opened(self):
        return [session for session in self.sessions if session.is_open]

    async def _serve(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        tls = None
        if self._certificate:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(*self._certificate)
        serving = serve(
            self._session,
            LOOPBACK,
            0,
            ssl=tls,
            process_request=self._answer,
            subprotocols=self._protocols,
            compression=None,
            ping_interval=None,
            close_timeout=1,
            max_queue=4,
        )
        async with serving as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._over.wait()

    def _answer(self, connection, request):
        """The pod's metadata, or a refusal; None lets the session begin."""
        path = urlsplit(request.path).path.split("/")
        name = path[6]
        if status := self.refusals.get(path[-1]):
            return connection.respond(status, "no")
        if name not in self.uids:
            return connection.respond(
                HTTPStatus.NOT_FOUND,
                json.dumps(
                    {
                        "kind": "Status",
                        "code": 404,
                        "message": f'pods "{name}" not found',
                        "details": {"name": name},
                    }
                ),
            )
        if path[-1] in {"exec", "portforward"}:
            self.uids |= self.successors
            return None
        return connection.respond(
            HTTPStatus.OK, json.dumps({"metadata": {"name": name, "uid": self.uids[name]}})
        )

    async def _session(self, connection):
        session = PodSession(parse_qs(urlsplit(connection.request.path).query), connection)
        self.sessions.append(session)
        try:
            with suppress(ConnectionClosed):
                await session.run()
            await connection.close()
        finally:
            session.is_open = False
