"""What a gang got of what its user asked for, as it is kept with the group.

Judged once for each placing, when every task has a node, by the labels that the nodes carry then: labels that
change later, or nodes that go, do not rewrite it. What was asked is what the user wrote, also where the
scheduler cannot prefer or a preference was given up after its time.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pools.clusters.capabilities import capabilities_at
from scheduling.capabilities import Capability
from scheduling.fit.outcome import PlacementOutcome, SetOutcome, outcomes, worst
from scheduling.levels import domain_of
from scheduling.requirements import Gang
from scheduling.tree import ConstraintTree, build_tree
from web.times import naive_utc
from workflows.feasibility.sentences import missed_requirements
from workflows.values.placement import GroupPlacement, GroupValues

Json = dict[str, Any]

MOST_DOMAINS = 20
"""Domains that are kept of one set; a set spread over more is told by their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementResult:
    """``kept`` is the row's; ``asked`` says whether the gang asked for anything that may be missed."""

    outcome: PlacementOutcome
    asked: str
    kept: Json
    missed: tuple[str, ...]


def fingerprint(nodes: Mapping[str, str]) -> str:
    """Of the node of each task: another placing has another one."""
    text = "\n".join(f"{task}\t{node}" for task, node in sorted(nodes.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def outcomes_on(
    gang: Gang, placement: GroupPlacement, nodes: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]
) -> tuple[ConstraintTree, tuple[SetOutcome, ...]]:
    """What a gang asked for, and of each set what it has on these nodes, by the labels they carry.

    A task whose node has no labels here is left out of the count.
    """
    held = capabilities_at(placement.scheduler_type, placement.scheduler_version)
    tree = build_tree(gang, placement.levels)
    places = {
        task: domain_of(labels[node], placement.levels) for task, node in nodes.items() if node in labels
    }
    return tree, outcomes(tree, places, paths=Capability.TOPOLOGY_PATH_DOMAINS in held)


def judge(
    group: GroupValues, nodes: Mapping[str, str], labels: Mapping[str, Mapping[str, str]], *, now: datetime
) -> PlacementResult | None:
    """Compare a gang whose tasks stand on ``nodes`` (task name -> node) with what was asked for.

    ``labels`` are those of each node. None for a gang that asked for nothing.
    """
    _, found = outcomes_on(group.gang(), group.placement, nodes, labels)
    if not found:
        return None
    outcome = worst(found)
    kept = {
        "outcome": outcome.value,
        "at": naive_utc(now, precision="seconds"),
        "places": fingerprint(nodes),
        "sets": [_set(one) for one in found],
    }
    asked = "required" if all(one.required for one in found) else "preferred"
    return PlacementResult(outcome=outcome, asked=asked, kept=kept, missed=tuple(missed_requirements(found)))


def _set(one: SetOutcome) -> Json:
    domains = list(one.domains.items())
    return {
        "path": [{"key": key, "group": group} for key, group in one.path],
        "key": one.level,
        "required": one.required,
        "outcome": one.outcome.value,
        "domains": [{"path": list(path), "tasks": count} for path, count in domains[:MOST_DOMAINS]],
        "domain_count": len(domains),
        "outside": one.outside,
    }
