"""The verdicts on task groups of one pool, as a reply shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from pools.clusters.capabilities import capabilities_at
from pools.selectors import Caller
from scheduling.fit.verdict import Answer, SetVerdict, Verdict, judge
from web.times import naive_utc
from workflows.feasibility.nodes import ObservedNodes, demand_of, observed_nodes, selectors_of
from workflows.feasibility.sentences import no_nodes_reason, redacted, sentence
from workflows.selectors import names_known_to
from workflows.values.placement import GroupValues

Json = dict[str, Any]

UNKNOWN = "unknown"
"""Said instead of a verdict while none of the nodes is known."""

MOST_PLACES = 64
"""Tasks of which a reply says where they would go; of larger gangs only how many."""


def feasibility(
    groups: Sequence[GroupValues], *, cluster: str | None, user: Caller, now: datetime
) -> list[Json]:
    """What a reply to a user says of each group of one workflow, each as if it came alone.

    While no node for their tasks is known there is no verdict, and it says why. Who holds a domain is told by
    name only of workflows that the user may list.
    """
    if not groups:
        return []
    placement = groups[0].placement
    capabilities = capabilities_at(placement.scheduler_type, placement.scheduler_version)
    seen = observed_nodes(
        cluster or "",
        selectors=selectors_of(groups),
        levels=placement.levels,
        capabilities=capabilities,
        without=[group.uuid for group in groups],
    )
    if missing := no_nodes_reason(seen, reached=bool(cluster)):
        return [_unknown(group, missing, seen=seen, now=now) for group in groups]
    found = [judge(seen.snapshot, demand_of(group, capabilities=capabilities)) for group in groups]
    known = names_known_to(user, {name for verdict in found for name in holders_of(verdict)})
    return [
        shown(group, redacted(verdict, known), seen=seen, now=now)
        for group, verdict in zip(groups, found, strict=True)
    ]


def holders_of(verdict: Verdict) -> set[str]:
    """The workflows that a verdict names."""
    return {holder.name for one in verdict.sets for room in one.nearest for holder in room.holders}


def _unknown(group: GroupValues, reason: str, *, seen: ObservedNodes, now: datetime) -> Json:
    nothing = Verdict(Answer.NOT_NOW, (), proven=False, tasks=len(group.tasks))
    told = {"verdict": UNKNOWN, "sentence": reason, "places": None}
    return shown(group, nothing, seen=seen, now=now) | told


def shown(group: GroupValues, verdict: Verdict, *, seen: ObservedNodes, now: datetime) -> Json:
    """One group's verdict. ``places`` is null for a gang too large to list."""
    synced = seen.synced_at
    places: Mapping[str, str] | None = verdict.places if len(verdict.places) <= MOST_PLACES else None
    return {
        "group": group.name,
        "verdict": verdict.answer.value,
        "sentence": sentence(verdict),
        "proven": verdict.proven,
        "another_order": verdict.another_order,
        "tasks": verdict.tasks,
        "room": verdict.room,
        "scheduler": group.placement.scheduler_type,
        "nodes": len(seen.snapshot.nodes),
        "nodes_synced_at": naive_utc(synced),
        "others_known": seen.others_known,
        "age_seconds": max(0.0, (now - synced).total_seconds()) if synced else None,
        "places": dict(places) if places is not None else None,
        "sets": [_set(one) for one in verdict.sets],
    }


def _set(one: SetVerdict) -> Json:
    values = asdict(one)
    values["path"] = [{"key": key, "group": group} for key, group in one.path]
    for room in values["nearest"]:
        room["path"] = list(room["path"])
        room["free_at"] = _moment(room["free_at"])
        for holder in room["holders"]:
            holder["until"] = _moment(holder["until"])
    return values


def _moment(epoch: float | None) -> str | None:
    return None if epoch is None else naive_utc(datetime.fromtimestamp(epoch, UTC))


def hopeless(found: Sequence[Json]) -> list[Json]:
    """Those that can never be placed."""
    return [one for one in found if one["verdict"] == Answer.NEVER.value]
