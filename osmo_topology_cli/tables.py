"""Replies as tables and sentences: pure functions, nothing is printed here.

A table is text by rows and columns. Texts of a service or a user may contain anything; ``printable`` is
called where they are shown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from operator import itemgetter
from typing import Any

from osmo_topology_client.replies import has_ended

Reply = Mapping[str, Any]

NONE = "-"
OUTCOMES = {"match": "as asked", "degraded": "preference missed", "violation": "requirement missed"}
"""What became of a requirement, in the words of the pages."""
GAP = "  "


@dataclass(frozen=True, slots=True)
class Table:
    """Text by rows and columns; the columns ``wide`` are for format WIDE alone.

    A narrow terminal leaves out the columns that are not in ``first`` before it leaves out one of those, the
    last ones first.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    wide: frozenset[str] = frozenset()
    first: tuple[str, ...] = ()

    @property
    def by_importance(self) -> tuple[str, ...]:
        return (*self.first, *(column for column in self.columns if column not in self.first))

    def narrow(self) -> "Table":
        places = [place for place, column in enumerate(self.columns) if column not in self.wide]
        rows = (tuple(row[place] for place in places) for row in self.rows)
        columns = tuple(self.columns[place] for place in places)
        return replace(self, columns=columns, rows=tuple(rows), wide=frozenset())


def pools(reply: Reply) -> Table:
    """The pools with what each has and what is in use of it."""
    rows = [
        (
            pool["name"],
            pool["status"],
            *_in_use(pool),
            _yes(pool["nvlink"]),
            _listed(key["key"] for key in pool["topology_keys"]),
            _default_topologies(pool),
            _listed(pool["platforms"]),
            pool["backend"],
            pool["max_exec_timeout"],
            pool["description"] or "",
        )
        for pool in sorted(
            (pool for shared in reply["node_sets"] for pool in shared["pools"]), key=itemgetter("name")
        )
    ]
    columns = (
        "POOL",
        "STATUS",
        "NODES FREE",
        "GPUS FREE",
        "WAITING",
        "FITS NOW",
        "NVLINK",
        "TOPOLOGY KEYS",
        "DEFAULT TOPOLOGY",
        "PLATFORMS",
        "BACKEND",
        "MAX TIME",
        "DESCRIPTION",
    )
    wide = frozenset({"DEFAULT TOPOLOGY", "BACKEND", "MAX TIME"})
    return Table(
        columns, tuple(rows), wide=wide, first=("POOL", "STATUS", "NODES FREE", "GPUS FREE", "WAITING")
    )


def _in_use(pool: Reply) -> tuple[str, str, str, str]:
    """What is free of a pool's nodes and GPUs, how many groups wait, and what would fit."""
    gpus = pool["resource_usage"]
    fits = (f"{node_count(level['nodes'])} in a {level['key']}" for level in reversed(pool["largest"]))
    return (
        f"{pool['free_nodes']} of {pool['nodes']}",
        f"{gpus['total_free']} of {gpus['total_capacity']}",
        str(pool["waiting_groups"]),
        _listed(fits),
    )


def _default_topologies(pool: Reply) -> str:
    """What groups get that name no key, also on a platform."""
    named = [("", pool), *((f"{name}: ", platform) for name, platform in sorted(pool["platforms"].items()))]
    defaults = ((owner, row["default_topology"]) for owner, row in named)
    return "; ".join(owner + _default_topology(default) for owner, default in defaults if default) or NONE


def _default_topology(default: Reply) -> str:
    if default.get("pack"):
        return "pack"
    entries = (
        f"{entry['key']} {entry.get('requirementType', 'required')}" for entry in default.get("topology", ())
    )
    segments = (
        f"segments of {entry['size']}: {entry['key']} {entry.get('requirementType', 'required')}"
        for entry in default.get("segment", ())
    )
    return _listed((*entries, *segments) or ["nothing"])


