"""A workflow of many task groups of one task each: the cost of a group, and the start of its neighbours.

The groups of a *cancel* were never created: they wait for the first group, which runs, or for their cluster,
which is away. A *sweep* runs and ends all of them at once, a *fan-out* all after the first. Each is measured
alone, for what a group costs, and beside neighbours: another user submits workflows of one task, one after
the other, into the same pool and into another pool of the same cluster. A start is the time from submission
to the first answer that shows the workflow running; one that is under way at the end is waited for.
"""

import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, LiteralString

import psycopg

from bench.site import Progress, Site, started_site
from bench.usage import cpu_seconds, spent
from bench.workload import IMAGE, one_group
from localcluster.rest import Rest
from localcluster.service import OneOff

SIZES, SMALL_SIZES = (10, 1_000, 10_000), (10, 100)
UNDISTURBED_SECONDS, LEAD_SECONDS, PAUSE_SECONDS, PATIENCE_SECONDS = 20.0, 2.0, 0.5, 3600.0
POOL, OTHER, AWAY = "wide", "other", "away"
LIMITS = {"OSMO_BACKLOG_GROUPS": "1000000", "OSMO_POOL_BACKLOG_GROUPS": "1000000"}
GROUPS = " FROM workflows_taskgroup g JOIN workflows_workflow w ON w.uuid = g.workflow_id WHERE "
LEFT = "SELECT count(*)" + GROUPS + "w.submitted_by = 'admin' AND g.released_at IS NULL AND "
DUE = "SELECT extract(epoch FROM max(processing_start_time) - min(g.end_time))" + GROUPS + "w.name = %s"  # noqa: S608 -- constants
WORK = "SELECT xact_commit, tup_returned + tup_fetched FROM pg_stat_database WHERE datname = 'osmo'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """``starting`` selects groups that are none any more when the workflow is cancelled; empty: it runs."""

    pool: str = POOL
    chained: bool = False
    starting: LiteralString = ""


FIRST_RUNS = "(g.status = 'SUBMITTING' OR g.position = 0 AND g.status <> 'RUNNING')"
FORMS = {
    "cancel_waiting": Form(chained=True, starting=FIRST_RUNS),
    "cancel_away": Form(pool=AWAY, starting="g.status = 'SUBMITTING'"),
    "sweep": Form(),
    "fan_out": Form(chained=True),
}


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name, form in FORMS.items():
        with started_site(progress=progress, standins=False, more=LIMITS) as site:
            _configure(site)
            token = OneOff(site.running.settings, ("make_token", "neighbour")).result()
            pools = [OTHER] if form.pool == AWAY else [POOL, OTHER]
            with _neighbours(site, token, pools) as starts:
                time.sleep(UNDISTURBED_SECONDS)
            figures[name] = {"undisturbed_start": _seconds(starts)}
            for size in SMALL_SIZES if small else SIZES:
                alone = _life(site, form, size)
                with _neighbours(site, token, pools) as starts:
                    beside = _life(site, form, size)
                figures[name][str(size)] = {"alone": alone, "beside": beside, "start": _seconds(starts)}
                progress(f"wide: {name} of {size}: {figures[name][str(size)]}")
    return figures


def _configure(site: Site) -> None:
    assert site.running.plane is not None
    for backend, pools in {POOL: (POOL, OTHER), AWAY: (AWAY,)}.items():
        site.add_backend(backend, "default")
        for pool in pools:
            site.add_nodes(pool, count=8, pods=2_000)
            site.add_pool(pool, backend=backend, topology=False)
    wrong = site.running.kubeconfig.with_name("wrong.kubeconfig")
    wrong.touch(mode=0o600)
    text = site.running.kubeconfig.read_text()
    wrong.write_text(text.replace(site.running.plane.server, "https://127.0.0.1:1"))
    path = f"/api/configs/backend/{AWAY}"
    site.rest.put(path, {"configs": {**site.rest.get(path), "kubeconfig": str(wrong)}})


def _life(site: Site, form: Form, size: int) -> dict[str, float]:
    """From the submission of a wide workflow, or from its cancel, until all of its groups are released."""
    if form.starting:
        name = site.submit(form.pool, _workflow(size, form))
        _wait(site, form.starting)
        time.sleep(LEAD_SECONDS)
    began, used, work = time.monotonic(), cpu_seconds(site.supervisor), _row(site, WORK)
    if form.starting:
        site.rest.cancel(name)
    else:
        name = site.submit(form.pool, _workflow(size, form))
    _wait(site, "true")
    seconds, cpu = time.monotonic() - began, spent(used, cpu_seconds(site.supervisor))
    figures = {"seconds": round(seconds, 2)}
    for server in ("worker", "postgres"):
        figures[f"{server}_cpu_ms_of_a_group"] = round(1000 * cpu.get(server, 0.0) / size, 2)
    for unit, start, end in zip(("transactions", "rows_read"), work, _row(site, WORK), strict=True):
        figures[f"{unit}_of_a_group"] = round((end - start) / size, 1)
    if form.chained and not form.starting:
        figures["seconds_until_due"] = round(float(_row(site, DUE, name)[0]), 2)
    return figures


def _wait(site: Site, which: LiteralString) -> None:
    question = LEFT + which
    site.wait(lambda: not site.count(question), seconds=PATIENCE_SECONDS, awaited=f"no group with {which}")


def _row(site: Site, question: LiteralString, *values: str) -> tuple[Any, ...]:
    with psycopg.connect(site.running.settings.database_url) as connection:
        return connection.execute(question, values).fetchone() or ()


def _workflow(size: int, form: Form) -> str:
    labels = "" if form.starting else "sim.osmo.local/run-for: 0s"
    lines = ["workflow:", "  name: wide", f"  labels: {{{labels}}}", "  groups:"]
    for number in range(size):
        after = ", inputs: [{task: t0}]" if form.chained and number else ""
        task = f"{{name: t{number}, image: {IMAGE}, command: [python], resource: r{after}}}"
        lines.append(f"  - {{name: g{number}, tasks: [{task}]}}")
    return "\n".join([*lines, "  resources:", "    r: {cpu: 1, memory: 1Gi}"])


@contextmanager
def _neighbours(site: Site, token: str, pools: Sequence[str]) -> Iterator[dict[str, list[float]]]:
    """Another user's small workflows in these pools; their starts are there at the end."""
    stop, starts = threading.Event(), dict[str, list[float]]()
    with ThreadPoolExecutor(len(pools)) as threads:
        running = {pool: threads.submit(_start_often, site, token, pool, stop) for pool in pools}
        try:
            yield starts
        finally:
            stop.set()
        starts.update({pool: thread.result() for pool, thread in running.items()})


def _start_often(site: Site, token: str, pool: str, stop: threading.Event) -> list[float]:
    rest, starts = Rest(api_url=site.running.api_url, token=token), list[float]()
    while not starts or not stop.wait(PAUSE_SECONDS):
        began = time.monotonic()
        name = rest.submit(pool, one_group(1, name="neighbour"))["name"]
        runs = partial(_runs, rest, name)
        site.wait(runs, seconds=PATIENCE_SECONDS, awaited=f"{name} in pool {pool} to run")
        starts.append(time.monotonic() - began)
        rest.cancel(name)
    return starts


def _runs(rest: Rest, name: str) -> bool:
    return bool(rest.workflow(name)["status"] == "RUNNING")


def _seconds(starts: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {
        pool: {"p50": round(statistics.median(own), 2), "most": round(max(own), 2), "count": len(own)}
        for pool, own in starts.items()
    }
