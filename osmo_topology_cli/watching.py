"""Following a workflow to its end: its changes as lines, or a live picture.

The command requests the workflow every few seconds, and waits while the service does not answer. Lines show
changes alone, so a log of them stays short.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from osmo_topology_cli import tables
from osmo_topology_cli.outcomes import Exit, Refused, ServiceUnreachable
from osmo_topology_cli.service import Service
from osmo_topology_cli.show import Format, Printer, coloured, drawn
from osmo_topology_cli.tables import has_ended, printable

Json = Mapping[str, Any]

AWAY = 120.0  # seconds for which a service that does not answer is waited for
WIDTH = 40


def watch(service: Service, name: str, *, printer: Printer, interval: float) -> Exit:
    """Follow the workflow until it has ended; NOT_WELL unless it COMPLETED."""
    replies = _replies(service, name, interval=interval, notify=printer.note)
    follow = _picture if printer.is_live else _lines
    return Exit.DONE if follow(replies, printer) == "COMPLETED" else Exit.NOT_WELL


def _replies(
    service: Service, name: str, *, interval: float, notify: Callable[[str], None]
) -> Iterator[Json]:
    """The workflow's replies, one an interval; the last is of a workflow that has ended."""
    answered = time.monotonic()
    while True:
        try:
            reply = service.get("workflow", name)
        except (Refused, ServiceUnreachable) as error:
            if error.code is not Exit.UNREACHABLE or time.monotonic() - answered > AWAY:
                raise
            notify(f"{error.message} Trying again.")
        else:
            answered = time.monotonic()
            yield reply
            if has_ended(reply["status"]):
                return
        time.sleep(interval)


def _lines(replies: Iterator[Json], printer: Printer) -> str:
    last_changes: dict[str, Json] = {}
    status = ""
    for reply in replies:
        for change in changes(reply, last_changes):
            if printer.format is Format.JSON:
                printer.json_line(change)
            else:
                printer.line(sentence(change))
        status = reply["status"]
    return status


def changes(reply: Json, last_changes: dict[str, Json]) -> list[Json]:
    """What is new in the reply; ``last_changes`` has the last change of each group and of the workflow."""
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    groups = [
        {
            "time": now,
            "workflow": reply["name"],
            "group": group["name"],
            "status": group["status"],
            "tasks": tables.counted(group["tasks"]),
            "reason": group["waiting_reason"] or group["failure_message"],
        }
        for group in reply["groups"]
    ]
    workflow = {"time": now, "workflow": reply["name"], "group": None, "status": reply["status"]}
    new: list[Json] = []
    for change in (*groups, workflow):
        key, content = str(change["group"] or ""), {name: change[name] for name in change if name != "time"}
        if last_changes.get(key) != content:
            last_changes[key] = content
            new.append(change)
    return new


def sentence(change: Json) -> str:
    if change["group"] is None:
        return f"{change['time']} {change['workflow']}: {change['status']}"
    counts = ", ".join(f"{number} {status}" for status, number in change["tasks"].items())
    reason = f": {change['reason']}" if change["reason"] else ""
    return f"{change['time']} {change['workflow']} {change['group']}: {change['status']} ({counts}){reason}"


def _picture(replies: Iterator[Json], printer: Printer) -> str:
    status = ""
    with Live(console=printer.console, refresh_per_second=4) as live:
        for reply in replies:
            live.update(_drawn(reply, width=printer.console.width))
            status = reply["status"]
    return status


def _drawn(reply: Json, *, width: int) -> RenderableType:
    """The workflow's line, a bar of tasks that have ended, its groups, and why those that wait do."""
    tasks = [task for group in reply["groups"] for task in group["tasks"]]
    ended = sum(has_ended(task["status"]) for task in tasks)
    head = Text.assemble((printable(reply["name"]), "bold"), "  ", coloured(reply["status"]))
    waits = [
        Text(f"{group['name']}: {printable(group['waiting_reason'])}", style="yellow", overflow="fold")
        for group in reply["groups"]
        if group["waiting_reason"]
    ]
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=max(1, len(tasks)), completed=ended, width=min(WIDTH, width // 2)),
        Text(f"{ended} of {len(tasks)} ended"),
    )
    return Group(head, bar, drawn(tables.groups(reply), width=width), *waits)
