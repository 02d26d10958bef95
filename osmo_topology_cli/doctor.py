"""The consistency check: requested, waited for, and shown.

A worker of the service runs it, one at a time. A request during a check returns that check, also if another
person requested it.
"""

import time
from collections.abc import Mapping
from typing import Any

from osmo_topology_cli import tables
from osmo_topology_cli.outcomes import Exit
from osmo_topology_cli.show import Printer
from osmo_topology_client.client import Client
from osmo_topology_client.errors import ServiceUnreachable

Reply = Mapping[str, Any]

POLL_SECONDS = 1.0


def finished_check(service: Client, *, wait: float) -> Reply:
    """Request a check, and return it once it has ended with a report. Raises Failure."""
    check = service.post("doctor")
    until = time.monotonic() + wait
    while check["ended_at"] is None:
        if time.monotonic() > until:
            raise ServiceUnreachable(
                f"Check {check['id']} has not ended within {wait:g} s"
                + ("." if check["began_at"] else ": no worker has begun it.")
            )
        time.sleep(POLL_SECONDS)
        check = service.get("doctor", str(check["id"]))
    if check["report"] is None:
        raise ServiceUnreachable(str(check["failure"]))
    finished: Reply = check
    return finished


def exit_code(report: Reply) -> Exit:
    if report["findings"]:
        return Exit.NOT_WELL
    return Exit.NOT_CHECKED if report["not_looked"] else Exit.DONE


def show_report(report: Reply, printer: Printer) -> None:
    printer.table(tables.findings(report))
    for cluster in report["not_looked"]:
        printer.line(f"not checked: backend {cluster['backend']}: {cluster['reason']}")
    for cluster in report["looked"]:
        if cluster["freshness"] != "fresh":
            printer.line(f"not fresh: backend {cluster['backend']}: {cluster['observed']}")
    if report["waiting"]:
        printer.line(f"groups that wait for workers: {report['waiting']}")
    numbers = ", ".join(f"{number} {kind}" for kind, number in report["counts"].items() if number)
    objects = sum(cluster["objects"] for cluster in report["looked"])
    checked = f"groups: {report['groups']}, objects: {objects}, clusters: {len(report['looked'])}"
    printer.line(f"{checked}; findings: {numbers or 'none'}")