def nodes(reply: Reply) -> Table:
    """A line for each node, under the domains of the first of its pools."""
    rows = [
        (
            node["hostname"],
            _listed(node["conditions"] or ["Ready"]),
            f"{_free_gpus(node)} of {node['exposed_fields']['gpu']}",
            _domain(node),
            _listed(node["pool_platform_labels"]),
            node["backend"],
            _listed(f"{taint['key']}:{taint['effect']}" for taint in node["taints"]),
        )
        for node in reply["resources"]
    ]
    rows.sort(key=lambda row: (row[3], row[0]))
    columns = ("NODE", "STATE", "GPUS FREE", "DOMAIN", "POOLS", "BACKEND", "TAINTS")
    return Table(columns, tuple(rows), wide=frozenset({"BACKEND", "TAINTS"}))


def _free_gpus(node: Reply) -> int:
    """The most that a platform of its pools could still use there."""
    free = (
        amounts["gpu"]
        for platforms in node["platform_available_fields"].values()
        for amounts in platforms.values()
    )
    return max(free, default=0)


def _domain(node: Reply) -> str:
    places: Mapping[str, str | None] = next(iter(node["topology"].values()), {})
    return "/".join(value or "?" for value in places.values()) or NONE


def tasks_on_node(reply: Reply) -> Table:
    rows = [
        (
            task["workflow_id"],
            task["task_name"],
            task["status"],
            str(task["gpu"]),
            age(task["start_time"]),
            task["user"],
            task["pool"],
            str(task["retry_id"]),
        )
        for task in reply["tasks"]
    ]
    columns = ("WORKFLOW", "TASK", "STATUS", "GPUS", "RUNS FOR", "USER", "POOL", "RETRY")
    return Table(columns, tuple(rows), "On it", wide=frozenset({"RETRY"}))


def node_count(number: int) -> str:
    """``1 node``, ``3 nodes``."""
    return f"{number} node{'' if number == 1 else 's'}"


def pool_heading(reply: Reply) -> str:
    """A pool with its nodes and what is free."""
    age = f", as of {moment(reply['observed_at'])} UTC" if reply["observed_at"] else ", none seen yet"
    if reply["freshness"] == "old":
        age += f", {int(reply['age_seconds']) // 60} min old: the observer is silent"
    nvlink = ", NVLink" if reply["nvlink"] else ""
    gpus = f", {reply['free_gpus']} of {reply['gpus']} GPUs" if reply["gpus"] else ""
    nodes = f"{node_count(reply['nodes'])}, free are {reply['free_nodes']}"
    return f"pool {reply['name']}: {nodes}{gpus}{nvlink}{age}"


def keys(reply: Reply) -> Table:
    """A pool's keys, broadest first."""
    rows = [
        (key["key"], key["label"], str(key["domain_count"]), str(key["nodes_without_label"]))
        for key in reply["topology_keys"]
    ]
    return Table(
        ("KEY", "LABEL", "DOMAINS", "NODES WITHOUT LABEL"), tuple(rows), "Topology keys, broadest first"
    )


def domains(reply: Reply) -> Table:
    """Every domain under the one that it is part of."""
    domains_by_path = sorted(
        (tuple(domain["path"]), key["key"], domain)
        for key in reply["topology_keys"]
        for domain in key["domains"]
    )
    rows = [
        (
            "  " * (len(path) - 1) + path[-1],
            key,
            *(str(domain[name]) for name in ("nodes", "free_nodes", "gpus", "free_gpus")),
            "/".join(path),
        )
        for path, key, domain in domains_by_path
    ]
    columns = ("DOMAIN", "KEY", "NODES", "FREE", "GPUS", "FREE GPUS", "PATH")
    return Table(columns, tuple(rows), "Domains", wide=frozenset({"PATH"}))


