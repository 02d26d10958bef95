"""An ordinary caller beside a user whose documents are within all limits and expensive to read.

The web processes' own CPU time and memory count apart from those of processes that they start. The documents
are validated, so nothing is written. Each costs seconds, or megabytes, for a few bytes or kilobytes.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.site import Progress, Site, started_site
from bench.submission import percentiles, timed
from bench.usage import cpu_seconds
from localcluster.rest import Refused, Rest

REQUESTS, SMALL_REQUESTS = 1000, 100
CALLERS = 4
BURNERS = 16
POOL = BACKEND = "expensive"
WARM_UP = 50
WORKFLOW = "workflow: {name: a, tasks: [{name: b, image: c, command: [%s]}]}"
VALUES = ",".join(["1"] * 20_000)
DOCUMENTS = {
    "template_cpu": "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
    "template_4_mib": WORKFLOW % "{{'é'*2000000}}",
    "template_16_mib": WORKFLOW % "{{'é'*8000000}}",
    "values_60000": "workflow:\n  name: a\n  tasks:\n"
    + "".join(f"  - {{name: t{n}, image: c, command: [d], args: [{VALUES}]}}\n" for n in range(3)),
}


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    count = SMALL_REQUESTS if small else REQUESTS
    with started_site(progress=progress, standins=False, more={"OSMO_SUBMITS_PER_MINUTE": "0"}) as site:
        site.add_nodes(POOL, count=1)
        site.add_backend(BACKEND, "default")
        site.add_pool(POOL, backend=BACKEND, topology=False)
        user = _User(site)
        costs = {name: _cost(site, user, name) for name in DOCUMENTS}
        progress(f"expensive_documents: of one document: {costs}")
        timed(lambda: site.rest.get("/api/pool"), count=WARM_UP, concurrency=CALLERS)
        report: dict[str, Any] = {"alone": _phase(site, user, "", count=count)}
        progress(f"expensive_documents: alone: {report['alone']}")
        for name in ("template_cpu", "values_60000"):
            report[f"beside_{BURNERS}_{name}"] = _phase(site, user, name, count=count)
            progress(f"expensive_documents: beside {name}: {report[f'beside_{BURNERS}_{name}']}")
        report["alone_again"] = _phase(site, user, "", count=count)
        servers = site.servers()
    return {"servers": servers, "callers": CALLERS, "bytes": _sizes(), "one_document": costs, **report}


def _sizes() -> dict[str, int]:
    return {name: len(text.encode()) for name, text in DOCUMENTS.items()}


def _cost(site: Site, user: "_User", name: str) -> dict[str, Any]:
    """What one document costs the web processes themselves, once they have read another like it."""
    processes = _web_processes(site)
    for _ in range(2 * len(processes)):
        user.validate(name)
    before = _own_seconds(processes)
    peaks = {pid: _resident(pid) for pid in processes}
    for pid in processes:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # proc(5): begin the peak anew
    began = time.monotonic()
    status = user.validate(name)
    seconds = time.monotonic() - began
    return {
        "status": status,
        "seconds": round(seconds, 3),
        "web_own_cpu_seconds": round(_own_seconds(processes) - before, 3),
        "web_peak_growth_mib": max(_peak(pid) - peaks[pid] for pid in processes),
    }


def _phase(site: Site, user: "_User", name: str, *, count: int) -> dict[str, Any]:
    processes = _web_processes(site)
    with user.burning(name):
        before, all_before, began = (
            _own_seconds(processes),
            cpu_seconds(site.supervisor)["web"],
            time.monotonic(),
        )
        seconds = timed(lambda: site.rest.get("/api/pool"), count=count, concurrency=CALLERS)
        took = time.monotonic() - began
        own, everything = _own_seconds(processes) - before, cpu_seconds(site.supervisor)["web"] - all_before
    return {
        **percentiles(seconds),
        "per_second": round(count / took, 1),
        "web_own_cpu_share": round(own / took, 2),
        "web_and_children_cpu_share": round(everything / took, 2),
        "answers_to_burners": user.take_answers(),
    }


@dataclass(slots=True)
class _User:
    """A user of the service with documents to validate."""

    site: Site
    answers: Counter[int] = field(default_factory=Counter)

    def validate(self, name: str) -> int:
        """Validate a document; returns the answer's status."""
        return self._validate(self._client(), name)

    @contextmanager
    def burning(self, name: str) -> Iterator[None]:
        """Validate one document again and again, in many threads; an empty name: none."""
        stopped = threading.Event()
        threads = [
            threading.Thread(target=self._burn, args=(name, stopped)) for _ in range(BURNERS if name else 0)
        ]
        for thread in threads:
            thread.start()
        try:
            if threads:
                time.sleep(1)
            yield
        finally:
            stopped.set()
            for thread in threads:
                thread.join()

    def take_answers(self) -> dict[str, int]:
        answers = {str(status): count for status, count in sorted(self.answers.items())}
        self.answers.clear()
        return answers

    def _client(self) -> Rest:
        client = Rest(api_url=self.site.running.api_url, token="")
        client.headers = {"x-osmo-user": "burner", "Content-Type": "application/json"}
        return client

    def _burn(self, name: str, stopped: threading.Event) -> None:
        client = self._client()
        while not stopped.is_set():
            status = self._validate(client, name)
            self.answers[status] += 1
            if status != 200:
                stopped.wait(0.2)  # refused burners press on, without being the load themselves

    def _validate(self, client: Rest, name: str) -> int:
        try:
            client.submit(POOL, DOCUMENTS[name], validation_only="true")
        except Refused as refused:
            return refused.status
        return 200


def _web_processes(site: Site) -> list[int]:
    """The processes that answer, without those that they started."""
    (leader,) = (child.pid for child in site.supervisor.children if child.command.name == "web")
    return [int(pid) for pid in Path(f"/proc/{leader}/task/{leader}/children").read_text().split()]


def _own_seconds(processes: list[int]) -> float:
    """CPU seconds of processes without those that they have waited for."""
    ticks = 0
    for pid in processes:
        ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> int:
    return _status(pid, "VmHWM")


def _resident(pid: int) -> int:
    return _status(pid, "VmRSS")


def _status(pid: int, name: str) -> int:
    """MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) // 1024
