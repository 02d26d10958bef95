"""A proxy before the API server that spoils requests at given rates, for the service's backends only.

It speaks TLS with the API server's own certificate, so a backend's kubeconfig differs by its port alone.
Of each request it is decided once, by a seeded generator, whether and how it goes wrong; the faults are
counted by kind. The order in which requests come is not seeded, so a seed repeats the mix and not the run.

One guarantee of Kubernetes is left alone: a list without a resource version is a consistent read. The live
lists before creating and after deleting rest on it, so stale answers are given only to lists that feed the
observer (those without a group in their selector).
"""

import asyncio
import contextlib
import json
import logging
import random
import ssl
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from localcluster.controlplane import Plane
from localcluster.ports import LOOPBACK, free_ports

GROUP_LABEL = "task-group"  # part of the label by which live lists select
HOP = {"host", "content-length", "transfer-encoding", "connection", "accept-encoding"}
KEPT_LISTS = 4
START_SECONDS = 60
LONG_SECONDS = 24.0  # longer than the service waits for a reply
CHUNK = 65536
REVIEWS = "reviews"  # the ending of what is posted to ask for an answer; nothing is written by it

READS = {"500": 0.01, "429": 0.01, "timeout": 0.004, "stale list": 0.05}
WRITES = {"500": 0.015, "429": 0.015, "409": 0.015, "timeout": 0.004, "reply lost": 0.02}
WATCHES = {"watch cut": 0.12, "410 answer": 0.04, "410 event": 0.04, "slow stream": 0.1, "500": 0.02}
FIRST = 0.1
KINDS = sorted(READS | WRITES | WATCHES)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Weather:
    """How often each fault occurs; ``strength`` 0 is a plain proxy. Faults that never happened come first."""

    generator: random.Random
    strength: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def missing(self) -> list[str]:
        return [kind for kind in KINDS if not self.counts[kind]]

    def strike(self, rates: Mapping[str, float]) -> str:
        """What goes wrong with a request, or nothing."""
        candidates = [kind for kind in rates if not self.counts[kind]]
        if candidates and self.generator.random() < FIRST * self.strength:
            return self.generator.choice(candidates)
        draw = self.generator.random()
        for kind, rate in rates.items():
            draw -= rate * self.strength
            if draw < 0:
                return kind
        return ""


