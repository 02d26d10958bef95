"""The gangs of others that wait in a backend's cluster, as its scheduler's facet reads them.

The observer keeps a row for each while the backend says ``follow_others``. A row says no more than what was
kept of the cluster's objects; with them are read the topology objects and queues that they name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from django.db.models import QuerySet

from pools.documents.backend import version_of
from pools.models import Backend, Cluster
from pools.services.evaluation import ClusterObjects
from pools.values.completeness import Completeness
from scheduling.backends.facets import ForeignGangs, SchedulerBackend, gang_resource
from scheduling.backends.registry import installed
from scheduling.capabilities import SchedulerVersion
from scheduling.foreign.gang import ForeignGang, GangKept, NotRead, UnreadPart, root_of
from workflows.models import ObservedGang

NOT_FOLLOWED = (
    "This backend does not follow gangs that others submitted: its administrator sets follow_others to true."
)
NO_TIME = UnreadPart(
    NotRead.TOO_LARGE, "The verdicts on others here took all the time: ask for this one by its name."
)
MOST_GANGS = 1_000
"""Gangs below other objects that are read to find those of a page."""

NOT_LISTED = "Gangs that others submitted have not been listed yet."


@dataclass(frozen=True, slots=True, kw_only=True)
class OthersGang:
    """A gang of others that waits; ``kind`` is that of its object."""

    kind: str
    since: datetime | None
    gang: ForeignGang


def facet_of(backend: Backend) -> tuple[SchedulerBackend, ForeignGangs] | None:
    """The scheduler of a backend that follows gangs of others, with the facet that reads them."""
    scheduler = installed().get(backend.scheduler_type)
    if not backend.follow_others or backend.cluster_id is None or scheduler is None:
        return None
    return (scheduler, scheduler.foreign) if scheduler.foreign else None


def others_of(backend: Backend) -> QuerySet[ObservedGang]:
    """The rows of the gangs that wait, the oldest first; none where the backend does not follow them."""
    reader = facet_of(backend)
    if reader is None:
        return ObservedGang.objects.none()
    _, foreign = reader
    rows = ObservedGang.objects.filter(cluster_id=backend.cluster_id, resource=gang_resource(foreign))
    return rows.order_by("created_at", "namespace", "name")


def problem_of(backend: Backend, cluster: Cluster | None) -> str:
    """Why not all of them are known, as a full sentence; empty if all are."""
    scheduler = installed().get(backend.scheduler_type)
    if not backend.follow_others or scheduler is None or scheduler.foreign is None:
        return NOT_FOLLOWED
    gangs = Completeness.of(cluster.completeness if cluster else {}, gang_resource(scheduler.foreign))
    if gangs.is_known:
        return ""
    return f"They are not followed: {gangs.problem}" if gangs.problem else NOT_LISTED


def read_gangs(
    backend: Backend, rows: Sequence[ObservedGang], *, objects: ClusterObjects, is_late: Callable[[], bool]
) -> list[OthersGang]:
    """Read the gangs of these rows; none once it ``is_late``. One query at most."""
    reader = facet_of(backend)
    if reader is None:
        return []
    scheduler, foreign = reader
    read = partial(
        foreign.read,
        topologies=_named(scheduler, objects.topologies),
        queues=objects.queues,
        version=SchedulerVersion.parse_known(version_of(backend)),
    )
    kind, stored = foreign.kinds[0].kind, list(map(_stored, rows))
    siblings = _by_root(backend, {gang.namespace for gang in stored if root_of(gang)})
    return [
        OthersGang(
            kind=kind,
            since=row.created_at,
            gang=left_out(ForeignGang(namespace=gang.namespace, name=gang.name))
            if is_late()
            else read(gang, siblings=siblings.get((gang.namespace, root_of(gang)), ())),
        )
        for row, gang in zip(rows, stored, strict=True)
    ]


def left_out(gang: ForeignGang) -> ForeignGang:
    """The gang without a demand, for which there is no time any more."""
    return replace(gang, demand=None, unread=(*gang.unread, NO_TIME))


def _stored(row: ObservedGang) -> GangKept:
    """The gang of a row, by the row's own name: its content may be unreadable."""
    return replace(GangKept.from_json(row.content), namespace=row.namespace, name=row.name)


def _by_root(backend: Backend, namespaces: set[str]) -> Mapping[tuple[str, str], Sequence[GangKept]]:
    """The gangs of these namespaces that stand below another object, by its namespace and name."""
    gangs: dict[tuple[str, str], list[GangKept]] = {}
    if not namespaces:
        return gangs
    rows = others_of(backend).filter(namespace__in=namespaces, content__obj__has_key="parent")
    rows = rows.exclude(content__obj__parent="")[:MOST_GANGS]
    for gang in map(_stored, rows):
        if root := root_of(gang):
            gangs.setdefault((gang.namespace, root), []).append(gang)
    return gangs


def _named(
    scheduler: SchedulerBackend, topologies: Mapping[tuple[str, str], tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The labels of the scheduler's topology objects, by their names."""
    if scheduler.topologies is None:
        return {}
    resource = scheduler.topologies.kind.crd
    return {name: labels for (of, name), labels in topologies.items() if of == resource}