def workflows(reply: Reply) -> Table:
    rows = [
        (
            workflow["name"],
            workflow["status"],
            workflow["pool"],
            *(_number(workflow.get(name)) for name in ("gpus", "tasks", "nodes")),
            age(workflow["submit_time"]),
            seconds(workflow["duration"]),
            workflow["user"],
            workflow["priority"],
            workflow.get("waiting_reason") or NONE,
            moment(workflow["submit_time"]),
            moment(workflow.get("start_time")),
            moment(workflow.get("end_time")),
            _listed(f"{name}={value}" for name, value in (workflow.get("labels") or {}).items()),
            workflow.get("workflow_uuid", NONE),
        )
        for workflow in reply["workflows"]
    ]
    more = ("SUBMITTED AT", "BEGAN AT", "ENDED AT", "LABELS", "UUID")
    columns = (
        *("WORKFLOW", "STATUS", "POOL", "GPUS", "TASKS", "NODES", "AGE", "RAN", "USER", "PRIORITY"),
        "WAITS FOR",
        *more,
    )
    first = ("WORKFLOW", "STATUS", "GPUS", "AGE", "WAITS FOR", "POOL")
    return Table(columns, tuple(rows), wide=frozenset(more), first=first)


def _number(value: int | None) -> str:
    return NONE if value is None else str(value)


def constraints(groups: Iterable[tuple[str, Sequence[Reply]]]) -> Table:
    """Each requirement with the set that shares a domain of its key."""
    rows = [
        (
            name,
            _set(constraint["set"]),
            constraint["key"],
            constraint["requirementType"],
            str(constraint["tasks"]),
            constraint.get("label", NONE),
            _note(constraint),
        )
        for name, applied in groups
        for constraint in applied
    ]
    columns = ("GROUP", "SET", "KEY", "TYPE", "TASKS", "LABEL", "NOTE")
    title = "Requirements, as the scheduler gets them"
    return Table(columns, tuple(rows), title, wide=frozenset({"LABEL"}))


def objects(reply: Reply) -> Table:
    rows = [
        (obj["kind"], obj.get("apiVersion", ""), obj["metadata"]["name"]) for obj in reply.get("objects", ())
    ]
    return Table(("KIND", "VERSION", "NAME"), tuple(rows), "Objects, in order of creation")


def recovery(reply: Reply) -> Table:
    """What follows in each group when it loses a task; a dry run says it."""
    rows = [
        (
            policy["group"],
            policy["preempted"],
            policy["node_lost"],
            policy["failed"] or "fail",
            policy["unexplained"] or policy["preempted"],
            str(policy["max"]),
            "no limit" if policy["max_preemptions"] is None else str(policy["max_preemptions"]),
            f"{policy['backoff']['first']} to {policy['backoff']['limit']}",
            policy["replace_patience"],
            str(policy["avoid_nodes"]),
        )
        for policy in reply.get("recovery", ())
    ]
    responses = ("PREEMPTED", "NODE LOST", "FAILED", "UNEXPLAINED")
    columns = ("GROUP", *responses, "MAX", "PREEMPTIONS", "PAUSE", "PATIENCE", "AVOIDS")
    return Table(columns, tuple(rows), "Recovery, in force for each group")


def groups(reply: Reply) -> Table:
    """A line for each group of a workflow, with the number of its tasks in each status."""
    rows = [
        (group["name"], group_status(group), progress(group), task_counts(group["tasks"]))
        for group in reply["groups"]
    ]
    return Table(("GROUP", "STATUS", "DONE", "TASKS"), tuple(rows))


def attempts(entries: Sequence[Reply]) -> Table:
    """A group's attempts, the present one last."""
    rows = [
        (
            str(entry["number"]),
            entry["status"],
            (entry["cause"] or NONE).replace("_", " "),
            entry["evidence"].replace("_", " ") or NONE,
            moment(entry["begin_time"]),
            moment(entry["start_time"]),
            moment(entry["end_time"]),
            _listed(entry["nodes"]),
            entry["message"] or NONE,
        )
        for entry in entries
    ]
    columns = ("ATTEMPT", "STATUS", "CAUSE", "EVIDENCE", "BEGAN AT", "RAN FROM", "ENDED AT", "NODES", "WHY")
    return Table(columns, tuple(rows), "Attempts", wide=frozenset({"EVIDENCE", "NODES"}))


def group_status(group: Reply) -> str:
    """The status of the present attempt, which a later one is named with."""
    if group["attempt"] == 1 or has_ended(group["status"]):
        return str(group["status"])
    present = group["attempts"][-1]
    return f"{present['status']} (attempt {present['number']})"


