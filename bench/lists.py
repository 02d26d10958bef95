"""Lists, details and histories in a database of a million ended workflows and twenty million events.

PostgreSQL alone is started and filled (``aged``). The service's own views answer in a process of their own
through Django's test client: the times cover everything that web does for a request, without gunicorn and the
network. That no request reads a big table whole is a test (``tests/db/workflows/test_list_plans.py``).
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import pool_nodes
from bench.aged import POOLS, fill
from localcluster.directories import CHECKOUT, note_home, run_directory
from localcluster.servers import Home, create_database, start_postgres
from localcluster.supervisor import Supervisor, clean_environment

WORKFLOWS, SMALL_WORKFLOWS = 1_000_000, 20_000
EVENTS = 20
REQUESTS = 40
MOST_SECONDS = 3600


def measure(*, small: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    workflows = SMALL_WORKFLOWS if small else WORKFLOWS
    with run_directory("bench") as directory, Supervisor(log_dir=directory / "logs") as supervisor:
        home = Home.make(directory / "home")
        if home.temporary:
            note_home(directory, home.data)
        try:
            url = create_database(start_postgres(supervisor, home, durable=False), "aged")
            _run_service(url, "manage.py", "migrate", "--noinput")
            progress(f"lists: filling {workflows} workflows")
            size = fill(url, workflows=workflows, events=EVENTS)
            progress("lists: filled")
            requests = json.loads(_run_service(url, "-m", "bench.lists").splitlines()[-1])
        finally:
            home.remove()
    return {
        "workflows": workflows,
        "events_of_each": EVENTS,
        "database_bytes": size,
        "requests": requests,
        "most_p95_ms": max(request["p95_ms"] for request in requests.values()),
        "most_p95_cpu_ms": max(request["p95_cpu_ms"] for request in requests.values()),
    }


def _run_service(url: str, *arguments: str) -> str:
    """Run our Python in a process that knows the database alone, and return what it prints."""
    service = {
        "OSMO_ENV": "development",
        "OSMO_DATABASE_URL": url,
        "OSMO_DATABASE_STATEMENT_SECONDS": "300",
        "PYTHONPATH": str(CHECKOUT),
    }
    done = subprocess.run(  # noqa: S603 -- our own module under our own interpreter
        [sys.executable, *arguments],
        cwd=CHECKOUT,
        env=clean_environment() | service,
        capture_output=True,
        text=True,
        check=False,
        timeout=MOST_SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def addresses(workflows: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Addresses by what they are requests of; those of one kind take turns."""
    listed = "/api/workflow?all_users=true&"
    return {
        "list": [f"{listed}limit=20", f"{listed}limit=50&offset=100"],
        "list: oldest first": [f"{listed}order=ASC"],
        "list: of a user": [f"/api/workflow?users=user-{n}" for n in range(0, 200, 20)],
        "list: of a user who has none": ["/api/workflow?users=nobody"],
        "list: of a status": [f"{listed}statuses={status}" for status in ("RUNNING", "FAILED", "COMPLETED")],
        "list: of a status that none has": [f"{listed}statuses=FAILED_EVICTED"],
        "list: of statuses that few have": [f"{listed}statuses=RUNNING&statuses=FAILED_EVICTED"],
        "list: of a pool": [f"{listed}pools=pool-{n}" for n in range(10)],
        "list: of a pool that has none": [f"{listed}pools=other"],
        "list: of a user and a status": [f"/api/workflow?users=user-{n}&statuses=RUNNING" for n in range(9)],
        "list: by a tag": [f"{listed}tags=keep"],
        "list: by a tag that none has": [f"{listed}tags=none"],
        "list: by a frequent label": [f"{listed}label=team=t{n}" for n in range(10)],
        "list: by a rare label": [f"{listed}label=run=r{n}" for n in range(7, 9000, 1000)],
        "list: by a label that none has": [f"{listed}label=none"],
        "list: by a frequent name": [f"{listed}name=train-{n}" for n in range(1, 10)],
        "list: by a rare name": [f"{listed}name=rain-{n}7-5" for n in range(1, 10)],
        "list: by a name that none has": [f"{listed}name=nothing", f"{listed}name=train-train"],
        "list: by two frequent letters": [f"{listed}name=tr"],
        "list: by two letters that none has": [f"{listed}name=zz"],
        "list: by name, of a user": [f"/api/workflow?users=user-7&name=train-{n}" for n in range(9)],
        "list: of tasks": ["/api/task?all_users=true"],
        "list: of a user's tasks": [f"/api/task?users=user-{n}" for n in range(0, 200, 20)],
        "list: of tasks of a status": [
            f"/api/task?all_users=true&statuses={s}" for s in ("RUNNING", "FAILED")
        ],
        "list: of tasks of a status that none has": ["/api/task?all_users=true&statuses=FAILED_EVICTED"],
        "list: of tasks on a node": ["/api/task?all_users=true&nodes=node-7"],
        "list: of tasks on a node that has none": ["/api/task?all_users=true&nodes=node-x"],
        "list: of a workflow's tasks": [f"/api/task?all_users=true&workflow_id={name}" for name in workflows],
        "list: of tags": ["/api/tag"],
        "list: of users": ["/api/users"],
        "page: workflows": ["/ui/workflows?whose=all", "/ui/workflows?whose=all&offset=100"],
        "page: workflows by name": ["/ui/workflows?whose=all&name=rain-77-5"],
        "page: workflows of a pool": ["/ui/workflows?whose=all&pool=pool-3"],
        "page: a workflow": [f"/ui/workflows/{name}" for name in workflows],
        "page: pools": ["/ui/"],
        "page: a pool": ["/ui/pools/pool-3"],
        "detail": [f"/api/workflow/{name}" for name in workflows],
        "events": [f"/api/workflow/{name}/events" for name in workflows],
        "events of a task": [f"/api/workflow/{name}/events?task_name=worker-0" for name in workflows],
        "history of configuration": ["/api/configs/history", "/api/configs/history?config_types=POOL"],
        "outcomes of a pool": [f"/api/pool/pool-{n}/outcomes" for n in range(10)],
        "quotas": ["/api/pool_quota?all_pools=true"],
    }


