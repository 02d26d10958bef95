"""Queries that run again and again, and lists, on a database with a million ended workflows.

PostgreSQL alone is started and filled (``aged``); every periodic query and every list runs in a process of
its own under the service's Django. For each of them the report has the time, the median of three, and the big
tables that its plans read from end to end: none may be read by what beat sends. At the end, ended workflows
are removed for a while, and the report has how many a second.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from bench import plans
from bench.aged import fill
from localcluster.directories import CHECKOUT, note_home, run_directory
from localcluster.servers import Home, start_postgres
from localcluster.supervisor import Supervisor, clean_environment

WORKFLOWS, SMALL_WORKFLOWS = 1_000_000, 50_000
REMOVAL_SECONDS = 20.0
MOST_SECONDS = 900
ROUNDS = 3


def measure(*, small: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    workflows = SMALL_WORKFLOWS if small else WORKFLOWS
    with run_directory("bench") as directory, Supervisor(log_dir=directory / "logs") as supervisor:
        home = Home.make(directory / "home")
        if home.temporary:
            note_home(directory, home.data)
        try:
            url = start_postgres(supervisor, home, durable=False)
            run_service(url, "manage.py", "migrate", "--noinput")
            progress(f"retention: filling {workflows} workflows")
            began = time.monotonic()
            aged = fill(url, workflows=workflows)
            seconds = round(time.monotonic() - began)
            progress(f"retention: filled in {seconds} s")
            report: dict[str, Any] = json.loads(run_service(url, "-m", "bench.retention").splitlines()[-1])
        finally:
            home.remove()
    return {"workflows": aged.workflows, "database_bytes": aged.bytes, "filled_in_seconds": seconds} | report


def run_service(url: str, *arguments: str) -> str:
    """Run our Python in a process that knows the database alone, and return what it prints."""
    environment = clean_environment() | {
        "OSMO_ENV": "development",
        "OSMO_DATABASE_URL": url,
        "OSMO_WORKFLOW_DAYS": "90",
        "OSMO_DATABASE_STATEMENT_SECONDS": "300",
        "PYTHONPATH": str(CHECKOUT),
    }
    done = subprocess.run(  # noqa: S603 -- our own module under our own interpreter
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _probes() -> dict[str, Callable[[], object]]:
    """What runs again and again, and the lists, each as a call."""
    from django.contrib.auth.models import User  # noqa: PLC0415 -- once Django is set up

    from workflows import selectors  # noqa: PLC0415 -- the same
    from workflows.api.task_page import TaskFilter, task_page  # noqa: PLC0415 -- the same
    from workflows.feasibility import measured_fragmentation  # noqa: PLC0415 -- the same
    from workflows.logs import sweep as logs  # noqa: PLC0415 -- the same
    from workflows.reconcile import orphans  # noqa: PLC0415 -- the same
    from workflows.services import gauges, levels, retention, sweep  # noqa: PLC0415 -- the same
    from workflows.submission import backpressure, quotas  # noqa: PLC0415 -- the same
    from workflows.usage import WorkflowUsage  # noqa: PLC0415 -- the same

    user, _ = User.objects.get_or_create(username="root", is_superuser=True)
    limits = (
        quotas.Limit(setting="a", counts="workflows", most=10**9, user="user-1"),
        quotas.Limit(setting="b", counts="tasks", most=10**9, user="user-1"),
        quotas.Limit(setting="c", counts="workflows", most=10**9, pool="pool-1"),
    )

    def listed(**criteria: Any) -> Callable[[], object]:
        return lambda: selectors.workflow_page(
            selectors.WorkflowFilter(**criteria), user=user, limit=20, offset=0, order="DESC"
        )

    def tasks(**criteria: Any) -> Callable[[], object]:
        return lambda: task_page(TaskFilter(**criteria), user=user, limit=20, offset=0, order="DESC")

    usage = WorkflowUsage()
    return {
        "periodic: due groups": sweep.due_groups,
        "periodic: purge observations": sweep.purge_observations,
        "periodic: namespaces of the orphan sweep": lambda: orphans.namespaces_of("aged"),
        "periodic: settle released logs": logs.settle_released,
        "periodic: backends with unread logs": logs.backends_due,
        "periodic: claim of logs": lambda: logs.claim(1),
        "periodic: bounds of the log store": logs.keep_within_bounds,
        "periodic: level conditions": lambda: levels.evaluate("aged"),
        "periodic: clusters to measure": measured_fragmentation.clusters_measured,
        "periodic: needed topologies": lambda: usage.needed_topologies("aged"),
        "periodic: needed queues": lambda: usage.needed_queues("aged"),
        "periodic: needed priority classes": lambda: usage.needed_priority_classes("aged"),
        "periodic: gauges": gauges.read,
        "periodic: revisions to remove": retention.remove_revisions,
        "submission: backlog": backpressure.read_backlog,
        "submission: limits": lambda: quotas.check_limits(limits, tasks=1),
        "pools: live workflows": lambda: usage.live_workflows("pool-1"),
        "pools: live workflows of all": usage.living_by_pool,
        "list: newest": listed(),
        "list: of a user": listed(users=("user-7",)),
        "list: of a status": listed(statuses=("RUNNING",)),
        "list: of a status that none has": listed(statuses=("FAILED_EVICTED",)),
        "list: of a pool": listed(pools=("pool-3",)),
        "list: by a tag": listed(tags=("keep",)),
        "list: by a tag that none has": listed(tags=("none",)),
        "list: by a frequent label": listed(labels=(("team", "t7"),)),
        "list: by a rare label": listed(labels=(("run", "r77"),)),
        "list: by a frequent name": listed(name="train-7"),
        "list: by a rare name": listed(name="train-77-5"),
        "list: by a name that none has": listed(name="nothing"),
        "list: tags": lambda: selectors.tags_in_use(user),
        "list: users": lambda: selectors.submitters(user),
        "list: tasks of a user": tasks(users=("user-7",)),
        "list: tasks of a status": tasks(statuses=("RUNNING",)),
    }


def _probe(call: Callable[[], object]) -> dict[str, Any]:
    """Time a call, and read the plans of its statements."""
    from django.db import connection  # noqa: PLC0415 -- once Django is set up
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415 -- the same

    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    with CaptureQueriesContext(connection) as captured:
        call()
    read = plans.of_statements([query["sql"] for query in captured.captured_queries])
    scanned = {table for plan in read for table in plan.scanned_tables}
    return {"ms": round(statistics.median(times) * 1000, 1), "reads_whole": sorted(scanned)}


def _removal() -> dict[str, Any]:
    from workflows.services import retention  # noqa: PLC0415 -- once Django is set up

    began = time.monotonic()
    removed = retention.remove_old(seconds=REMOVAL_SECONDS)
    seconds = time.monotonic() - began
    return {
        "seconds": round(seconds, 1),
        "removed": dict(removed),
        "workflows_per_second": round(removed["workflows"] / seconds),
    }


def main() -> None:
    """Print the figures of the database that the environment names; see ``measure``."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "osmo_topology.settings"
    import django  # noqa: PLC0415 -- only in this process

    django.setup()
    report = {"queries": {name: _probe(call) for name, call in _probes().items()}}
    sys.stdout.write(json.dumps(report | {"removal": _removal()}) + "\n")


if __name__ == "__main__":
    main()
