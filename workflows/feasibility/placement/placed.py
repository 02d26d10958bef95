"""The placement of a gang compared with its requirements, as its row keeps it.

Judged for each placement when every task has a node, by the labels that the nodes carry then, and again where
those change; nodes that disappear do not change it. It is compared with what the user wrote, also
where the scheduler cannot prefer or a preference was relaxed after its time.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pools.clusters.capabilities import capabilities_at
from scheduling.fit.outcome import PlacementOutcome, SetOutcome, outcomes, worst
from scheduling.gang.tree import ConstraintTree, build_tree
from scheduling.topology.levels import Levels, domain_of
from scheduling.topology.requirements import Gang, SetPath, members_json, path_in
from web.times import naive_utc, read_instant
from workflows.feasibility.verdict.sentences import missed_requirements
from workflows.values.placement import GroupPlacement, GroupValues

Json = dict[str, Any]

MOST_DOMAINS = 20
"""Domains that are kept of one set; of more, only their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSet:
    """One requirement of one set. ``domains`` are the first of those it stands in, with its tasks in each.

    ``domain_count`` counts all of its domains, ``outside`` its tasks on nodes without the label.
    """

    path: SetPath
    key: str
    required: bool
    outcome: PlacementOutcome
    domains: tuple[tuple[tuple[str, ...], int], ...]
    domain_count: int
    outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementResult:
    """The outcome of one placement; ``places`` is the ``fingerprint`` of its nodes.

    ``domains`` is the ``fingerprint`` of the domains that their labels name.
    """

    outcome: PlacementOutcome
    at: datetime
    places: str
    domains: str
    sets: tuple[PlacedSet, ...]

    @property
    def strictness(self) -> str:
        """``required`` if every requirement is, else ``preferred``."""
        return "required" if all(placed.required for placed in self.sets) else "preferred"

    def as_json(self) -> Json:
        """The shape of REST."""
        return {
            "outcome": self.outcome.value,
            "at": naive_utc(self.at, precision="seconds"),
            "sets": [_set_json(placed) for placed in self.sets],
        }

    def to_row(self) -> Json:
        return self.as_json() | {"places": self.places, "domains": self.domains}

    @classmethod
    def from_row(cls, content: Json) -> "PlacementResult":
        at = read_instant(content["at"])
        if at is None:
            raise ValueError(f"a placement result with the time {content['at']!r}")
        return cls(
            outcome=PlacementOutcome(content["outcome"]),
            at=at,
            places=content["places"],
            domains=content.get("domains", ""),
            sets=tuple(map(_read_set, content["sets"])),
        )


def _set_json(placed: PlacedSet) -> Json:
    return {
        "path": members_json(placed.path),
        "key": placed.key,
        "required": placed.required,
        "outcome": placed.outcome.value,
        "domains": [{"path": list(path), "tasks": count} for path, count in placed.domains],
        "domain_count": placed.domain_count,
        "outside": placed.outside,
    }


def _read_set(content: Json) -> PlacedSet:
    return PlacedSet(
        path=path_in(content["path"]),
        key=content["key"],
        required=content["required"],
        outcome=PlacementOutcome(content["outcome"]),
        domains=tuple((tuple(domain["path"]), domain["tasks"]) for domain in content["domains"]),
        domain_count=content["domain_count"],
        outside=content["outside"],
    )


def domains_fingerprint(
    labels: Mapping[str, Mapping[str, str]], levels: Levels, *, keys: Collection[str]
) -> str:
    """A digest of the domains of nodes, down to the narrowest level of these keys.

    Empty while a node lacks a label: that is unknown, and no other domain.
    """
    narrowest = max((rank for rank, level in enumerate(levels) if level.key in keys), default=-1)
    places = {node: domain_of(labels[node], levels[: narrowest + 1]) for node in labels}
    if any(None in place for place in places.values()):
        return ""
    return fingerprint({node: repr(place) for node, place in places.items()})


def fingerprint(nodes: Mapping[str, str]) -> str:
    """A digest of the node of each task: another placement has another one."""
    text = "\n".join(f"{task}\t{node}" for task, node in sorted(nodes.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def outcomes_on(
    gang: Gang, placement: GroupPlacement, nodes: Mapping[str, str], labels: Mapping[str, Mapping[str, str]]
) -> tuple[ConstraintTree, tuple[SetOutcome, ...]]:
    """A gang's constraint tree, and the outcome of each set on these nodes by the labels they carry.

    A task whose node has no labels here is left out of the count.
    """
    capabilities = capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version)
    tree = build_tree(gang, placement.terms.levels)
    places = {
        task: domain_of(labels[node], placement.terms.levels)
        for task, node in nodes.items()
        if node in labels
    }
    return tree, outcomes(tree, places, paths=capabilities.by_paths)


def judge(
    group: GroupValues, nodes: Mapping[str, str], labels: Mapping[str, Mapping[str, str]], *, now: datetime
) -> tuple[PlacementResult, list[str]] | None:
    """Compare a gang whose tasks stand on ``nodes`` (task name -> node) with its requirements.

    Returns the result and a sentence for each missed requirement; None for a gang without requirements.
    ``labels`` are those of each node.
    """
    _, set_outcomes = outcomes_on(group.gang, group.placement, nodes, labels)
    if not set_outcomes:
        return None
    result = PlacementResult(
        outcome=worst(set_outcomes),
        at=now,
        places=fingerprint(nodes),
        domains=domains_fingerprint(
            labels, group.placement.terms.levels, keys={each.level for each in set_outcomes}
        ),
        sets=tuple(map(_placed, set_outcomes)),
    )
    return result, missed_requirements(set_outcomes)


def _placed(outcome: SetOutcome) -> PlacedSet:
    return PlacedSet(
        path=outcome.path,
        key=outcome.level,
        required=outcome.required,
        outcome=outcome.outcome,
        domains=tuple(outcome.domains.items())[:MOST_DOMAINS],
        domain_count=len(outcome.domains),
        outside=outcome.outside,
    )