def places(group: Reply) -> Table:
    rows = [
        (
            task["name"],
            task["status"],
            _node(task),
            str(task["retry_id"] or NONE),
            task["pod_name"] or NONE,
            task["pod_ip"] or NONE,
        )
        for task in group["tasks"]
    ]
    columns = ("TASK", "STATUS", "NODE", "RETRY", "POD", "ADDRESS")
    return Table(columns, tuple(rows), wide=frozenset({"POD", "ADDRESS"}))


def _node(task: Reply) -> str:
    """A task's node, and its state where it is not healthy."""
    condition = task["node_condition"]
    name = task["node_name"] or NONE
    return f"{name} ({condition['state'].replace('_', ' ')})" if condition else name


def nearest(verdict: Reply) -> Table:
    """For each set that has no room, the domains that lack the least."""
    rows = [
        (
            _set(sets["path"]),
            "/".join(domain["path"]) or "the pool",
            f"{domain['free']} of {sets['tasks']}",
            str(domain["missing"]),
            _listed(map(_holder, domain["holders"])),
            moment(domain["free_at"]),
            str(domain["closed"]),
        )
        for sets in verdict["sets"]
        for domain in sets["nearest"]
    ]
    columns = ("SET", "DOMAIN", "ROOM FOR", "LACKS", "HELD BY", "FREE AT", "CLOSED NODES")
    return Table(columns, tuple(rows), wide=frozenset({"CLOSED NODES"}))


def _holder(holder: Reply) -> str:
    """A holder, and other tenants with their namespaces."""
    namespaces = ", ".join(holder["namespaces"])
    return f"{holder['name']} in {namespaces}" if namespaces else str(holder["name"])


def waiting(reply: Reply) -> Table:
    """A line for each group of others that waits."""
    rows = [
        (
            f"{group['namespace']}/{group['name']}",
            origin(group),
            group["queue"] or NONE,
            str(group["tasks"]),
            str(group["gpus"]),
            age(group["since"]),
            group["verdict"],
            group["sentence"],
            group["priority"] or NONE,
            str(group["minimum"]),
            group["scheduler_report"] or NONE,
        )
        for group in reply["groups"]
    ]
    more = ("PRIORITY", "MINIMUM", "SCHEDULER'S WORDS")
    columns = ("GROUP", "OF", "QUEUE", "TASKS", "GPUS", "AGE", "VERDICT", "WHY", *more)
    first = ("GROUP", "VERDICT", "WHY", "AGE", "TASKS", "GPUS")
    return Table(columns, tuple(rows), wide=frozenset(more), first=first)


def origin(group: Reply) -> str:
    """The owner of a group of others with its kind, else the kind of its own object."""
    return f"{group['owner_kind']}/{group['owner_name']}" if group["owner_name"] else str(group["kind"])


def choice(reply: Reply) -> Table:
    """The pools that a workflow was chosen for, the best first."""
    rows = [
        (
            entry["pool"],
            _yes(entry["chosen"]),
            _yes(entry["accepts"]),
            entry["verdict"],
            NONE if entry["preferences_met"] is None else _yes(entry["preferences_met"]),
            NONE if entry["broken_nodes"] is None else str(entry["broken_nodes"]),
            moment(entry["free_at"]),
            entry["sentence"],
        )
        for entry in reply["pools"]
    ]
    columns = ("POOL", "CHOSEN", "ACCEPTS", "VERDICT", "PREFERENCES MET", "NODES BROKEN UP", "FREE AT", "WHY")
    return Table(columns, tuple(rows), "Pools, the best first")


def predictions(reply: Reply) -> Table:
    """What becomes of each group that waits and for which something changes."""
    rows = [
        (
            group["workflow"] or NONE,
            group["group"],
            str(group["tasks"]),
            group["change"],
            group["before"]["sentence"],
            group["after"]["sentence"],
        )
        for group in reply["groups"]
        if group["change"] != "same"
    ]
    columns = ("WORKFLOW", "GROUP", "TASKS", "CHANGE", "NOW", "THEN")
    return Table(columns, tuple(rows), wide=frozenset({"NOW"}))


