"""Looking again every few seconds, until somebody interrupts: ``--watch`` of the commands that show."""

import time
from collections.abc import Callable
from typing import Annotated

import typer

from osmo_topology_cli.show import Printer

SECONDS = 2.0

Repeat = Annotated[bool, typer.Option("--watch", "-w", help="Look again every 2 seconds, until interrupted.")]


def repeated(show: Callable[[], None], printer: Printer, *, watch: bool) -> None:
    """Show once, or over and over; what can be overwritten is."""
    show()
    while watch:
        time.sleep(SECONDS)
        printer.overwrite()
        show()
