"""Keeping condition ``TopologyLevelsUnavailable`` of groups true, with an event when it begins and ends.

Run with the evaluation of their cluster's pools (``pools.services.evaluation``): nodes are read once, groups
with equal inputs are judged once, and only changed conditions are written, a few hundred rows in a
transaction (``services.condition_rows``).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

import structlog
from django.db import connection

from pools import conditions
from pools.clusters.capabilities import capabilities_at
from pools.conditions import Condition, aged
from pools.selectors import freshness_of
from pools.services import evaluation
from scheduling.backends.registry import installed, joins_queues
from workflows.explain.levels import UNAVAILABLE, ExternalTopology, NamedLevels, condition_of, coverage_of
from workflows.lifecycle.statuses import LIVE_ORDER, TERMINAL
from workflows.models import Event, TaskGroup
from workflows.services import condition_rows
from workflows.services.timeline import SOURCE
from workflows.values.placement import GroupPlacement

BATCH = 200

log = structlog.get_logger(__name__)

Nodes = Mapping[str, Mapping[str, str]]

_GROUPS = """
    SELECT g.uuid, g.placement,
           (SELECT jsonb_agg(DISTINCT line->>'label') FROM jsonb_array_elements(g.constraints) AS line),
           (SELECT jsonb_agg(DISTINCT t.spec->'node_selector') FROM workflows_task t
             WHERE t.group_id = g.uuid AND t.latest),
           g.conditions
      FROM workflows_taskgroup g
      JOIN pools_backend b ON b.id = g.backend_id
     WHERE g.released_at IS NULL AND g.status = ANY(%s) AND g.constraints <> '[]'
       AND coalesce(nullif(g.placement->>'cluster_uid', ''), b.cluster_id) = %s
  ORDER BY g.uuid
"""


@dataclass(frozen=True, slots=True)
class _Group:
    pk: UUID
    named: NamedLevels
    selectors: tuple[tuple[tuple[str, str], ...], ...]
    conditions: Sequence[dict[str, Any]]


def named_of(placement: GroupPlacement, labels: frozenset[str], *, cluster_uid: str) -> NamedLevels:
    """The levels that constraints with these labels name, with the external Topology object as observed."""
    reads = bool(placement.terms.external_topology) or joins_queues(placement.terms.scheduler_type)
    return _named(placement, labels, evaluation.objects_of(cluster_uid) if reads else None)


def _named(
    placement: GroupPlacement, labels: frozenset[str], objects: evaluation.ClusterObjects | None
) -> NamedLevels:
    capabilities = capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version)
    return NamedLevels(
        levels=placement.terms.levels,
        labels=labels,
        paths=capabilities.by_paths,
        external=_external(placement, labels, objects) if objects else None,
    )


def _external(
    placement: GroupPlacement, labels: frozenset[str], objects: evaluation.ClusterObjects
) -> ExternalTopology | None:
    """The Topology of others that a group's constraints are in; of several, one that lists most of them."""
    terms = placement.terms
    scheduler = installed().get(terms.scheduler_type)
    names: tuple[str, ...] = (terms.external_topology,)
    expected = terms.levels
    if scheduler is None or scheduler.topologies is None:
        return None
    resource = scheduler.topologies.kind.crd
    if scheduler.joined_queues is not None:
        queue = objects.joined_queue(terms.scheduler_type, terms.namespace, terms.queue, selector={})
        if queue is None:
            return None
        names, expected = queue.topologies, scheduler.joined_queues.levels_needed(terms.levels)
    elif not scheduler.owns_topologies or not objects.has_all(resource):
        return None
    topologies = [
        ExternalTopology(name=name, labels=objects.topologies.get((resource, name)), expected=expected)
        for name in names
        if name
    ]
    return max(topologies, key=lambda topology: len(labels & {*(topology.labels or ())}), default=None)


def evaluate(uid: str) -> None:
    """Evaluate the conditions that follow from a cluster's observed objects: of pools, then of groups."""
    changes = evaluation.changes_of(uid)
    nodes = evaluation.node_labels(uid)
    evaluation.evaluate_pools(uid, nodes=nodes)
    evaluate_groups(uid, nodes=nodes)
    evaluation.mark_evaluated(uid, changes=changes)


def evaluate_groups(uid: str, *, nodes: Nodes) -> int:
    """Evaluate the groups that wait or run in a cluster whose nodes are these; returns how many changed."""
    freshness = freshness_of(uid)
    verdicts: dict[Any, Condition] = {}
    news: dict[UUID, Condition] = {}
    for group in _groups(uid):
        key = (group.named, group.selectors)
        if key not in verdicts:
            usable = _matched(nodes, group.selectors)
            condition = condition_of(group.named, coverage_of(group.named, usable))
            verdicts[key] = aged.by(freshness, condition)
        if conditions.differs(group.conditions, verdicts[key]):
            news[group.pk] = verdicts[key]
    left = iter(news.items())
    written = 0
    while some := dict(islice(left, BATCH)):
        written += condition_rows.write(some, turned=partial(_turned, some), event_of=_event)
    return written


def _groups(uid: str) -> Iterator[_Group]:
    objects = evaluation.objects_of(uid)
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, [[str(status) for status in LIVE_ORDER], uid])
        rows = cursor.fetchall()
    for pk, frozen, labels, selectors, written in rows:
        try:
            placement = GroupPlacement.from_json(_read(frozen))
        except ValueError as error:  # of a newer release, whose workers handle it
            log.warning("levels_not_evaluated", group=str(pk), error=str(error))
            continue
        named = _named(placement, frozenset(_read(labels)), objects)
        distinct = sorted(tuple(sorted((labels or {}).items())) for labels in _read(selectors) or [{}])
        yield _Group(pk, named, tuple(distinct), _read(written))


def _matched(nodes: Nodes, selectors: Sequence[Sequence[tuple[str, str]]]) -> Nodes:
    """The nodes that some task of the group may use."""
    needed = [dict(selector).items() for selector in selectors]
    return {
        name: labels for name, labels in nodes.items() if any(pairs <= labels.items() for pairs in needed)
    }


def _turned(news: Mapping[UUID, Condition], group: TaskGroup, now: datetime) -> Condition | None:
    """What is new of a group that has not ended meanwhile."""
    del now
    verdict = news[group.pk]
    is_new = group.status not in TERMINAL and conditions.differs(group.conditions, verdict)
    return verdict if is_new else None


def _event(group: TaskGroup, verdict: Condition, before: str, now: datetime) -> Event | None:
    """The event of a condition that began or ended; none where it was or is unknown."""
    if {verdict.status, before} != {"True", "False"}:
        return None
    begins = verdict.status == "True"
    since = (conditions.find(group.conditions, UNAVAILABLE) or {})["lastTransitionTime"]
    back = f"All levels that group {group.name} needs are in the cluster again."
    return Event(
        workflow_id=group.workflow_id,
        group=group,
        time=now,
        source=SOURCE,
        warning=begins,
        reason=UNAVAILABLE if begins else "TopologyLevelsAvailable",
        message=f"Group {group.name}: {verdict.message}" if begins else back,
        dedupe=f"levels:{group.pk.hex}:{verdict.status}:{since}",
    )


def _read(value: object) -> Any:
    """A JSON column of a raw query, which the driver hands over as text."""
    return json.loads(value) if isinstance(value, str) else value