def prediction_counts(reply: Reply) -> str:
    counts = ", ".join(f"{number} {change}" for change, number in reply["summary"].items() if number)
    left = f"; not judged: {reply['left_out']}" if reply["left_out"] else ""
    before, after = (reply["fragmentation"][when]["free"] for when in ("before", "after"))
    return f"waiting groups: {counts or 'none'}{left}; free nodes: {before}, then {after}"


def outcomes(groups: Iterable[Reply]) -> Table:
    """For each set with a requirement, where it is and whether that holds."""
    rows = [
        (
            group["name"],
            _set(outcome["path"]),
            outcome["key"],
            "required" if outcome["required"] else "preferred",
            OUTCOMES.get(outcome["outcome"], outcome["outcome"]),
            _listed(f"{'/'.join(domain['path'])} ({domain['tasks']})" for domain in outcome["domains"]),
        )
        for group in groups
        for outcome in (group.get("got") or {}).get("sets", ())
    ]
    columns = ("GROUP", "SET", "KEY", "TYPE", "OUTCOME", "DOMAINS (TASKS)")
    return Table(columns, tuple(rows), "What became of its requirements")


def history(reply: Reply) -> Table:
    rows = [
        (
            f"{change['config_type']}:{change['revision']}",
            change["name"],
            change["username"],
            moment(change["created_at"]),
            change["description"],
            _listed(change["tags"]),
        )
        for change in reply["configs"]
    ]
    columns = ("REVISION", "NAME", "BY", "AT", "WHY", "TAGS")
    return Table(columns, tuple(rows), wide=frozenset({"TAGS"}))


def conditions(true_conditions: Sequence[Reply]) -> Table:
    columns = ("type", "status", "reason", "message")
    rows = [tuple(str(condition[name]) for name in columns) for condition in true_conditions]
    return Table(("CONDITION", "STATUS", "REASON", "MESSAGE"), tuple(rows))


def findings(report: Reply) -> Table:
    rows = [
        (
            finding["kind"],
            " ".join(filter(None, (finding["workflow"], finding["group"]))) or NONE,
            finding["message"],
        )
        for finding in report["findings"]
    ]
    return Table(("KIND", "WORKFLOW", "FINDING"), tuple(rows))


def progress(group: Reply) -> str:
    ended = sum(has_ended(task["status"]) for task in group["tasks"])
    return f"{ended}/{len(group['tasks'])}"


def counted(tasks: Iterable[Reply]) -> dict[str, int]:
    """How many tasks have each status, the most frequent first."""
    counts = Counter(task["status"] for task in tasks)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def task_counts(tasks: Iterable[Reply]) -> str:
    """``6 RUNNING, 2 SCHEDULING``."""
    return ", ".join(f"{number} {status}" for status, number in counted(tasks).items())


def moment(text: str | None) -> str:
    """A time of the service, which is UTC, to the second."""
    return text[:19].replace("T", " ") if text else NONE


def age(text: str | None) -> str:
    """For how long ago a time of the service is, by the clock of this machine."""
    if not text:
        return NONE
    then = datetime.fromisoformat(text[:19]).replace(tzinfo=timezone.utc)
    return seconds(max((datetime.now(timezone.utc) - then).total_seconds(), 0.0))


def seconds(value: float | None) -> str:
    """A duration with its two largest units."""
    if value is None:
        return NONE
    left = int(value)
    parts: list[str] = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2])


def printable(text: str) -> str:
    """Text without what would steer a terminal; line breaks become spaces."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _set(members: Sequence[Reply]) -> str:
    return (
        " > ".join(f"{member['key']} {member.get('segment') or member['group']}" for member in members)
        or "all tasks"
    )


def _note(constraint: Reply) -> str:
    if constraint.get("held_by"):
        return f"held by {constraint['held_by']}"
    if constraint.get("domain"):
        return f"kept in {'/'.join(constraint['domain'])}"
    if constraint.get("freed"):
        return f"as one {constraint['applied_key']}" if constraint.get("applied_key") else "dropped"
    if constraint.get("relaxed"):
        return "relaxed"
    return f"as required for {seconds(constraint['waitSeconds'])}" if constraint.get("waitSeconds") else ""


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or NONE