def make_pools() -> None:
    """The pools of the workflows that were filled in."""
    from pools.models import Backend, Pool  # noqa: PLC0415 -- once Django is set up

    backend = Backend.objects.get(name="aged")
    for number in range(POOLS):
        Pool.objects.get_or_create(name=f"pool-{number}", backend=backend)


def _ask() -> Iterator[tuple[str, dict[str, float]]]:
    client = pool_nodes.client()
    from django.db import connection  # noqa: PLC0415 -- once Django is set up

    from workflows.models import Workflow  # noqa: PLC0415 -- the same

    make_pools()
    names = Workflow.objects.order_by("submit_time").values_list("name", flat=True)
    middle = names.count() // 2
    for kind, paths in addresses([*names[:5], *names[middle : middle + 5], *names.reverse()[:5]]).items():
        client.get(paths[0])  # reads that happen once in a process's life do not count
        server = f"/proc/{connection.connection.info.backend_pid}/schedstat"
        times, cpu = [], []
        for number in range(REQUESTS):
            began = time.perf_counter(), _cpu_ms(server)
            answer = client.get(paths[number % len(paths)])
            times.append((time.perf_counter() - began[0]) * 1000)
            cpu.append(_cpu_ms(server) - began[1])
            if answer.status_code != 200:
                raise RuntimeError(f"GET {paths[number % len(paths)]} answers {answer.status_code}")
        p95_cpu = _share(cpu, 0.95)
        yield kind, {"p50_ms": _share(times, 0.5), "p95_ms": _share(times, 0.95), "p95_cpu_ms": p95_cpu}


def _cpu_ms(server: str) -> float:
    """Processor time so far of this process and of its server process in PostgreSQL."""
    return time.process_time() * 1000 + int(Path(server).read_text().split()[0]) / 1e6


def _share(values: Sequence[float], share: float) -> float:
    return round(sorted(values)[int(len(values) * share)], 1)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dict(_ask())) + "\n")
