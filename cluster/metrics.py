"""Metrics of requests to API servers, counted where each request is sent.

Labels have few values: a verb in RBAC's terms, a resource, and "ok" or the name of an error of
``cluster.errors``. No label carries the name of an object or of a namespace. Importing this starts nothing
and opens nothing.
"""

import time
from collections import Counter as Counted
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Histogram

from cluster.api_requests import Request, subject_of
from cluster.errors import ClusterError

CALL_SECONDS = Histogram(
    "osmo_cluster_call_seconds",
    "Duration of requests to API servers; of a watch or log until it begins.",
    ("verb", "kind", "result"),
    buckets=(0.005, 0.02, 0.1, 0.5, 2.5, 10.0, 25.0),
)
BULK_WRITES = Counter(
    "osmo_cluster_bulk_writes",
    "Objects written in bulk, by outcome of each write.",
    ("verb", "kind", "outcome"),
)


@contextmanager
def timed(request: Request) -> Iterator[None]:
    """Count a request, its duration and its result."""
    verb, kind = subject_of(request)
    began, result = time.monotonic(), "ok"
    try:
        yield
    except ClusterError as error:
        result = error.code
        raise
    finally:
        CALL_SECONDS.labels(verb, kind, result).observe(time.monotonic() - began)


def count_bulk(request: Request, outcomes: Iterable[str]) -> None:
    """Count the writes of one call, of which ``request`` is one."""
    verb, kind = subject_of(request)
    for outcome, count in Counted(outcomes).items():
        BULK_WRITES.labels(verb, kind, outcome).inc(count)
