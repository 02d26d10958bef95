"""Ordinary callers beside clients that send or read slowly, and beside followers of logs.

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

from bench.site import Progress, Site, started_site
from bench.submission import percentiles, timed
from bench.usage import memory
from bench.workload import one_group

REQUESTS, SMALL_REQUESTS = 2000, 400
CALLERS = 4
HALF_SENT, READERS, FOLLOWERS = 1000, 500, 2000
POOL = BACKEND = "slow"
LARGE = "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js"
SETTLE_SECONDS = 3.0
SECOND = 1.0


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    share = 10 if small else 1
    followers = {"OSMO_LOG_FOLLOWERS": str(FOLLOWERS), "OSMO_LOG_USER_FOLLOWERS": str(FOLLOWERS)}
    with started_site(progress=progress, standins=False, more=followers) as site:
        site.add_nodes(POOL, count=1)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        name = site.submit(POOL, one_group(1, name="slow"))
        site.wait(
            lambda: site.rest.workflow(name)["status"] == "RUNNING", seconds=60, awaited="a running workflow"
        )
        host = "Host: 127.0.0.1\r\n"
        token = f"Authorization: {site.rest.headers['Authorization']}\r\n"
        header = f"GET /api/pool HTTP/1.1\r\n{host}X-Slow: "
        body = f"POST /api/pool/{POOL}/workflow HTTP/1.1\r\n{host}{token}Content-Length: 100000\r\n\r\n "
        unread = f"GET {LARGE} HTTP/1.1\r\n{host}\r\n" * 20
        follow = f"GET /api/workflow/{name}/logs HTTP/1.1\r\n{host}{token}\r\n"
        phases: dict[str, list[_Clients]] = {
            "alone": [],
            "beside_half_sent": [
                _Clients(site, header.encode(), count=HALF_SENT // 2 // share, drip=b"x"),
                _Clients(site, body.encode(), count=HALF_SENT // 2 // share, drip=b" "),
            ],
            "beside_readers": [_Clients(site, unread.encode(), count=READERS // share)],
            "beside_followers": [_Clients(site, follow.encode(), count=FOLLOWERS // share)],
            "alone_again": [],
        }
        count = SMALL_REQUESTS if small else REQUESTS
        timed(lambda: site.rest.get("/api/pool"), count=50, concurrency=CALLERS)
        report = {title: _phase(site, clients, count=count) for title, clients in phases.items()}
        servers = site.servers()
    undisturbed = min(report["alone"]["p95_ms"], report["alone_again"]["p95_ms"])
    for title, figures in report.items():
        figures["p95_ratio"] = round(figures["p95_ms"] / undisturbed, 2)
        progress(f"slow_clients: {title}: {figures}")
    return {"servers": servers, "callers": CALLERS, **report}


def _phase(site: Site, clients: "list[_Clients]", *, count: int) -> dict[str, Any]:
    for group in clients:
        group.__enter__()
    try:
        if clients:
            time.sleep(SETTLE_SECONDS)
        began = time.monotonic()
        seconds = timed(lambda: site.rest.get("/api/pool"), count=count, concurrency=CALLERS)
        per_second = round(count / (time.monotonic() - began), 1)
        web = memory(site.supervisor)["web"]
        connections = sum(group.open_connections() for group in clients)
    finally:
        for group in clients:
            group.close()
    return {
        **percentiles(seconds),
        "per_second": per_second,
        "connections": connections,
        "web_rss_mib": web.rss,
        "web_pss_mib": web.pss,
    }


@dataclass(slots=True)
class _Clients:
    """Connections on which something was sent and nothing is read; those that are cut come back."""

    site: Site
    sent: bytes
    count: int
    drip: bytes = b""
    sockets: list[socket.socket] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    dripping: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.sockets = [self._connect() for _ in range(self.count)]
        if self.drip:
            self.dripping = threading.Thread(target=self._drip)
            self.dripping.start()
        return self

    def close(self) -> None:
        self.stopped.set()
        if self.dripping is not None:
            self.dripping.join()
        for client in self.sockets:
            client.close()

    def open_connections(self) -> int:
        """How many the service has not reset; nothing is read."""
        return sum(map(_is_open, self.sockets))

    def _connect(self) -> socket.socket:
        address = urlsplit(self.site.running.api_url)
        client = socket.socket()
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
