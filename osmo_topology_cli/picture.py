"""A workflow on a terminal, drawn anew with each reply."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from osmo_topology_cli import tables
from osmo_topology_cli.tables import printable
from osmo_topology_cli.terminal import coloured, drawn
from osmo_topology_client.replies import has_ended

Reply = Mapping[str, Any]

WIDTH = 40


def picture(replies: Iterator[Reply], console: Console) -> str:
    """Draw each reply in place of the one before; return the last status."""
    status = ""
    with Live(console=console, refresh_per_second=4) as live:
        for reply in replies:
            live.update(_drawn(reply, width=console.width))
            status = reply["status"]
    return status


def _drawn(reply: Reply, *, width: int) -> RenderableType:
    """The workflow's line, a bar of tasks that have ended, its groups, and why those that wait do."""
    tasks = [task for group in reply["groups"] for task in group["tasks"]]
    ended = sum(has_ended(task["status"]) for task in tasks)
    head = Text.assemble((printable(reply["name"]), "bold"), "  ", coloured(reply["status"]))
    waits = [
        Text(printable(f"{group['name']}: {group['waiting_reason']}"), style="yellow", overflow="fold")
        for group in reply["groups"]
        if group["waiting_reason"]
    ]
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=max(1, len(tasks)), completed=ended, width=min(WIDTH, width // 2)),
        Text(f"{ended} of {len(tasks)} ended"),
    )
    more = (
        [Text(f"Only its first {len(reply['groups'])} groups are shown and counted.")]
        if reply["more_entries"]
        else []
    )
    return Group(head, bar, *more, drawn(tables.groups(reply), width=width), *waits)
