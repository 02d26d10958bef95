"""Placements of groups, as a submission freezes them."""

from uuid import UUID

from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Level
from workflows.values.placement import GroupPlacement

GROUP = GroupPlacement(
    terms=SchedulingTerms(
        installation=UUID(int=1),
        pool="h100",
        pool_revision=3,
        backend="east",
        namespace="osmo",
        scheduler_type="kai",
        scheduler_name="kai-scheduler",
        levels=(Level("zone", "example.com/zone"), Level("rack", "example.com/rack")),
    ),
    nvlink=True,
    exec_timeout=60.0,
    queue_timeout=30.5,
    workflow_name="train-1",
    workflow_uuid=UUID(int=2),
    submitted_by="ann",
    labels={"team": "vision"},
)
