"""What the verdict adds to a submission: the same workflow where thousands of nodes are known and where none.

Asked in a process of its own that loads the service's Django with the settings of a running stack, so that
nothing but reading the nodes and judging them makes the difference. Their rows are written there, each with
as many labels as nodes carry, since nobody needs 5,000 machines for it; the other processes are stopped. CPU
time of the service, which a busy machine changes little, and the clock, which has PostgreSQL's time in it.

The mix is a gang of 4 tasks and one of 64, each with topology and without. Every node is free, since what is
in use is read by task, not by node; the first submission of each size, which reads all nodes, is apart.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from itertools import count
from typing import Any

from bench.site import POOL_LABEL, RACK, RACK_SIZE, ZONE, Progress, started_site
from bench.workload import one_group
from localcluster.directories import CHECKOUT
from localcluster.supervisor import clean_environment

SIZES = (0, 5_000, 20_000)
ROUNDS = 15
LABELS = 60
MIX = {"4": (4, 4), "4 without topology": (4, 0), "64": (64, 8), "64 without topology": (64, 0)}
"""Tasks of a gang, and of each of its sets."""
MOST_SECONDS = 900
POOL = BACKEND = "feasibility"

Figures = dict[str, dict[str, float]]
"""Milliseconds of each submission of the mix, by CPU and by the clock."""


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
        figures: dict[str, Figures] = json.loads(done.stdout)
        servers = site.servers()
    return {"servers": servers, "nodes": figures, "verdict_cpu_ms": _added(figures, base=str(sizes[0]))}


def _added(figures: dict[str, Figures], *, base: str) -> dict[str, dict[str, float]]:
    """What the nodes add to each submission, and the median of the mix."""
    added = {
        size: {name: round(cpu - figures[base]["cpu_ms"][name], 1) for name, cpu in of["cpu_ms"].items()}
        for size, of in figures.items()
        if size != base
    }
    return {size: of | {"p50": round(statistics.median(of.values()), 1)} for size, of in added.items()}


def _measured(sizes: list[int], token: str) -> dict[str, Figures]:
    from django.test import Client  # noqa: PLC0415 -- after django.setup

    from web.garbage_collector import settle  # noqa: PLC0415 -- the same

    settle()  # as the web processes are
    client = Client(headers={"Authorization": f"Bearer {token}", "Host": "127.0.0.1"})
    figures = {}
    for size in sizes:
        _write(size)
        first, _ = _submit(client, MIX["4"], size=size)
        rounds = {
            name: [_submit(client, gang, size=size) for _ in range(ROUNDS)] for name, gang in MIX.items()
        }
        figures[str(size)] = {
            unit: {name: round(statistics.median(of[at] for of in rounds[name]), 1) for name in MIX}
            for at, unit in enumerate(("cpu_ms", "ms"))
        } | {"first": {"cpu_ms": round(first, 1)}}
    return figures


def _submit(client: Any, gang: tuple[int, int], *, size: int) -> tuple[float, float]:
    """Milliseconds of one submission, of CPU and by the clock."""
    tasks, sets_of = gang
    text = one_group(tasks, name=f"f{tasks}-{sets_of}-{next(_NUMBERS)}", gpu=8, sets_of=sets_of)
    began, cpu = time.perf_counter(), time.process_time()
    answer = client.post(
        f"/api/pool/{POOL}/workflow", json.dumps({"file": text}), content_type="application/json"
    )
    spent, elapsed = time.process_time() - cpu, time.perf_counter() - began
    verdict = answer.json()["feasibility"][0]["verdict"]
    if verdict != ("now" if size else "unknown"):
        raise RuntimeError(f"with {size} nodes the verdict is {verdict}")
    return spent * 1000, elapsed * 1000


_NUMBERS = count()


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
