"""The operator's audit: asked for, waited for, and shown.

The service does it on a worker, one at a time. Who asks while one goes on is given that one, also if somebody
else asked; that is known by its number.
"""

import time
from collections.abc import Mapping
from typing import Any

from osmo_topology_cli import tables
from osmo_topology_cli.outcomes import Exit, Unreachable
from osmo_topology_cli.service import Service
from osmo_topology_cli.show import Printer

Json = Mapping[str, Any]

LOOK_SECONDS = 1.0


def audited(service: Service, *, wait: float) -> Json:
    """Ask, and return the audit once it has ended with a report. Raises Failure."""
    asked = service.post("audit")
    until = time.monotonic() + wait
    while asked["ended_at"] is None:
        if time.monotonic() > until:
            raise Unreachable(
                f"Audit {asked['id']} has not ended within {wait:g} s"
                + ("." if asked["began_at"] else ": no worker has begun it.")
            )
        time.sleep(LOOK_SECONDS)
        asked = service.get("audit", str(asked["id"]))
    if asked["report"] is None:
        raise Unreachable(str(asked["failure"]))
    found: Json = asked
    return found


def exit_of(report: Json) -> Exit:
    if report["findings"]:
        return Exit.NOT_WELL
    return Exit.NOT_LOOKED if report["not_looked"] else Exit.DONE


def show_report(report: Json, printer: Printer) -> None:
    printer.table(tables.findings(report))
    for one in report["not_looked"]:
        printer.line(f"not looked at: backend {one['backend']}: {one['reason']}")
    numbers = ", ".join(f"{number} {kind}" for kind, number in report["counts"].items() if number)
    objects = sum(one["objects"] for one in report["looked"])
    looked = f"groups: {report['groups']}, objects: {objects}, clusters: {len(report['looked'])}"
    printer.line(f"{looked}; found: {numbers or 'nothing'}")
