"""Time to parse a workflow of n tasks: text to values, every check of the grammar included.

Medians of CPU time, so that other processes on the machine do not count. The workflow is the main job's:
one gang in co-location sets of eight, each with a required level and a preferred one.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence

from workflows.spec import SpecLimits
from workflows.spec.reading import PlainText

SIZES = (100, 1_000, 10_000)
SET = 8


def document(tasks: int) -> str:
    """One task group of that many tasks."""
    lines = ["workflow:", "  name: bench", "  groups:", "    - name: training", "      tasks:"]
    for i in range(tasks):
        lines += [
            f"        - name: worker-{i}",
            f"          lead: {str(i == 0).lower()}",
            "          image: nvcr.io/nvidia/pytorch:25.10-py3",
            '          command: [torchrun, --nproc-per-node=4, "--rdzv-endpoint={{host:worker-0}}:29500"]',
            '          args: [train.py, --steps, "1000"]',
            f"          environment: {{NCCL_DEBUG: INFO, NODE_RANK: {i}}}",
            f"          resource: set-{i // SET}",
        ]
    lines += ["  resources:"]
    for i in range(-(-tasks // SET)):
        lines += [
            f"    set-{i}:",
            "      gpu: 4",
            "      cpu: 8",
            "      memory: 64Gi",
            "      topology:",
            f"        - {{key: clique, group: c{i}}}",
            "        - {key: zone, group: all, requirementType: preferred}",
        ]
    return "\n".join(lines)


def seconds(tasks: int, *, rounds: int = 3) -> float:
    """CPU seconds to parse a workflow of that many tasks, the median of a few rounds."""
    text = document(tasks)
    return statistics.median(_once(text) for _ in range(rounds))


def _once(text: str) -> float:
    begin = time.process_time()
    PlainText(text=text, limits=SpecLimits(), allow_localpath=False).read()
    return time.process_time() - begin


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", type=int, default=SIZES)
    sizes = parser.parse_args(arguments).tasks
    print(json.dumps({"parse_seconds": {size: round(seconds(size), 4) for size in sizes}}, indent=2))  # noqa: T201 -- a report
    return 0


if __name__ == "__main__":
    sys.exit(main())
