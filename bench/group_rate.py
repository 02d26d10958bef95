"""How many task groups a second are created, run and released, beside a bare client with the same calls.

Groups end by themselves as soon as they run, so the rate is that of whole lives: submission, objects, the
scheduler's placement, the end, the deletion of all objects. The stand-ins answer as fast as they can; the
real KAI fills about 10 groups a second, and NVIDIA's controller makes a few ComputeDomains a second. The bare
client creates all objects kind by kind and deletes them again. It follows nothing.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import bare_client
from bench.site import POOL_LABEL, Progress, Site, started_site
from bench.usage import SERVICE, cpu_seconds, spent
from bench.workload import IMAGE
from localcluster.controlplane import create_namespace

GROUPS, SMALL_GROUPS = 5000, 100
GROUPS_OF_WORKFLOW = 50
LIVE = 200
"""Groups that live at once: KAI's stand-in takes minutes for a cycle over thousands that wait."""
NODES, GPUS = 128, 8
PATIENCE_SECONDS = 2400.0
BACKEND, ELSEWHERE = "kai", "bare"
LIMITS = {"OSMO_SUBMITS_PER_MINUTE": "100000", "OSMO_ADDRESS_SUBMITS_PER_MINUTE": "100000"}
PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "PodGroup": "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups",
    "ComputeDomain": "/apis/resource.nvidia.com/v1beta1/namespaces/{}/computedomains",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Groups of so many tasks with so many GPUs each."""

    tasks: int
    gpu: int
    nvlink: bool


SHAPES = {
    "one-pod": Shape(tasks=1, gpu=1, nvlink=False),
    "eight-pods-nvlink": Shape(tasks=8, gpu=8, nvlink=True),
}


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    figures = {}
    for name, shape in SHAPES.items():
        with started_site(progress=progress, standins=True, more=LIMITS) as site:
            _configure(site, name, shape)
            figures[name] = _life(site, name, shape, groups=SMALL_GROUPS if small else GROUPS)
            progress(f"group_rate: {name}: {figures[name]}")
    return {"shapes": figures}


def _configure(site: Site, name: str, shape: Shape) -> None:
    site.add_backend(BACKEND, "kai")
    site.add_nodes(name, count=NODES, gpus=GPUS, nvlink=shape.nvlink)
    create_namespace(site.api, ELSEWHERE)
    settings = {
        "backend": BACKEND,
        "node_selector": {POOL_LABEL: name},
        "nvlink": shape.nvlink,
        "platforms": {"gpu": {}},
        "default_platform": "gpu",
    }
    site.rest.put(f"/api/configs/pool/{name}", {"configs": settings})


def _life(site: Site, name: str, shape: Shape, *, groups: int) -> dict[str, Any]:
    bodies = site.dry_run(name, _workflow(shape, 1))
    used = cpu_seconds(site.supervisor)
    began = time.monotonic()
    for _ in range(0, groups, GROUPS_OF_WORKFLOW):
        site.wait(
            lambda: _live(site) <= LIVE - GROUPS_OF_WORKFLOW, seconds=PATIENCE_SECONDS, awaited="releases"
        )
        site.submit(name, _workflow(shape, GROUPS_OF_WORKFLOW))
    site.wait(lambda: _live(site) == 0, seconds=PATIENCE_SECONDS, awaited="all groups to be released")
    seconds = time.monotonic() - began
    cpu = spent(used, cpu_seconds(site.supervisor))
    bare = _bare_seconds(site, bodies, groups=groups)
    return {
        "groups": groups,
        "completed": site.count("SELECT count(*) FROM workflows_taskgroup WHERE status = 'COMPLETED'"),
        "tasks": shape.tasks,
        "groups_per_second": round(groups / seconds, 1),
        "bare_per_second": round(groups / bare, 1),
        "ratio": round(bare / seconds, 3),
        "own_cpu_ms_of_a_group": round(1000 * sum(cpu.get(name, 0.0) for name in SERVICE) / groups, 1),
        "cpu_seconds": cpu,
    }


def _live(site: Site) -> int:
    return site.count("SELECT count(*) FROM workflows_taskgroup WHERE released_at IS NULL")


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
    paths = [PATHS[body["kind"]].format(ELSEWHERE) for body in bodies]
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
