"""The memory of one web process whose callers follow the log of a task that runs."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import yaml

from bench.log_server import LogServer
from bench.site import Progress, Site, started_site
from bench.slow_clients import SlowClients
from bench.submission import percentiles, timed
from bench.web import Web, started_web
from bench.workload import one_group

FOLLOWERS, SMALL_FOLLOWERS = 1000, 100
REQUESTS, SMALL_REQUESTS = 400, 100
CALLERS = 4
WARM_UP = 100
POOL = BACKEND = "logs"
WANTED_MIB = 200
OPEN_SECONDS = 60
AT_ONCE = 50


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    followers, requests = (SMALL_FOLLOWERS, SMALL_REQUESTS) if small else (FOLLOWERS, REQUESTS)
    allowed = {"OSMO_LOG_FOLLOWERS": str(followers), "OSMO_LOG_USER_FOLLOWERS": str(followers)}
    report: dict[str, Any] = {"followers": followers, "wanted_mib": WANTED_MIB}
    with started_site(progress=progress, standins=False) as site:
        report["servers"] = site.servers()
        name = _running_workflow(site)
        for process in ("beat", "worker", "observer", "web"):
            site.supervisor.stop_one(process)
        with (
            _logs_from_here(site),
            started_web(site, "web_measured", "--workers", "1", more=allowed) as web,
        ):
            timed(lambda: web.rest.get("/api/pool"), count=WARM_UP, concurrency=CALLERS)
            report["alone"] = _figures(web, requests=requests)
            progress(f"log_followers: alone: {report['alone']}")
            with ExitStack() as stack:
                clients = _follow(stack, web, _request(web, name), count=followers)
                report["beside_followers"] = _figures(web, requests=requests)
                connected = sum(group.open_connections() for group in clients)
                report["beside_followers"]["connections"] = connected
            progress(f"log_followers: beside followers: {report['beside_followers']}")
    kib = (report["beside_followers"]["process_rss_mib"] - report["alone"]["process_rss_mib"]) * 1024
    return report | {"kib_per_follower": round(kib / followers, 1)}


def _running_workflow(site: Site) -> str:
    site.add_nodes(POOL, count=1)
    site.add_backend(BACKEND, "default")
    site.add_pool(POOL, backend=BACKEND, topology=False)
    name = site.submit(POOL, one_group(1, name="talker"))
    site.wait(
        lambda: site.rest.workflow(name)["status"] == "RUNNING", seconds=60, awaited="a running workflow"
    )
    return name


@contextmanager
def _logs_from_here(site: Site) -> Iterator[None]:
    """Let the service's kubeconfig name a server of logs; nothing else of the service runs any more."""
    assert site.running.plane is not None
    path, certificates = site.running.kubeconfig, site.running.plane.directory / "certs"
    text = path.read_text()
    content = yaml.safe_load(text)
    with LogServer(certificates) as server:
        for entry in content["clusters"]:
            entry["cluster"]["server"] = server.url
        path.write_text(yaml.safe_dump(content))
        try:
            yield
        finally:
            path.write_text(text)


def _follow(stack: ExitStack, web: Web, request: bytes, *, count: int) -> list[SlowClients]:
    """Let followers come, a few at a time as requests wait for threads, until each has its stream."""
    before = web.memory().files
    clients = []
    for opened in range(AT_ONCE, count + 1, AT_ONCE):
        clients.append(stack.enter_context(SlowClients(web.api_url, request, count=AT_ONCE)))
        web.site.wait(
            lambda opened=opened: web.memory().files >= before + 2 * opened,  # type: ignore[misc]
            seconds=OPEN_SECONDS,
            awaited=f"the cluster's streams of {opened} followers",
        )
    return clients


def _request(web: Web, workflow: str) -> bytes:
    token = web.rest.headers["Authorization"]
    return (
        f"GET /api/workflow/{workflow}/logs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {token}\r\n\r\n"
    ).encode()


def _figures(web: Web, *, requests: int) -> dict[str, Any]:
    began = time.monotonic()
    seconds = timed(lambda: web.rest.get("/api/pool"), count=requests, concurrency=CALLERS)
    per_second = round(requests / (time.monotonic() - began), 1)
    return {**percentiles(seconds), "per_second": per_second, "process_rss_mib": web.memory().rss}
