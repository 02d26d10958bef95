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
    create_rate,
    environment,
    feasibility,
    group_rate,
    lists,
    memory,
    pages,
    status_delay,
    submission,
    table,
    wide,
)
from bench.scale import foreign_gangs, measuring
from localcluster.build import BuildFailed, binaries
from localcluster.supervisor import ServerFailed

Part = Callable[..., dict[str, Any]]
"""Measures with ``small`` and ``progress``."""


def progress(text: str) -> None:
    sys.stderr.write(f"[bench] {time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


PARTS: dict[str, Part] = {
    "command": command.measure,
    "create_rate": create_rate.measure,
    "group_rate": group_rate.measure,
    "submission": submission.measure,
    "feasibility": feasibility.measure,
    "status_delay": status_delay.measure,
    "wide": wide.measure,
    "lists": lists.measure,
    "pages": pages.measure,
    "memory": memory.measure,
    "scale": measuring.measure,
    "foreign_gangs": foreign_gangs.measure,
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
            measured = PARTS[name](small=options.small, progress=progress)
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
    """A report that was written earlier; a file that is none is refused before anything is measured."""
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
