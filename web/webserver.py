"""gunicorn's settings of the web processes; its command line has the addresses and the number of processes.

Several processes count requests, and a scrape reaches one of them. So they write into a directory that the
first one makes, and the process that is scraped adds up. The counts of an ended process stay in the sum.
"""

import os
import shutil
import tempfile
from typing import Any

from web import gateway

DIRECTORY = tempfile.mkdtemp(prefix="osmo-metrics-")
os.environ["PROMETHEUS_MULTIPROC_DIR"] = DIRECTORY  # read by prometheus_client when a child imports it


def pre_request(worker: Any, request: Any) -> None:  # noqa: ARG001 -- gunicorn's hook
    """Refuse a request that repeats a gateway's header, before WSGI joins the two."""
    request.headers = gateway.once(request.headers)


def child_exit(server: Any, worker: Any) -> None:  # noqa: ARG001 -- gunicorn's hook
    """Drop the live values of a process that ended."""
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415 -- after the variable is set

    mark_process_dead(worker.pid, DIRECTORY)  # type: ignore[no-untyped-call]  # the library gives none


def on_exit(server: Any) -> None:  # noqa: ARG001 -- gunicorn's hook
    """Remove the counts of the server that ends."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
