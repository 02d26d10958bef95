"""What targets receive: a CloudEvent 1.0 in structured mode, or an e-mail. Nothing of other workflows."""

import json
from typing import Any

from web.env import environment
from workflows.models import NewsItem, TaskGroup

TYPE = "osmo-topology.workflow."
MOST_GROUPS = 100
MOST_CHARACTERS = 500


def event_text(item: NewsItem) -> str:
    """The CloudEvent of an item; each try sends the same id."""
    facts = item.facts
    groups, more = _groups(item)
    event = {
        "specversion": "1.0",
        "id": str(item.uuid),
        "source": f"{_base()}/api/workflow/{facts['name']}",
        "type": f"{TYPE}{item.kind}",
        "subject": facts["name"],
        "time": facts["time"],
        "datacontenttype": "application/json",
        "data": {
            "workflow": {
                "name": facts["name"],
                "uuid": item.workflow_uuid.hex,
                "pool": facts["pool"],
                "submitted_by": facts["user"],
                "overview": _page(facts["name"]),
            },
            "kind": item.kind,
            "status": facts["status"],
            "group": facts["group"],
            "sentence": facts["sentence"],
            "groups": groups,
            "more_groups": more,
        },
    }
    return json.dumps(event, ensure_ascii=False)


def mail_text(item: NewsItem) -> tuple[str, str]:
    """The subject and the text of an e-mail."""
    facts = item.facts
    outcome = facts["status"] or item.kind.replace("_", " ")
    groups, more = _groups(item)
    ends = [f"{group['name']}: {group['status']} {group['message'] or ''}".strip() for group in groups]
    ends += [f"{more} more groups"] * bool(more)
    about = f"Workflow {facts['name']} of {facts['user']} in pool {facts['pool']}"
    lines = [facts["sentence"], "", about, _page(facts["name"]), "", *ends]
    return f"{facts['name']}: {outcome}", "\n".join(lines)


def _groups(item: NewsItem) -> tuple[list[dict[str, Any]], int]:
    """The first groups of a workflow that has ended, whose statuses stay, and how many more there are."""
    if item.kind != "ended":
        return [], 0
    rows = TaskGroup.objects.filter(workflow=item.workflow_uuid).order_by("position")
    first = rows.values_list("name", "status", "failure_message")[:MOST_GROUPS]
    groups = [
        {"name": name, "status": status, "message": message[:MOST_CHARACTERS] or None}
        for name, status, message in first
    ]
    return groups, max(0, rows.count() - len(groups))


def _base() -> str:
    return environment().service_url.rstrip("/")


def _page(name: str) -> str:
    return f"{_base()}/ui/workflows/{name}"
