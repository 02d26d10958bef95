"""Ordinary callers beside clients that send half a request, or never read the answer.

Everything is on this machine, so the slow clients, the ordinary callers and the service share its cores: a
slow client does as little as it can, one byte a second.
"""

import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from bench.site import Progress, started_site
from bench.submission import percentiles, timed
from bench.web import Web, started_web

REQUESTS, SMALL_REQUESTS = 800, 200
CALLERS = 4
WARM_UP = 100
SLOW = 1000
POOL = BACKEND = "slow"
LARGE = "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js"
SETTLE_SECONDS = 3.0
SECOND = 1.0


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    slow, requests = (SLOW // 10, SMALL_REQUESTS) if small else (SLOW, REQUESTS)
    report: dict[str, Any] = {"callers": CALLERS, "slow_clients": slow, "requests": requests}
    with started_site(progress=progress, standins=False) as site:
        report["servers"] = site.servers()
        site.add_nodes(POOL, count=1)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        with started_web(site, "web_measured") as web:
            timed(lambda: web.rest.get("/api/pool"), count=WARM_UP, concurrency=CALLERS)
            for title, clients in _phases(web, count=slow).items():
                report[title] = _phase(web, clients, requests=requests)
                progress(f"slow_clients: {title}: {report[title]}")
    phases = [figures for figures in report.values() if isinstance(figures, dict) and "p95_ms" in figures]
    undisturbed = min(phases[0]["p95_ms"], phases[-1]["p95_ms"])
    for figures in phases:
        figures["p95_ratio"] = round(figures["p95_ms"] / undisturbed, 2)
    return report


def _phases(web: Web, *, count: int) -> "dict[str, list[SlowClients]]":
    host = "Host: 127.0.0.1\r\n"
    header = f"GET /api/pool HTTP/1.1\r\n{host}X-Slow: ".encode()
    token = f"Authorization: {web.rest.headers['Authorization']}\r\n"
    body = f"POST /api/pool/{POOL}/workflow HTTP/1.1\r\n{host}{token}Content-Length: 100000\r\n\r\n ".encode()
    unread = f"GET {LARGE} HTTP/1.1\r\n{host}\r\n".encode() * 20
    return {
        "alone": [],
        "beside_half_headers": [SlowClients(web.api_url, header, count=count, drip=b"x")],
        "beside_half_bodies": [SlowClients(web.api_url, body, count=count, drip=b" ")],
        "beside_readers": [SlowClients(web.api_url, unread, count=count)],
        "alone_again": [],
    }


def _phase(web: Web, clients: "list[SlowClients]", *, requests: int) -> dict[str, Any]:
    with ExitStack() as stack:
        for group in clients:
            stack.enter_context(group)
        if clients:
            time.sleep(SETTLE_SECONDS)
        began = time.monotonic()
        seconds = timed(lambda: web.rest.get("/api/pool"), count=requests, concurrency=CALLERS)
        per_second = round(requests / (time.monotonic() - began), 1)
        connections = sum(group.open_connections() for group in clients)
        rss = web.memory().rss
    return {
        **percentiles(seconds),
        "per_second": per_second,
        "connections": connections,
        "process_rss_mib": rss,
    }


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
        while not self.stopped.wait(SECOND):
            for number, client in enumerate(self.sockets):
                try:
                    client.send(self.drip)
                except OSError:
                    client.close()
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
