"""Ordinary callers beside clients that send half a request, or never read the answer.

Everything is on this machine, so the slow clients, the ordinary callers and the service share its cores: a
slow client does as little as it can, one byte a second.
"""

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from bench.site import Progress, started_site
from bench.submission import percentiles, timed
from bench.usage import cpu_seconds
from bench.web import Web, started_web

REQUESTS, SMALL_REQUESTS = 120, 40
ROUNDS = 3
CALLERS = 4
WARM_UP = 100
SLOW = 1000
POOL = BACKEND = "slow"
LARGE = "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js"
SETTLE_SECONDS = 2.0
SECOND = 1.0
DRIPPED_AT_ONCE = 50


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    slow, requests = (SLOW // 10, SMALL_REQUESTS) if small else (SLOW, REQUESTS)
    report: dict[str, Any] = {"callers": CALLERS, "slow_clients": slow, "requests": requests * ROUNDS}
    with started_site(progress=progress, standins=False) as site:
        report["servers"] = site.servers()
        site.add_nodes(POOL, count=1)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        for name in ("beat", "worker", "web"):
            site.supervisor.stop_one(name)
        with started_web(site, "web_measured") as web:
            timed(lambda: web.rest.get("/api/pool"), count=WARM_UP, concurrency=CALLERS)
            for title, clients in _kinds(web, count=slow).items():
                report[title] = _compare(web, clients, requests=requests)
                progress(f"slow_clients: {title}: {report[title]}")
    return report


def _kinds(web: Web, *, count: int) -> "dict[str, SlowClients]":
    host = "Host: 127.0.0.1\r\n"
    header = f"GET /api/pool HTTP/1.1\r\n{host}X-Slow: ".encode()
    token = f"Authorization: {web.rest.headers['Authorization']}\r\n"
    body = f"POST /api/pool/{POOL}/workflow HTTP/1.1\r\n{host}{token}Content-Length: 100000\r\n\r\n ".encode()
    unread = f"GET {LARGE} HTTP/1.1\r\n{host}\r\n".encode() * 20
    return {
        "half_headers": SlowClients(web.api_url, header, count=count, drip=b"x"),
        "half_bodies": SlowClients(web.api_url, body, count=count, drip=b" "),
        "readers": SlowClients(web.api_url, unread, count=count),
    }


def _compare(web: Web, clients: "SlowClients", *, requests: int) -> dict[str, Any]:
    """Answers alone and beside the clients, in turns, so that a machine's mood is in both."""
    alone, beside = _Answers(web), _Answers(web)
    open_connections, rss = clients.count, 0
    for _ in range(ROUNDS):
        alone.measure(requests)
        with clients:
            time.sleep(SETTLE_SECONDS)
            beside.measure(requests)
            open_connections = min(open_connections, clients.open_connections())
            rss = max(rss, web.memory().rss)
    figures = {"alone": alone.figures(), "beside": beside.figures()}
    ratios = {
        f"{name}_ratio": round(figures["beside"][name] / figures["alone"][name], 2)
        for name in ("p50_ms", "p95_ms", "cpu_ms")
    }
    return {**figures, **ratios, "connections": open_connections, "process_rss_mib": rss}


@dataclass(slots=True)
class _Answers:
    """What ordinary callers got."""

    web: Web
    seconds: list[float] = field(default_factory=list)
    took: float = 0.0
    cpu: float = 0.0

    def measure(self, requests: int) -> None:
        began, cpu = time.monotonic(), self._cpu_seconds()
        self.seconds += timed(lambda: self.web.rest.get("/api/pool"), count=requests, concurrency=CALLERS)
        self.took += time.monotonic() - began
        self.cpu += self._cpu_seconds() - cpu

    def figures(self) -> dict[str, float]:
        count = len(self.seconds)
        cpu_ms = round(self.cpu * 1000 / count, 1)
        return {**percentiles(self.seconds), "per_second": round(count / self.took, 1), "cpu_ms": cpu_ms}

    def _cpu_seconds(self) -> float:
        return cpu_seconds(self.web.site.supervisor)[self.web.name]


@dataclass(slots=True)
class SlowClients:
    """Connections on which something was sent and nothing is read; those that are cut come back."""

    api_url: str
    sent: bytes
    count: int
    drip: bytes = b""
    sockets: list[socket.socket] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    dripping: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.stopped.clear()
        self.sockets = [self._connect() for _ in range(self.count)]
        if self.drip:
            self.dripping = threading.Thread(target=self._drip)
            self.dripping.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        if self.dripping is not None:
            self.dripping.join()
        for client in self.sockets:
            client.close()

    def open_connections(self) -> int:
        """How many the service has not reset; nothing is read."""
        return sum(map(_is_open, self.sockets))

    def _connect(self) -> socket.socket:
        address, client = urlsplit(self.api_url), socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect((address.hostname, address.port))
        client.sendall(self.sent)
        return client

    def _drip(self) -> None:
        turns = range(0, self.count, DRIPPED_AT_ONCE)
        while not self.stopped.is_set():
            for start in turns:
                self.stopped.wait(SECOND / len(turns))
                self._drip_to(range(start, min(start + DRIPPED_AT_ONCE, self.count)))

    def _drip_to(self, numbers: range) -> None:
        for number in numbers:
            try:
                self.sockets[number].send(self.drip)
            except OSError:
                self.sockets[number].close()
                with suppress(OSError):
                    self.sockets[number] = self._connect()


def _is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False
