"""``python -m bench``: measure the main job and print one JSON report.

Progress and a table for people go to standard error. Parts run one at a time, each on servers that it starts
and stops itself; there is no way to name others. Exit code 1 if a part could not be measured; a figure that
is worse than wanted is not an error, it is in the report.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import (
    command,
    compute_domains,
    create_rate,
    environment,
    expensive_documents,
    feasibility,
    fit,
    group_rate,
    hostile_mix,
    idle_gpus,
    lists,
    load,
    log_followers,
    memory,
    pages,
    pipeline,
    queries,
    recovery,
    retention,
    slow_clients,
    status_delay,
    submission,
    table,
    web_workers,
)
from bench.scale import measuring
from localcluster.build import BuildFailed, binaries
from localcluster.supervisor import ServerFailed

Part = Callable[[bool], dict[str, Any]]


def progress(text: str) -> None:
    sys.stderr.write(f"[bench] {time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


PARTS: dict[str, Part] = {
    "fit": lambda small: fit.measure(small=small),
    "pipeline": lambda small: pipeline.measure(small=small),
    "command": lambda small: command.measure(small=small),
    "create_rate": lambda small: create_rate.measure(small=small, progress=progress),
    "group_rate": lambda small: group_rate.measure(small=small, progress=progress),
    "submission": lambda small: submission.measure(small=small, progress=progress),
    "feasibility": lambda small: feasibility.measure(small=small, progress=progress),
    "status_delay": lambda small: status_delay.measure(small=small, progress=progress),
    "recovery": lambda small: recovery.measure(small=small, progress=progress),
    "compute_domains": lambda small: compute_domains.measure(small=small, progress=progress),
    "idle_gpus": lambda small: idle_gpus.measure(small=small),
    "queries": lambda small: queries.measure(small=small, progress=progress),
    "retention": lambda small: retention.measure(small=small, progress=progress),
    "lists": lambda small: lists.measure(small=small, progress=progress),
    "pages": lambda small: pages.measure(small=small, progress=progress),
    "memory": lambda small: memory.measure(small=small, progress=progress),
    "slow_clients": lambda small: slow_clients.measure(small=small, progress=progress),
    "web_workers": lambda small: web_workers.measure(small=small, progress=progress),
    "log_followers": lambda small: log_followers.measure(small=small, progress=progress),
    "expensive_documents": lambda small: expensive_documents.measure(small=small, progress=progress),
    "hostile_mix": lambda small: hostile_mix.measure(small=small, progress=progress),
    "scale": lambda small: measuring.measure(small=small, progress=progress),
    "load": lambda small: load.measure(small=small, progress=progress),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the main job.")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="NAME", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--small", action="store_true", help="a tenth of the size, for a quick look")
    parser.add_argument(
        "--compare", type=_report, metavar="OLD.JSON", help="show what moved since an earlier report"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    binaries()
    report: dict[str, Any] = {"small": options.small, "environment": environment.describe(), "parts": {}}
    failed = False
    for name in options.only or PARTS:
        before, began = environment.load(), time.monotonic()
        progress(f"{name}: begins; the machine is {before['busy_share']:.0%} busy with other things")
        try:
            measured = PARTS[name](options.small)
        except (RuntimeError, TimeoutError, ServerFailed, OSError) as error:
            progress(f"{name}: failed: {error}")
            measured, failed = {"error": str(error)}, True
        seconds = round(time.monotonic() - began, 1)
        report["parts"][name] = measured | {"took_seconds": seconds, "machine_before": before}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    sys.stderr.write(f"\n{table.table(report)}\n")
    if options.compare:
        sys.stderr.write(f"\n{table.comparison(report, options.compare)}\n")
    return int(failed)


def _report(path: str) -> dict[str, Any]:
    """A report that was written earlier; what is none is refused before anything is measured."""
    try:
        report: dict[str, Any] = json.loads(Path(path).read_text())
        table.figures(report)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise argparse.ArgumentTypeError(f"{path} is no report of the bench: {error}") from error
    return report


def _leave(*_: object) -> None:
    raise SystemExit(1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BuildFailed as failure:
        sys.exit(str(failure))