class Proxy:
    """Listens in a thread of its own from ``start`` to ``stop``."""

    def __init__(self, plane: Plane, *, seed: str) -> None:
        self.plane = plane
        (self.port,) = free_ports(1)
        self.weather = Weather(random.Random(seed))
        self.writes: list[str] = []  # method and path of every request that may change something
        self._lists: dict[str, deque[tuple[str, bytes]]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._up = threading.Event()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.ServerRunner | None = None

    @property
    def counts(self) -> Counter[str]:
        return self.weather.counts

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads through the proxy."""
        content = yaml.safe_load(self.plane.kubeconfig("admin").read_text())
        content["clusters"][0]["cluster"]["server"] = f"https://{LOOPBACK}:{self.port}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content))
        return path

    def start(self) -> None:
        self._thread.start()
        if not self._up.wait(START_SECONDS):
            raise TimeoutError("the fault proxy did not start")

    def stop(self) -> None:
        """Cut what is left and end the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)

    def _run(self) -> None:
        logging.getLogger("aiohttp").setLevel(logging.CRITICAL)  # cut connections are the purpose
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.close()

    async def _listen(self) -> None:
        tls = ssl.create_default_context(cafile=str(self.plane.ca_file))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
        )
        server = web.Server(self._handle, access_log=None)
        self._runner = runner = web.ServerRunner(server, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own.load_cert_chain(self.plane.ca_file, self.plane.ca_file.with_suffix(".key"))
        await web.TCPSite(runner, LOOPBACK, self.port, ssl_context=own).start()

    async def _close(self) -> None:
        assert self._session is not None
        assert self._runner is not None
        await self._runner.cleanup()
        await self._session.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        watching = request.query.get("watch") == "true"
        is_write = request.method != "GET" and "dryRun" not in request.query
        if is_write and not request.path.endswith(REVIEWS):
            self.writes.append(f"{request.method} {request.path}")
        rates = WATCHES if watching else READS if request.method == "GET" else WRITES
        kind = self.weather.strike(rates)
        if kind == "stale list" and not self._stale(request):
            kind = ""
        if kind:
            self.counts[kind] += 1
        try:
            if refusal := _refusal(kind):
                return refusal
            if kind == "timeout":
                await asyncio.sleep(self.weather.generator.choice((1.0, 3.0, LONG_SECONDS)))
                return _cut(request)
            if kind == "410 event":
                return await _expired_event(request)
            return await (self._watch(request, kind) if watching else self._reply(request, kind))
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return _cut(request)

    async def _reply(self, request: web.BaseRequest, kind: str) -> web.StreamResponse:
        if kind == "stale list":
            content_type, old = self._lists[request.path_qs][0]
            return web.Response(body=old, headers={"Content-Type": content_type})
        async with self._sent(request) as reply:
            body = await reply.read()
            if kind == "reply lost":
                return _cut(request)
            self._keep(request, reply, body)
            return web.Response(status=reply.status, body=body, headers=_kept_headers(reply.headers))

    async def _watch(self, request: web.BaseRequest, kind: str) -> web.StreamResponse:
        async with self._sent(request) as reply:
            answer = web.StreamResponse(status=reply.status, headers=_kept_headers(reply.headers))
            answer.enable_chunked_encoding()
            await answer.prepare(request)
            left = self.weather.generator.randrange(200, 20_000) if kind == "watch cut" else None
            async for chunk in _until(reply, seconds=8.0 if kind == "watch cut" else None):
                if kind == "slow stream":
                    await asyncio.sleep(self.weather.generator.uniform(0.1, 1.5))
                if left is not None and len(chunk) >= left:
                    await answer.write(chunk[:left])
                    return _cut(request)
                left = None if left is None else left - len(chunk)
                await answer.write(chunk)
            if kind == "watch cut":
                return _cut(request)
            await answer.write_eof()
            return answer

    @contextlib.asynccontextmanager
    async def _sent(self, request: web.BaseRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        body = await request.read() if request.can_read_body else None
        async with self._session.request(
            request.method,
            self.plane.server + request.path_qs,
            headers=headers,
            data=body,
            allow_redirects=False,
        ) as reply:
            yield reply

    def _stale(self, request: web.BaseRequest) -> bool:
        return len(self._lists.get(request.path_qs, ())) > 1

    def _keep(self, request: web.BaseRequest, reply: aiohttp.ClientResponse, body: bytes) -> None:
        """Remember a list for a later stale answer."""
        selector = request.query.get("labelSelector", "")
        if request.method == "GET" and "limit" in request.query and GROUP_LABEL not in selector:
            replies = self._lists.setdefault(request.path_qs, deque(maxlen=KEPT_LISTS))
            if reply.status == 200:
                replies.append((reply.headers.get("Content-Type", "application/json"), body))


async def _until(reply: aiohttp.ClientResponse, *, seconds: float | None) -> AsyncIterator[bytes]:
    """Chunks as they come, for at most ``seconds``."""
    ends = None if seconds is None else asyncio.get_running_loop().time() + seconds
    while True:
        try:
            async with asyncio.timeout_at(ends):
                chunk = await reply.content.readany()
        except TimeoutError:
            return
        if not chunk:
            return
        yield chunk


def _refusal(kind: str) -> web.Response | None:
    if kind == "500":
        return _status(500, "InternalError", "the fault proxy failed this request")
    if kind == "429":
        return _status(429, "TooManyRequests", "the fault proxy asks to wait", {"Retry-After": "1"})
    if kind == "409":
        return _status(409, "Conflict", "the fault proxy says that somebody else wrote")
    if kind == "410 answer":
        return _status(410, "Expired", "the fault proxy says that the version is too old")
    return None


def _status(code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response(_status_body(code, reason, message), status=code, headers=headers)


def _status_body(code: int, reason: str, message: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


async def _expired_event(request: web.BaseRequest) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    await answer.prepare(request)
    event = {"type": "ERROR", "object": _status_body(410, "Expired", "the fault proxy says: too old")}
    await answer.write(json.dumps(event).encode() + b"\n")
    await answer.write_eof()
    return answer


def _cut(request: web.BaseRequest) -> web.StreamResponse:
    """End the connection without another word."""
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("cut by the fault proxy")


def _kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.lower() not in HOP | {"content-encoding"}}
