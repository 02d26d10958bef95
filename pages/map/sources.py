"""The rows that the map of a pool is made from, as long as no workflow is selected on it."""

from django.utils import timezone

from pages.unchanged import RowSource, row_versions
from workflows.lifecycle.statuses import LIVE_ORDER, WORKFLOW_TERMINAL, WorkflowStatus

_CLUSTER = (
    "(SELECT b.cluster_id FROM pools_pool p JOIN pools_backend b ON b.id = p.backend_id "
    "WHERE p.name = %(pool)s)"
)
_POOL = "(SELECT id FROM pools_pool WHERE name = %(pool)s)"
_BACKENDS = f"(SELECT id FROM pools_backend WHERE cluster_id = {_CLUSTER})"  # noqa: S608 -- constants
_UNRELEASED = f"released_at IS NULL AND backend_id IN {_BACKENDS}"
_HOLDERS = f"(SELECT workflow_id FROM workflows_taskgroup WHERE {_UNRELEASED})"  # noqa: S608 -- constants
_GROUPS = f"(SELECT uuid FROM workflows_taskgroup WHERE {_UNRELEASED})"  # noqa: S608 -- constants

LIVE_WORKFLOWS = [str(status) for status in WorkflowStatus if status not in WORKFLOW_TERMINAL]

GROUP_COLUMNS = ("uuid", "workflow_id", "backend_id", "position", "start_time")
"""What the map reads of a group; a worker writes the row with every look."""

SOURCES = (
    RowSource("pools_pool", "name = %(pool)s"),
    RowSource("pools_topologykey", f"pool_id = {_POOL}"),
    RowSource("pools_platform", f"pool_id = {_POOL}"),
    RowSource("pools_backend", f"cluster_id = {_CLUSTER}"),
    RowSource("pools_cluster", f"uid = {_CLUSTER}", ("nodes_synced_at", "others_synced_at IS NULL")),
    RowSource("pools_node", f"cluster_id = {_CLUSTER}"),
    RowSource("pools_heldbyothers", f"cluster_id = {_CLUSTER}"),
    RowSource("pools_suspectnode", f"cluster_id = {_CLUSTER} AND until > %(now)s"),
    RowSource("workflows_taskgroup", _UNRELEASED, GROUP_COLUMNS),
    RowSource("workflows_task", f"status = ANY(%(live_tasks)s) AND group_id IN {_GROUPS}"),
    RowSource("workflows_workflow", f"uuid IN {_HOLDERS}"),
    RowSource("workflows_workflow", "pool_name = %(pool)s AND status = ANY(%(live_workflows)s)"),
)


def map_versions(pool: str) -> str:
    """What the rows of a pool's map are now. One query."""
    return row_versions(
        SOURCES,
        {
            "pool": pool,
            "now": timezone.now(),
            "live_tasks": [str(status) for status in LIVE_ORDER],
            "live_workflows": LIVE_WORKFLOWS,
        },
    )
