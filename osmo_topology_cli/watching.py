"""Following a workflow to its end: its changes as lines, or a live picture.

The command requests a page of the workflow's groups every few seconds, and waits while the service does not
answer. Lines show changes alone, so a log of them stays short. They follow page after page, and all pages
once the workflow has ended; the picture shows the first page, which is more than a terminal holds.
"""

import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from osmo_topology_cli import tables
from osmo_topology_cli.outcomes import Exit
from osmo_topology_cli.show import Format, Printer
from osmo_topology_client.client import Client
from osmo_topology_client.group_pages import GROUPS_A_PAGE, group_page
from osmo_topology_client.replies import has_ended

Reply = Mapping[str, Any]


def watch(service: Client, name: str, *, printer: Printer, interval: float) -> Exit:
    """Follow the workflow until it has ended; NOT_WELL unless it COMPLETED."""
    replies = _replies(service, name, interval=interval, first_page_only=printer.is_live)
    if printer.is_live:
        from osmo_topology_cli.picture import picture  # noqa: PLC0415 -- for terminals alone

        status = picture(replies, printer.console)
    else:
        status = _lines(replies, printer)
    return Exit.DONE if status == "COMPLETED" else Exit.NOT_WELL


def _replies(service: Client, name: str, *, interval: float, first_page_only: bool) -> Iterator[Reply]:
    """Pages of the workflow, one an interval; the last are those of a workflow that has ended."""
    offset, is_last_round = 0, False
    while True:
        read = partial(group_page, service, name, offset=offset)
        reply = service.patiently(read, interval=interval)
        if has_ended(reply["status"]) and offset and not is_last_round:
            offset, is_last_round = 0, True
            continue
        yield reply
        is_last_round = has_ended(reply["status"])
        has_more = reply["more_entries"] and not first_page_only
        if is_last_round and not has_more:
            return
        offset = offset + GROUPS_A_PAGE if has_more else 0
        if not is_last_round:
            time.sleep(interval)


def _lines(replies: Iterator[Reply], printer: Printer) -> str:
    last_changes: dict[str, Reply] = {}
    status = ""
    for reply in replies:
        for change in changes(reply, last_changes):
            if printer.format is Format.JSON:
                printer.json_line(change)
            elif printer.is_table:
                printer.line(sentence(change))
        status = reply["status"]
    return status


def changes(reply: Reply, last_changes: dict[str, Reply]) -> list[Reply]:
    """What is new in the reply; ``last_changes`` has the last change of each group and of the workflow.

    The workflow's end comes after the ends of its groups: with its last page.
    """
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
    ends_later = has_ended(reply["status"]) and reply["more_entries"]
    new: list[Reply] = []
    for change in groups if ends_later else (*groups, workflow):
        key, content = str(change["group"] or ""), {name: change[name] for name in change if name != "time"}
        if last_changes.get(key) != content:
            last_changes[key] = content
            new.append(change)
    return new


def sentence(change: Reply) -> str:
    if change["group"] is None:
        return f"{change['time']} {change['workflow']}: {change['status']}"
    counts = ", ".join(f"{number} {status}" for status, number in change["tasks"].items())
    reason = f": {change['reason']}" if change["reason"] else ""
    return f"{change['time']} {change['workflow']} {change['group']}: {change['status']} ({counts}){reason}"
