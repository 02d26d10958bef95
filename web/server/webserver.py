"""gunicorn's settings of the web processes; its command line has the addresses and the number of processes.

Several processes count requests, and a scrape reaches one of them. So they write into a directory that the
first one makes, and the process that is scraped adds up. The counts of an ended process stay in the sum.

The headers of a gateway are checked in ``web.server.environ`` and not in gunicorn's ``pre_request``: under an
event loop gunicorn hands the headers on before it calls that hook, and never looks at what it changed.
"""

import os
import resource
import shutil
import tempfile
from typing import Any

DIRECTORY = tempfile.mkdtemp(prefix="osmo-metrics-")
os.environ["PROMETHEUS_MULTIPROC_DIR"] = DIRECTORY  # read by prometheus_client when it is imported

preload_app = True  # loaded once, before the processes are forked: they share its memory and start at once
worker_class = "web.server.protocol.BoundedWorker"
asgi_lifespan = "off"
asgi_loop = "asyncio"
asgi_disconnect_grace_period = 0  # nobody waits for a client that has gone; threads finish their work
http_parser = "python"  # one parser, whatever else is installed
limit_request_line = 0  # a command for a task may be long; ``HEADER_BYTES`` bounds it with the headers
keepalive = 5
graceful_timeout = 15
backlog = 4096
control_socket_disable = True  # nobody speaks to it, and a read-only container has no home to put it in


def _raise_file_limit() -> None:
    """Allow this process and its children as many open files as the system lets them have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


_raise_file_limit()


def child_exit(server: Any, worker: Any) -> None:  # noqa: ARG001 -- gunicorn's hook
    """Drop the live values of a process that ended."""
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415 -- after the variable is set

    mark_process_dead(worker.pid, DIRECTORY)  # type: ignore[no-untyped-call]  # the library gives none


def on_exit(server: Any) -> None:  # noqa: ARG001 -- gunicorn's hook
    """Remove the counts of the server that ends."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
