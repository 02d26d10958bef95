"""A server that answers as a test tells it to, for what a healthy API server cannot be made to do."""

import socketserver
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cluster.connection import Access


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. ``drop`` hangs up instead, ``cut`` in the middle of the body, ``hang`` never answers.

    ``trickle``: seconds between two bytes of the body. ``then`` is called before the answer is sent.
    """

    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()
    drop: bool = False
    cut: bool = False
    hang: bool = False
    trickle: float = 0.0
    then: Callable[[], object] | None = None


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Script:
    """Replies in the order of requests; ``otherwise`` when they have run out."""

    replies: deque = field(default_factory=deque)
    otherwise: Reply = field(default_factory=Reply)
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    lock: Any = field(default_factory=threading.Lock)
    ended: threading.Event = field(default_factory=threading.Event)


class _Handler(socketserver.StreamRequestHandler):
    def handle(self):
        script = self.server.script
        with script.lock:
            script.connections += 1
        while line := self.rfile.readline():
            method, path, _ = line.decode().split()
            headers = {}
            while (header := self.rfile.readline().decode().strip()) != "":
                key, _, value = header.partition(":")
                headers[key.lower()] = value.strip()
            body = self.rfile.read(int(headers.get("content-length", 0)))
            with script.lock:
                script.seen.append(Seen(method, path, headers, body))
                reply = script.replies.popleft() if script.replies else script.otherwise
            if reply.then:
                reply.then()
            if reply.hang:
                script.ended.wait(120)
            if reply.drop or reply.hang:
                return
            self._answer(reply)
            if reply.cut:
                return

    def _answer(self, reply):
        length = len(reply.body) + (1000 if reply.cut else 0)
        head = [f"HTTP/1.1 {reply.status} Scripted", f"Content-Length: {length}"]
        head += [f"{key}: {value}" for key, value in reply.headers]
        self.wfile.write("\r\n".join([*head, "", ""]).encode())
        pieces = [reply.body[n : n + 1] for n in range(len(reply.body))] if reply.trickle else [reply.body]
        for piece in pieces:
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(reply.trickle)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        """A client that went away is what half of the tests are about."""


class ScriptedServer:
    def __init__(self):
        self.script = Script()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.script = self.script
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self.script.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def kubeconfig(path: Path, server: str, *, token: str = "secret") -> Access:
    """Write a kubeconfig for a server and say how to use it."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "main",
    }
    path.write_text(yaml.safe_dump(content))
    return Access(str(path))
