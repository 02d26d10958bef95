"""The preflight of a service: its checks, and what to do about each that is not good."""

from collections.abc import Iterable, Mapping
from typing import Any

from osmo_topology_cli.outcomes import Exit
from osmo_topology_cli.show import Printer

Reply = Mapping[str, Any]


def checks_of(report: Reply) -> list[str]:
    """The names of the checks that did not pass."""
    parts = [report["installation"], *(entry["checks"] for entry in report["backends"])]
    return [check["check"] for part in parts for check in part if check["status"] != "passed"]


def exit_code(report: Reply) -> Exit:
    return Exit.NOT_WELL if report["status"] == "failed" else Exit.DONE


def show_report(report: Reply, printer: Printer) -> None:
    printer.line("Installation")
    _show(report["installation"], printer)
    for entry in report["backends"]:
        printer.line(f"Backend {entry['backend']}")
        _show(entry["checks"], printer)
    printer.line(", ".join(f"{number} {status}" for status, number in report["counts"].items()))


def _show(checks: Iterable[Reply], printer: Printer) -> None:
    for check in checks:
        printer.line(f"{check['status']:<8} {check['check']}: {check['message']}", indent="  ")
        if check["to_do"]:
            printer.line(check["to_do"], indent=" " * 11)
