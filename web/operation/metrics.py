"""Metrics of this process: counters of requests, and the two ways to serve the page.

Web shows its page at ``/metrics``, summed over its processes (``web.server.webserver`` names their shared
directory). Everybody who reaches the API reaches it, so it needs the token of ``OSMO_METRICS_TOKEN`` and is
closed without one. Worker, observer and beat have no web server, so each serves the page on a port of its
own, on loopback by default; if a token is set, they require it too. ``/livez`` beside it needs none
(``pulse``). Names begin with ``osmo_`` in the code; a page shows ``OSMO_METRICS_PREFIX`` in its place,
by default ``osmo_topology_``, since OSMO's own metrics begin with ``osmo_``. Labels never carry values that
users choose: the route's pattern instead of the path, one word for unknown methods.

Rejected: pushing to a gateway (a dead process would look alive), and one port for all processes.
"""

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from web.operation import pulse
from web.operation.health import reads_only
from web.operation.scraping import bears_token
from web.rest import errors

SHARED_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client's own name for it
OWN_NAME = re.compile(rb"^((?:# (?:HELP|TYPE) )?)osmo_", re.MULTILINE)
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})

API_SECONDS = Histogram(
    "osmo_api_request_seconds",
    "Duration of API requests until the answer begins.",
    ("method", "route", "status"),
    buckets=(0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0),
)

log = structlog.get_logger(__name__)


class RequestMetricsMiddleware:
    """Count every request by its route and answer."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        began = time.monotonic()
        response = self.get_response(request)
        match = request.resolver_match
        method = request.method if request.method in METHODS else "other"
        route = match.route if match else "none"
        API_SECONDS.labels(method, route, response.status_code).observe(time.monotonic() - began)
        return response


def page() -> bytes:
    """The metrics of this process; in a web process, of all web processes."""
    registry = REGISTRY
    if SHARED_DIRECTORY in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library's constructor has no types
    return renamed(generate_latest(registry), prefix=settings.ENV.metrics_prefix)


def renamed(text: bytes, *, prefix: str) -> bytes:
    """The page with names of ours that begin with ``prefix`` instead; others are as they were."""
    return OWN_NAME.sub(rb"\g<1>" + prefix.encode(), text)


@reads_only
def view(request: HttpRequest) -> HttpResponse:
    """Web's page, for callers with the token."""
    if not bears_token(request.headers.get("Authorization", "")):
        return errors.token_needed(request)
    return HttpResponse(page(), content_type=CONTENT_TYPE_LATEST)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ServerOnIPv6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = 10  # of silence: a connection that says nothing holds a thread no longer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class's name
        """Log nothing: scrapes come every few seconds."""


def serve() -> WSGIServer | None:
    """Show this process's page on its port until it ends; None if it has none."""
    env = settings.ENV
    if not env.metrics_port:
        return None
    server = listen(env.metrics_host, env.metrics_port)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    log.info("metrics_shown", host=env.metrics_host, port=env.metrics_port)
    return server


def listen(host: str, port: int) -> WSGIServer:
    """Open the port; an address with colons is one of IPv6."""
    kind = _ServerOnIPv6 if ":" in host else _Server
    return make_server(host, port, _application, kind, _Quiet)


def _application(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    if environ["PATH_INFO"] == "/livez":
        faults = pulse.faults()
        status = "503 Service Unavailable" if faults else "200 OK"
        return _plain(start_response, status, "; ".join(faults) or "ok")
    if environ["PATH_INFO"] != "/metrics":
        return _plain(start_response, "404 Not Found")
    if settings.ENV.metrics_token and not bears_token(environ.get("HTTP_AUTHORIZATION", "")):
        return _plain(start_response, "401 Unauthorized")
    body = page()
    start_response("200 OK", [("Content-Type", CONTENT_TYPE_LATEST), ("Content-Length", str(len(body)))])
    return [body]


def _plain(start_response: Callable[..., object], status: str, text: str = "") -> Iterable[bytes]:
    body = f"{text or status}\n".encode()
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
