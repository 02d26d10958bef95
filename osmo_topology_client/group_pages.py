"""The groups of a workflow page by page: it has up to ten thousand, and few need all of them at once.

Each page is of its own moment. A group that begins to wait meanwhile may have no explanation yet.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from osmo_topology_client.replies import has_ended

if TYPE_CHECKING:
    from osmo_topology_client.service import Service

Reply = Mapping[str, Any]

GROUPS_A_PAGE = 200


def group_page(service: "Service", name: str, *, offset: int) -> Reply:
    """A workflow with its groups from the ``offset``th on."""
    reply: Reply = service.get("workflow", name, limit=GROUPS_A_PAGE, offset=offset)
    return reply


def group_pages(service: "Service", name: str, *parts: str) -> Iterator[Reply]:
    """All that the service says of a workflow, page by page."""
    return reply_pages(service, "workflow", name, *parts, size=GROUPS_A_PAGE)


def reply_pages(service: "Service", *parts: str, size: int) -> Iterator[Reply]:
    """All pages at an address, each read when it is needed."""
    offset = 0
    while True:
        reply = service.get(*parts, limit=size, offset=offset)
        yield reply
        if not reply["more_entries"]:
            return
        offset += size


def complete_reply(pages: Iterator[Reply]) -> Reply:
    """The reply with the groups of all pages, for a format that shows it as it is."""
    first = next(pages)
    groups = [*first["groups"], *(group for page in pages for group in page["groups"])]
    return {**first, "groups": groups, "more_entries": False}


def explained_pages(service: "Service", name: str) -> Iterator[tuple[Reply, Mapping[str, Reply]]]:
    """Each page of a workflow with the explanations of its groups that wait, by their names."""
    explanations = group_pages(service, name, "explain")
    waits: dict[str, Reply] = {}
    for page in group_pages(service, name):
        waiting = {group["name"] for group in page["groups"] if _waits(group)}
        while not waiting <= waits.keys() and (explanation := next(explanations, None)):
            waits.update((group["group"], group) for group in explanation["groups"])
        yield page, waits
        for group in page["groups"]:
            waits.pop(group["name"], None)


def _waits(group: Reply) -> bool:
    return bool(group["waiting_reason"]) and not has_ended(group["status"])
