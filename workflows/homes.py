"""Where the objects of a task group are at home: one cluster and one namespace, frozen in its row.

A label or a name says which group an object means, and anybody who may write objects in some other namespace
can write both. So what was seen counts for a group only in the cluster and namespace of its placement; a copy
anywhere else is no pod of it, ends nothing and writes no line in its timeline. The cluster is the one of the
first contact; before that it is the backend's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Exists, F, Model, OuterRef, QuerySet, TextField, Value
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Coalesce, NullIf

from workflows.models import TaskGroup

Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Home:
    """The cluster and namespace of a group, the workflow that it belongs to, and whether it has ended."""

    cluster: str
    namespace: str
    workflow: UUID
    has_ended: bool


_CLUSTER = Coalesce(
    NullIf(KeyTextTransform("cluster_uid", "placement"), Value("")),
    F("backend__cluster_id"),
    output_field=TextField(),
)
_NAMESPACE = KeyTextTransform("namespace", "placement")


_HOMES = """
    SELECT g.uuid, coalesce(nullif(g.placement ->> 'cluster_uid', ''), b.cluster_id, ''),
           coalesce(g.placement ->> 'namespace', ''), g.workflow_id, g.end_time IS NOT NULL
      FROM workflows_taskgroup AS g JOIN pools_backend AS b ON b.id = g.backend_id
     WHERE g.uuid = ANY(%s::uuid[])
"""


def homes_of(groups: Iterable[UUID]) -> dict[UUID, Home]:
    """The homes of groups that exist. One query, none for no group."""
    if not (keys := list(set(groups))):
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_HOMES, [keys])
        return {group: Home(*home) for group, *home in cursor.fetchall()}


def at_home(rows: QuerySet[Row]) -> QuerySet[Row]:
    """Of observed rows those that are in the cluster and namespace of the group that they name."""
    groups = TaskGroup.objects.annotate(cluster=_CLUSTER, namespace=_NAMESPACE)
    own = groups.filter(
        pk=OuterRef("group_uuid"), cluster=OuterRef("cluster_id"), namespace=OuterRef("namespace")
    )
    return rows.filter(Exists(own))
