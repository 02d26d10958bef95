"""What web's worker serves beside gunicorn's threaded one: the same Django application, request for request.

Both run at once on the same databases and take turns in blocks. On a small machine the callers need the
cores too, so the processor time of the server for a request is the better figure.
"""

import statistics
import time
from typing import Any

from bench.site import Progress, started_site
from bench.submission import percentiles, timed
from bench.usage import cpu_seconds
from bench.web import Web, started_web

POOL = BACKEND = "plain"
REQUESTS, SMALL_REQUESTS = 200, 50
BLOCKS = 6
CALLERS = 8
WARM_UP = 200
APPLICATION = "osmo_topology.wsgi"
THREADED = ("--worker-class", "gthread", "--threads", "8")


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    requests = SMALL_REQUESTS if small else REQUESTS
    report: dict[str, Any] = {"callers": CALLERS, "requests": requests * BLOCKS}
    with started_site(progress=progress, standins=False) as site:
        report["servers"] = site.servers()
        site.add_nodes(POOL, count=1)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        for name in ("beat", "worker", "web"):
            site.supervisor.stop_one(name)
        with (
            started_web(site, "bounded") as bounded,
            started_web(site, "gthread", *THREADED, application=APPLICATION) as gthread,
        ):
            report |= _compare(bounded, gthread, requests=requests)
    progress(f"web_workers: {report}")
    return report


def _compare(*servers: Web, requests: int) -> dict[str, Any]:
    seconds: dict[str, list[float]] = {web.name: [] for web in servers}
    rates: dict[str, list[float]] = {web.name: [] for web in servers}
    for web in servers:
        timed(lambda web=web: web.rest.get("/api/pool"), count=WARM_UP, concurrency=CALLERS)  # type: ignore[misc]
    before = cpu_seconds(servers[0].site.supervisor)
    for number in range(BLOCKS):
        for web in servers if number % 2 else reversed(servers):
            began = time.monotonic()
            seconds[web.name] += timed(
                lambda web=web: web.rest.get("/api/pool"),  # type: ignore[misc]
                count=requests,
                concurrency=CALLERS,
            )
            rates[web.name].append(requests / (time.monotonic() - began))
    after = cpu_seconds(servers[0].site.supervisor)
    report: dict[str, Any] = {
        web.name: {
            **percentiles(seconds[web.name]),
            "per_second": round(statistics.median(rates[web.name]), 1),
            "cpu_ms": round((after[web.name] - before[web.name]) * 1000 / (requests * BLOCKS), 2),
            "process_rss_mib": web.memory().rss,
        }
        for web in servers
    }
    report["ratio"] = round(report["bounded"]["per_second"] / report["gthread"]["per_second"], 2)
    report["ratio_by_round"] = [
        round(own / other, 2) for own, other in zip(rates["bounded"], rates["gthread"], strict=True)
    ]
    return report
