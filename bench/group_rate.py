"""How many task groups a second are created, run and released, beside a bare client with the same calls.

Groups end by themselves as soon as they run, so the rate is that of whole lives: submission, objects, the
scheduler's placement, the end, the deletion of all objects. The stand-ins answer as fast as they can; the
real schedulers fill about 10 (KAI) and admit about 40 (Kueue) groups a second, NVIDIA's controller makes a
few ComputeDomains a second. The bare client creates all objects kind by kind and deletes them again. It
follows nothing.

A second client makes the same objects, waits until the stand-ins have run all pods, and deletes everything,
with the service stopped (``lived_per_second``): the API server, etcd, the schedulers and controllers do the
same work for it.

On Kueue a group is admitted before it has pods: ``admitted_per_second`` counts from the first submission
until the last group has its pods.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import bare_client, bare_lives
from bench.site import POOL_LABEL, Progress, Site, namespace_of, started_site
from bench.usage import SERVICE, cpu_seconds, spent
from bench.workload import IMAGE
from localcluster import controlplane, kueue_queues
from localcluster.controlplane import create_namespace
from localcluster.standins.commands import kueue_command

GROUPS_OF_WORKFLOW = 50
LIVE = 200
"""Groups that live at once: KAI's stand-in takes minutes for a cycle over thousands that wait."""
NODES, GPUS = 128, 8
PATIENCE_SECONDS = 2400.0
ELSEWHERE = "bare"
LIMITS = {
    "OSMO_SUBMITS_PER_MINUTE": "100000",
    "OSMO_ADDRESS_SUBMITS_PER_MINUTE": "100000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Groups of so many tasks with so many GPUs each, under a scheduler."""

    scheduler: str
    groups: int
    tasks: int
    gpu: int
    nvlink: bool = False


SHAPES = {
    "one-pod": Shape(scheduler="kai", groups=5000, tasks=1, gpu=1),
    "eight-pods-nvlink": Shape(scheduler="kai", groups=5000, tasks=8, gpu=8, nvlink=True),
    "kueue-four-pods": Shape(scheduler="kueue", groups=1000, tasks=4, gpu=2),
}


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    figures = {}
    for name, shape in SHAPES.items():
        groups = max(100, shape.groups // 50) if small else shape.groups
        with started_site(progress=progress, standins=True, more=LIMITS) as site:
            servers = site.servers()
            _configure(site, name, shape)
            figures[name] = _life(site, name, shape, groups=groups)
            progress(f"group_rate: {name}: {figures[name]}")
    return {"servers": servers, "shapes": figures}


def _configure(site: Site, name: str, shape: Shape) -> None:
    backend = shape.scheduler
    if shape.scheduler == "kueue":
        _start_kueue(site)
    site.add_backend(backend, shape.scheduler)
    if shape.scheduler == "kueue":
        kueue_queues.apply(site.api, _queue(name))
    site.add_nodes(name, count=NODES, gpus=GPUS, nvlink=shape.nvlink)
    create_namespace(site.api, ELSEWHERE)
    settings = {
        "backend": backend,
        "node_selector": {POOL_LABEL: name},
        "nvlink": shape.nvlink,
        "platforms": {"gpu": {}},
        "default_platform": "gpu",
        **({"local_queue": name} if shape.scheduler == "kueue" else {}),
    }
    site.rest.put(f"/api/configs/pool/{name}", {"configs": settings})


def _start_kueue(site: Site) -> None:
    assert site.running.plane is not None
    controlplane.install_kueue(site.api)
    site.supervisor.start(kueue_command(site.running.plane))


def _queue(name: str) -> kueue_queues.Queue:
    return kueue_queues.Queue(
        name=name,
        local=name,
        namespace=namespace_of("kueue"),
        node_labels={POOL_LABEL: name},
        levels=(),
        gpus=NODES * GPUS,
        more={"cpu": "100000", "memory": "1000Ti"},
    )


def _life(site: Site, name: str, shape: Shape, *, groups: int) -> dict[str, Any]:
    texts = [
        _workflow(shape, min(GROUPS_OF_WORKFLOW, groups - first))
        for first in range(0, groups, GROUPS_OF_WORKFLOW)
    ]
    bodies = site.dry_run(name, _workflow(shape, 1))
    used = cpu_seconds(site.supervisor)
    began = time.monotonic()
    for text in texts:
        site.wait(
            lambda: _live(site) <= LIVE - GROUPS_OF_WORKFLOW, seconds=PATIENCE_SECONDS, awaited="releases"
        )
        site.submit(name, text)
    admitted = None
    if shape.scheduler == "kueue":
        site.wait(lambda: _admitted(site) == groups, seconds=PATIENCE_SECONDS, awaited="all admissions")
        admitted = time.monotonic() - began
    site.wait(
        lambda: (
            site.count("SELECT count(*) FROM workflows_taskgroup WHERE released_at IS NOT NULL") == groups
        ),
        seconds=PATIENCE_SECONDS,
        awaited="all groups to be released",
    )
    seconds = time.monotonic() - began
    cpu = spent(used, cpu_seconds(site.supervisor))
    completed = site.count("SELECT count(*) FROM workflows_taskgroup WHERE status = 'COMPLETED'")
    bare = _bare_seconds(site, bodies, groups=groups)
    bare_lives.wait_until_empty(site, bodies, namespace=ELSEWHERE)
    for process in SERVICE:
        site.supervisor.stop_one(process)
    at_once = min(groups, LIVE)
    lived = bare_lives.seconds(site, bodies, groups=at_once, namespace=namespace_of(shape.scheduler))
    return {
        "groups": groups,
        "completed": completed,
        "tasks": shape.tasks,
        "calls_of_a_group": 2 * len(bodies),
        "groups_per_second": round(groups / seconds, 1),
        **({"admitted_per_second": round(groups / admitted, 1)} if admitted else {}),
        "bare_per_second": round(groups / bare, 1),
        "ratio": round(bare / seconds, 3),
        "lived_per_second": round(at_once / lived, 1),
        "ratio_to_lived": round(groups / seconds * lived / at_once, 3),
        "own_cpu_ms_of_a_group": round(1000 * sum(cpu.get(name, 0.0) for name in SERVICE) / groups, 1),
        "cpu_seconds": cpu,
    }


def _live(site: Site) -> int:
    return site.count("SELECT count(*) FROM workflows_taskgroup WHERE released_at IS NULL")


def _admitted(site: Site) -> int:
    """The groups that have nodes from Kueue: their pods exist, or existed."""
    return site.count("SELECT count(*) FROM workflows_taskgroup WHERE created_in_cluster_at IS NOT NULL")


def _workflow(shape: Shape, groups: int) -> str:
    lines = ["version: 2", "workflow:", "  name: rate", "  labels: {sim.osmo.local/run-for: 0s}", "  groups:"]
    for number in range(groups):
        lines += [f"    - name: g{number}", "      tasks:"]
        for task in range(shape.tasks):
            lead = ", lead: true" if task == 0 and shape.tasks > 1 else ""
            name = f"g{number}-t{task}"
            lines.append(f"        - {{name: {name}, image: {IMAGE}, command: [python], resource: r{lead}}}")
    lines += ["  resources:", f"    r: {{gpu: {shape.gpu}, cpu: 1, memory: 1Gi}}"]
    return "\n".join(lines) + "\n"


def _bare_seconds(site: Site, bodies: Sequence[dict[str, Any]], *, groups: int) -> float:
    """Create all objects of the groups kind by kind, and delete them; seconds of both together."""
    assert site.running.plane is not None
    paths = [bare_lives.path_of(body, ELSEWHERE) for body in bodies]
    copies = [_copies(body, groups, stem=f"bare-{at}") for at, body in enumerate(bodies)]
    creations = [bare_client.creations(*of_kind) for of_kind in zip(paths, copies, strict=True)]
    deletions = [bare_client.deletions(*of_kind) for of_kind in zip(paths, copies, strict=True)]
    return bare_client.send(site.running.plane.access(), *creations, *reversed(deletions))


def _copies(body: dict[str, Any], groups: int, *, stem: str) -> list[dict[str, Any]]:
    copies = []
    for number in range(groups):
        copy = bare_client.renamed(body, name=f"{stem}-{number}", namespace=ELSEWHERE)
        if body["kind"] == "ComputeDomain":  # a template of its own, too
            channel = body["spec"]["channel"] | {"resourceClaimTemplate": {"name": f"{stem}-{number}"}}
            copy |= {"spec": body["spec"] | {"channel": channel}}
        copies.append(copy)
    return copies
