"""What a submission costs before any row is written: parse, check, tree, render.

The same calls that the service makes, in a process of their own whose garbage collector is set as the
service's is, at sizes ten times apart. The time of a stage is the least CPU time of its repetitions: what the
code needs, without what other programs of the machine took; all of it is one thread. ``growth`` is the slope
of log seconds over log tasks between the two largest sizes: 1 is linear, 2 quadratic. The gang is the hard
case: sets of eight tasks in a required rack each, all of them in a preferred zone, so 10,000 tasks make 1,250
subgroups.
"""

import json
import math
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

from bench.workload import SET, one_group
from localcluster.directories import CHECKOUT
from localcluster.supervisor import clean_environment

SIZES = (100, 1_000, 10_000)
SMALL_SIZES = (100, 1_000)
REPETITIONS = 3
MOST_SECONDS = 300
STAGES = ("parse", "check", "tree", "render")

T = TypeVar("T")


def measure(*, small: bool) -> dict[str, Any]:
    """Run the measurement in a child: its interpreter has done nothing else before."""
    sizes = SMALL_SIZES if small else SIZES
    done = subprocess.run(  # noqa: S603 -- our own module under our own interpreter
        [sys.executable, "-m", "bench.pipeline", *map(str, sizes)],
        cwd=CHECKOUT,
        env=clean_environment()
        | {
            "DJANGO_SETTINGS_MODULE": "osmo_topology.settings",
            "OSMO_ENV": "development",
            "PYTHONPATH": str(CHECKOUT),
        },
        stdout=subprocess.PIPE,
        timeout=MOST_SECONDS,
        check=True,
    )
    seconds: dict[str, dict[str, float]] = json.loads(done.stdout)
    return {
        "tasks_per_set": SET,
        "repetitions": REPETITIONS,
        "seconds": seconds,
        "growth": {stage: _growth(seconds, sizes, stage) for stage in (*STAGES, "total")},
        "total_at_1000_below_1s": seconds["1000"]["total"] < 1.0,
    }


def _growth(seconds: dict[str, dict[str, float]], sizes: Sequence[int], stage: str) -> float:
    small, large = sizes[-2:]
    ratio = max(seconds[str(large)][stage], 1e-6) / max(seconds[str(small)][stage], 1e-6)
    return round(math.log(ratio) / math.log(large / small), 2)


def _times(tasks: int) -> dict[str, float]:
    """Least CPU seconds of each stage."""
    text, facts = one_group(tasks, name="bench", gpu=4, sets_of=SET), _facts()
    runs = [_run(text, facts) for _ in range(REPETITIONS)]
    least = {stage: min(run[stage] for run in runs) for stage in STAGES}
    # check and render build the tree themselves, so it is shown but not added
    total = sum(seconds for stage, seconds in least.items() if stage != "tree")
    return {stage: round(seconds, 4) for stage, seconds in (least | {"total": total}).items()}


def _run(text: str, facts: Any) -> dict[str, float]:
    from scheduling.backends.registry import scheduler_backend  # noqa: PLC0415 -- after django.setup
    from scheduling.tree import build_tree  # noqa: PLC0415
    from workflows.admission.admit import admit  # noqa: PLC0415
    from workflows.manifests.group import render_group  # noqa: PLC0415
    from workflows.spec import SpecLimits, parse_workflow  # noqa: PLC0415

    times: dict[str, float] = {}
    limits = SpecLimits(tasks=facts.limits.max_num_tasks)
    options: dict[str, Any] = {"variables": (), "string_variables": (), "allow_localpath": False}
    spec = _timed(times, "parse", lambda: parse_workflow(text, limits=limits, **options))
    arguments: dict[str, Any] = {
        "user": "bench",
        "priority": "NORMAL",
        "name": "bench-1",
        "workflow": uuid4(),
        "scheduler": scheduler_backend("kai"),
        "new_uuid": uuid4,
    }
    (group,), checked = _timed(times, "check", lambda: admit(spec, facts, **arguments))
    if checked.faults:
        raise RuntimeError(f"the bench's own workflow is refused: {checked.faults[0]}")
    _timed(times, "tree", lambda: build_tree(group.gang(), facts.levels))
    objects = _timed(times, "render", lambda: render_group(group))
    if len(objects.pods) != len(group.tasks):
        raise RuntimeError(f"{len(objects.pods)} pods are rendered for {len(group.tasks)} tasks")
    return times


def _timed(run: dict[str, float], stage: str, call: Callable[[], T]) -> T:
    began = time.process_time()
    result = call()
    run[stage] = time.process_time() - began
    return result


def _facts() -> Any:
    """A pool with two levels on KAI 0.13, whose nodes nobody has seen."""
    from pools.documents.recovery import words_of  # noqa: PLC0415
    from pools.documents.workflow import WorkflowConfigDocument, WorkflowLimits  # noqa: PLC0415
    from scheduling.backends.registry import scheduler_backend  # noqa: PLC0415
    from scheduling.capabilities import SchedulerVersion  # noqa: PLC0415
    from scheduling.coverage import LabelCoverage  # noqa: PLC0415
    from scheduling.levels import Level  # noqa: PLC0415
    from workflows.admission.pool_facts import PlatformFacts, PoolFacts, Timeouts  # noqa: PLC0415
    from workflows.values.placement import FrozenTemplate  # noqa: PLC0415

    platform = PlatformFacts(
        name="gpu",
        node_selector={"pool": "bench"},
        tolerations=(),
        nvlink=True,
        channels=None,
        host_network_allowed=False,
        privileged_allowed=False,
        allowed_mounts=(),
        default_mounts=(),
        template=FrozenTemplate(),
        template_revisions={},
        nodes=None,
        node_gpus=None,
    )
    return PoolFacts(
        name="bench",
        now=datetime.now(UTC),
        revision=1,
        installation=uuid4(),
        queue="bench",
        backend="bench",
        cluster_uid=str(uuid4()),
        namespace="osmo",
        scheduler_type="kai",
        scheduler_name="kai-scheduler",
        scheduler_version="0.13",
        capabilities=scheduler_backend("kai").capabilities(SchedulerVersion(0, 13)),
        reachable=True,
        scheduler_served=True,
        levels=(Level("zone", "topology.kubernetes.io/zone"), Level("rack", "osmo.local/rack")),
        places={},
        coverage=LabelCoverage(0),
        nvlink=True,
        domain_for_every_group=True,
        split_gangs="refuse",
        unsupported_preferred="refuse",
        free_preferences_after=60,
        external_topology="",
        platforms={"gpu": platform},
        default_platform="gpu",
        exec_timeout=Timeouts(default=3600, most=3600),
        queue_timeout=Timeouts(default=3600, most=3600),
        default_exit_actions={},
        recovery=words_of({}),
        max_recoveries=10,
        max_grace_period=600,
        gpu_maximum=None,
        shared_credentials=frozenset(),
        limits=WorkflowLimits.of(WorkflowConfigDocument()),
    )


def main() -> None:
    import django  # noqa: PLC0415 -- only the child needs it

    from web.process_memory import settle  # noqa: PLC0415

    parser = ArgumentParser(prog="bench.pipeline")
    parser.add_argument("sizes", nargs="+", type=int)
    django.setup()
    sizes = parser.parse_args().sizes
    _times(min(sizes))  # loads what is loaded on first use
    settle()
    sys.stdout.write(json.dumps({size: _times(size) for size in sizes}))


if __name__ == "__main__":
    main()
