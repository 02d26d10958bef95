"""How many task groups a second are created, run and released, beside a bare client with the same calls.

Groups end by themselves as soon as they run, so the rate is that of whole lives: submission, objects, the
scheduler's placement, the end, the deletion of all objects. KAI's stand-ins answer as fast as they can; the
real KAI fills about 10 groups a second, and NVIDIA's controller makes a few ComputeDomains a second. There
the bare client creates all objects kind by kind and deletes them again; it follows nothing. Kubernetes'
scheduler and Kueue are the real ones, so beside them the bare client leads its gangs through their lives, too
(``bare_lives``), while the service is stopped.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any
from uuid import UUID, uuid5

from bench import bare_client, bare_lives
from bench.site import POOL_LABEL, Progress, Site, namespace_of, started_site
from bench.usage import SERVICE, cpu_seconds, spent
from bench.workload import IMAGE
from localcluster import kueue, kueue_queues
from localcluster.controlplane import create_namespace
from localcluster.kueue_queues import HOSTNAME
from scheduling import names
from scheduling.backends.kueue.assignment import pod_set_answers, read_assignment

GROUPS, SMALL_GROUPS = 5000, 100
GROUPS_OF_WORKFLOW = 50
LIVE = 200
"""Groups that live at once: KAI's stand-in takes minutes for a cycle over thousands that wait."""
NODES, GPUS = 128, 8
PATIENCE_SECONDS = 2400.0
ELSEWHERE = "bare"
LIMITS = {"OSMO_SUBMITS_PER_MINUTE": "100000", "OSMO_ADDRESS_SUBMITS_PER_MINUTE": "100000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Groups of so many tasks with so many GPUs each; real schedulers get the small number of groups."""

    scheduler: str = "kai"
    tasks: int
    gpu: int
    nvlink: bool = False


SHAPES = {
    "one-pod": Shape(tasks=1, gpu=1),
    "eight-pods-nvlink": Shape(tasks=8, gpu=8, nvlink=True),
    "eight-pods-kubernetes": Shape(scheduler="kubernetes", tasks=8, gpu=1),
    "eight-pods-kueue": Shape(scheduler="kueue", tasks=8, gpu=1),
    "four-pods-kueue": Shape(scheduler="kueue", tasks=4, gpu=1),
}


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    figures = {}
    for name, shape in SHAPES.items():
        standins = shape.scheduler == "kai"
        groups = GROUPS if standins and not small else SMALL_GROUPS
        with started_site(progress=progress, standins=standins, more=LIMITS) as site:
            _configure(site, name, shape)
            figures[name] = _life(site, name, shape, groups=groups)
            progress(f"group_rate: {name}: {figures[name]}")
    return {"shapes": figures}


def _configure(site: Site, name: str, shape: Shape) -> None:
    create_namespace(site.api, ELSEWHERE)
    site.add_nodes(name, count=NODES, gpus=GPUS, nvlink=shape.nvlink)
    if shape.scheduler == "kueue":
        assert site.running.plane is not None
        kueue.start(site.supervisor, site.running.plane)
    site.add_backend(shape.scheduler, shape.scheduler)
    if shape.scheduler == "kueue":
        local = names.queue(namespace_of("kueue"), name)
        for namespace in (namespace_of("kueue"), ELSEWHERE):
            queue = kueue_queues.Queue(
                name=name,
                local=local,
                namespace=namespace,
                node_labels={POOL_LABEL: name},
                levels=(),
                gpus=NODES * GPUS,
                more={"cpu": "100000", "memory": "1000Ti", "ephemeral-storage": "1000Ti"},
            )
            kueue_queues.apply(site.api, queue)
    site.add_pool(name, backend=shape.scheduler, topology=False, nvlink=shape.nvlink)


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
    completed = site.count("SELECT count(*) FROM workflows_taskgroup WHERE status = 'COMPLETED'")
    bare = (_bare_seconds if shape.scheduler == "kai" else _bare_lives)(site, bodies, groups=groups)
    return {
        "groups": groups,
        "completed": completed,
        "tasks": shape.tasks,
        "groups_per_second": round(groups / seconds, 1),
        "bare_per_second": round(groups / bare, 1),
        "ratio": round(bare / seconds, 3),
        "time_to_bare": round(seconds / bare, 2),
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


def _path(body: Mapping[str, Any]) -> str:
    version, plural = body["apiVersion"], f"{body['kind'].lower()}s"
    return f"/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/{ELSEWHERE}/{plural}"


def _bare_lives(site: Site, bodies: Sequence[dict[str, Any]], *, groups: int) -> float:
    """Lead as many gangs through their lives without the service; seconds until all are gone."""
    for name in reversed(SERVICE):
        site.supervisor.stop_one(name)
    gangs = [_gang(bodies, number) for number in range(groups)]
    watched = {_path(body) for body in bodies if body["kind"] != "Service"}
    assert site.running.plane is not None
    return bare_lives.lead(site.running.plane.access(), gangs, watched=watched)


def _gang(bodies: Sequence[dict[str, Any]], number: int) -> bare_lives.Gang:
    """The same gang under uuids of its own."""
    text = re.sub(r"\b[0-9a-f]{32}", lambda match: uuid5(UUID(match[0]), str(number)).hex, json.dumps(bodies))
    by_path: dict[str, list[dict[str, Any]]] = {}
    for body in json.loads(text):
        body["metadata"]["namespace"] = ELSEWHERE
        by_path.setdefault(_path(body), []).append(body)
    is_admitted = any(body["apiVersion"].startswith("kueue.") for body in bodies)
    return bare_lives.Gang(bodies={**by_path}, placed=_placed if is_admitted else None)


def _placed(workload: Mapping[str, Any], pods: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pods with the nodes that Kueue names, as the selector that its own integrations write."""
    (answer,) = pod_set_answers(workload).values()
    nodes = read_assignment(answer["topologyAssignment"], pods=len(pods))
    places = chain.from_iterable(repeat(node, count) for node, count in nodes)
    return [
        pod | {"spec": pod["spec"] | {"nodeSelector": {**pod["spec"]["nodeSelector"], HOSTNAME: node}}}
        for pod, node in zip(pods, places, strict=True)
    ]


def _bare_seconds(site: Site, bodies: Sequence[dict[str, Any]], *, groups: int) -> float:
    """Create all objects of the groups kind by kind, and delete them; seconds of both together."""
    assert site.running.plane is not None
    paths = [_path(body) for body in bodies]
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
