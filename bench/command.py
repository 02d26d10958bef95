"""CPU seconds that the command ``osmo-topology`` takes to begin, alone and with one list.

Each run is a process of its own, and its CPU time is the kernel's count, children included, so that a busy
machine matters little. The list comes from a server of this process that answers at once.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from typing import Any

LIMITS = {"--version": 0.15, "pools": 0.35}
RUNS, SMALL_RUNS = 21, 5

POOL = {
    "status": "ONLINE",
    "nvlink": True,
    "description": "",
    "platforms": {"gb200": {}},
    "topology_keys": [{"key": "zone"}, {"key": "rack"}],
}
REPLY = json.dumps({"pools": {f"pool-{number}": POOL for number in range(20)}}).encode()


class _Pools(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(REPLY)))
        self.end_headers()
        self.wfile.write(REPLY)

    def log_message(self, *_: object) -> None:
        """Write nothing: the report is on standard output, progress on standard error."""


@contextmanager
def _service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pools)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _cpu_seconds(words: Sequence[str], environment: dict[str, str]) -> float:
    command = [sys.executable, "-m", "osmo_topology_cli", *words]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603 -- ours
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"osmo-topology {' '.join(words)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def measure(*, small: bool, **_: object) -> dict[str, Any]:
    """The median and the least of several runs, after one that compiles and is not counted."""
    report: dict[str, Any] = {}
    with _service() as url:
        environment = {**os.environ, "OSMO_URL": url, "OSMO_TOKEN": "t"}
        for word, limit in LIMITS.items():
            _cpu_seconds([word], environment)
            seconds = [_cpu_seconds([word], environment) for _ in range(SMALL_RUNS if small else RUNS)]
            report[word] = {
                "cpu_seconds": round(median(seconds), 3),
                "least": round(min(seconds), 3),
                "wanted": limit,
                "runs": len(seconds),
            }
    return report
