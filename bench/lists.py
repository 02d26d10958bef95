"""Lists, details and histories in a database of a million ended workflows and twenty million events.

PostgreSQL alone is started and filled (``aged``), once with 10,000 workflows and once with all. The service's
own views answer in a process of their own through Django's test client: what is measured is everything that
web does for a request, without gunicorn and the network. For each kind of request the report has p50 and
p95, the processor time of web and PostgreSQL together, and whether PostgreSQL reads big tables in the same
way at both sizes.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import plans
from bench.aged import POOLS, fill
from bench.retention import run_service
from localcluster.directories import note_home, run_directory
from localcluster.servers import Home, create_database, start_postgres
from localcluster.supervisor import Supervisor

FEW, MANY, SMALL_MANY = 10_000, 1_000_000, 100_000
EVENTS = 20
REQUESTS = 40


def measure(*, small: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    sizes = (FEW, SMALL_MANY if small else MANY)
    with run_directory("bench") as directory, Supervisor(log_dir=directory / "logs") as supervisor:
        home = Home.make(directory / "home")
        if home.temporary:
            note_home(directory, home.data)
        try:
            server = start_postgres(supervisor, home, durable=False)
            few, many = (_measured(server, size, progress) for size in sizes)
        finally:
            home.remove()
    requests = {
        name: {
            **{field: measured[field] for field in ("p50_ms", "p95_ms", "p95_cpu_ms", "reads_whole")},
            "same_plan": measured["plans"] == few["requests"][name]["plans"],
            "plans": [few["requests"][name]["plans"], measured["plans"]],
        }
        for name, measured in many["requests"].items()
    }
    return {
        "workflows": list(sizes),
        "events_of_each": EVENTS,
        "database_bytes": many["database_bytes"],
        "filled_in_seconds": many["filled_in_seconds"],
        "requests": requests,
        "most_p95_ms": max(request["p95_ms"] for request in requests.values()),
        "most_p95_cpu_ms": max(request["p95_cpu_ms"] for request in requests.values()),
        "same_plans": all(request["same_plan"] for request in requests.values()),
    }


def _measured(server: str, workflows: int, progress: Callable[[str], None]) -> dict[str, Any]:
    url = create_database(server, f"of_{workflows}")
    run_service(url, "manage.py", "migrate", "--noinput")
    progress(f"lists: filling {workflows} workflows")
    began = time.monotonic()
    aged = fill(url, workflows=workflows, events=EVENTS)
    seconds = round(time.monotonic() - began)
    progress(f"lists: filled in {seconds} s")
    report: dict[str, Any] = json.loads(run_service(url, "-m", "bench.lists").splitlines()[-1])
    return report | {"database_bytes": aged.bytes, "filled_in_seconds": seconds}


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


def _ask() -> Iterator[tuple[str, dict[str, Any]]]:
    from django.contrib.auth.models import User  # noqa: PLC0415 -- once Django is set up
    from django.db import connection  # noqa: PLC0415 -- the same
    from django.test import Client  # noqa: PLC0415 -- the same
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415 -- the same

    from workflows.models import Workflow  # noqa: PLC0415 -- the same

    make_pools()
    user, _ = User.objects.get_or_create(username="root", is_superuser=True, is_staff=True)
    client = Client(headers={"Host": "127.0.0.1"})
    client.force_login(user)
    names = Workflow.objects.order_by("submit_time").values_list("name", flat=True)
    middle = names.count() // 2
    for kind, paths in addresses([*names[:5], *names[middle : middle + 5], *names.reverse()[:5]]).items():
        client.get(paths[0])  # what is read once in a process's life does not count
        server = f"/proc/{connection.connection.info.backend_pid}/schedstat"
        times, cpu = [], []
        for number in range(REQUESTS):
            began = time.perf_counter(), _cpu_ms(server)
            answer = client.get(paths[number % len(paths)])
            times.append((time.perf_counter() - began[0]) * 1000)
            cpu.append(_cpu_ms(server) - began[1])
            if answer.status_code != 200:
                raise RuntimeError(f"GET {paths[number % len(paths)]} answers {answer.status_code}")
        with CaptureQueriesContext(connection) as captured:
            client.get(paths[0])
        read = plans.of_statements([row["sql"] for row in captured.captured_queries])
        yield (
            kind,
            {
                "p50_ms": _share(times, 0.5),
                "p95_ms": _share(times, 0.95),
                "p95_cpu_ms": _share(cpu, 0.95),
                "reads_whole": sorted({table for plan in read for table in plan.scanned_tables}),
                "plans": [plan.shape for plan in read],
            },
        )


def _cpu_ms(server: str) -> float:
    """Processor time so far of this process and of its server process in PostgreSQL."""
    return time.process_time() * 1000 + int(Path(server).read_text().split()[0]) / 1e6


def _share(values: Sequence[float], share: float) -> float:
    return round(sorted(values)[int(len(values) * share)], 1)


def main() -> None:
    """Print the figures of the database that the environment names; see ``measure``."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "osmo_topology.settings"
    import django  # noqa: PLC0415 -- only in this process

    django.setup()
    sys.stdout.write(json.dumps({"requests": dict(_ask())}) + "\n")


if __name__ == "__main__":
    main()
