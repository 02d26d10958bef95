"""What the verdict adds to a submission: the same workflow where thousands of nodes are known and where none.

Asked in a process of its own that loads the service's Django with the settings of a running stack, so that
nothing but reading the nodes and judging them makes the difference. Their rows are written there, each with
as many labels as nodes carry, since nobody needs 5,000 machines for it; the other processes are stopped. CPU
time of the service, which a busy machine changes little, and the clock, which has PostgreSQL's time in it.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

from bench.site import POOL_LABEL, RACK, RACK_SIZE, ZONE, Progress, started_site
from bench.workload import one_group
from localcluster.directories import CHECKOUT
from localcluster.supervisor import clean_environment

SIZES = (0, 5_000, 20_000)
ROUNDS = 15
LABELS = 60
TASKS = 4
MOST_SECONDS = 900
POOL = BACKEND = "feasibility"


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    sizes = [size // 10 for size in SIZES] if small else list(SIZES)
    with started_site(progress=progress, standins=False) as site:
        site.add_backend(BACKEND, "kai")
        site.add_pool(POOL, backend=BACKEND, topology=True)
        for name in ("beat", "worker", "observer"):
            site.supervisor.stop_one(name)
        more = {"BENCH_TOKEN": site.running.token, "OSMO_LOG_LEVEL": "WARNING"}
        more |= {"OSMO_SUBMITS_PER_MINUTE": "100000", "OSMO_ADDRESS_SUBMITS_PER_MINUTE": "100000"}
        done = subprocess.run(  # noqa: S603 -- our own module under our own interpreter
            [sys.executable, "-m", "bench.feasibility", *map(str, sizes)],
            cwd=CHECKOUT,
            env=clean_environment() | site.running.settings.environment() | more,
            stdout=subprocess.PIPE,
            timeout=MOST_SECONDS,
            check=True,
        )
        figures: dict[str, dict[str, float]] = json.loads(done.stdout)
        servers = site.servers()
    base = figures[str(sizes[0])]
    return {
        "servers": servers,
        "tasks": TASKS,
        "nodes": {
            size: times | {f"{unit}_ratio": round(times[unit] / base[unit], 2) for unit in ("cpu_ms", "ms")}
            for size, times in figures.items()
        },
    }


def _measured(sizes: list[int], token: str) -> dict[str, dict[str, float]]:
    from django.test import Client  # noqa: PLC0415 -- after django.setup

    from web.garbage_collector import settle  # noqa: PLC0415 -- the same

    settle()  # as the web processes are
    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"})
    figures = {}
    for size in sizes:
        _write(size)
        spent, elapsed = [], []
        for number in range(ROUNDS):
            text = one_group(TASKS, name=f"f{number}", gpu=8, sets_of=TASKS)
            began, cpu = time.perf_counter(), time.process_time()
            answer = client.post(
                f"/api/pool/{POOL}/workflow", json.dumps({"file": text}), content_type="application/json"
            )
            spent.append((time.process_time() - cpu) * 1000)
            elapsed.append((time.perf_counter() - began) * 1000)
            verdict = answer.json()["feasibility"][0]["verdict"]
            if verdict != ("now" if size else "unknown"):
                raise RuntimeError(f"with {size} nodes the verdict is {verdict}")
        figures[str(size)] = {
            "cpu_ms": round(statistics.median(spent), 1),
            "ms": round(statistics.median(elapsed), 1),
        }
    return figures


def _write(size: int) -> None:
    """Make the pool's cluster have as many nodes as that."""
    from django.utils import timezone  # noqa: PLC0415 -- after django.setup

    from pools.models import Cluster, Node, Pool  # noqa: PLC0415 -- the same

    cluster = Cluster.objects.get(pk=Pool.objects.get(name=POOL).backend.cluster_id)
    Node.objects.filter(cluster=cluster).delete()
    features = {f"feature.node.kubernetes.io/cpu-{number}": "true" for number in range(LABELS)}
    has = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "ephemeral-storage": "1Ti", "pods": "110"}
    now = timezone.now()
    rows = [
        Node(
            cluster=cluster,
            name=f"n{number:05}",
            uid=str(number),
            labels=features | {POOL_LABEL: POOL, ZONE: f"z{number // 1280}", RACK: f"r{number // RACK_SIZE}"},
            allocatable=has,
            ready=True,
            seen_at=now,
        )
        for number in range(size)
    ]
    Node.objects.bulk_create(rows, batch_size=1000)
    Cluster.objects.filter(pk=cluster.pk).update(nodes_synced_at=now)


def main() -> None:
    import django  # noqa: PLC0415 -- only the child needs it

    django.setup()
    sizes = [int(size) for size in sys.argv[1:]]
    sys.stdout.write(json.dumps(_measured(sizes, os.environ["BENCH_TOKEN"])))


if __name__ == "__main__":
    main()
