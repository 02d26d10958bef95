"""Preferences that block a waiting gang give way, and return (``scheduling.fit.freeing`` decides).

The decision is taken on the nodes as observed and recorded before the pod group is edited. It is not for
good: if the gang gets no place all the same, it is taken anew, so that a place which was lost to others costs
no preference. Between two changes lies the time after which preferences may give way at first.
"""

from dataclasses import replace
from datetime import timedelta

from pools.clusters.capabilities import capabilities_at
from scheduling.fit.freeing import freed_levels
from workflows.feasibility.nodes import demand_of, observed_nodes, selectors_of
from workflows.lifecycle import patience
from workflows.models import Event
from workflows.reconcile import edit, observations
from workflows.reconcile.group_view import GroupView
from workflows.services.lease import Lease
from workflows.services.record import NewConstraints, NewPreferenceLevels, Note, record
from workflows.values.placement import Easing

GAVE_WAY = "PreferencesGaveWay"
RETURNED = "PreferencesReturned"


def free_preferences(view: GroupView, lease: Lease) -> bool:
    """Decide how many levels preferences may name now; returns whether that has changed."""
    if not observations.knows_nodes(view):
        return False
    count = _levels_for_now(view)
    if count == view.row.preference_levels or _changed_lately(view):
        return False
    rows = edit.constraint_rows(view, Easing(view.row.stage, count))
    reason, message = (
        (RETURNED, patience.returned_message(view.row.constraints, group=view.row.name))
        if count is None
        else (GAVE_WAY, patience.gave_way_message(rows, group=view.row.name))
    )
    note = Note(key=f"preferences:{view.now.isoformat()}", reason=reason, message=message)
    record(lease, [NewPreferenceLevels(count), NewConstraints(rows), note])
    return True


def _levels_for_now(view: GroupView) -> int | None:
    placement, values = view.placement, replace(view.values, preference_levels=None)
    capabilities = capabilities_at(placement.scheduler_type, placement.scheduler_version)
    observed = observed_nodes(
        observations.cluster_of(view),
        selectors=selectors_of([values]),
        levels=placement.levels,
        capabilities=capabilities,
        without=[view.uuid],
    )
    return freed_levels(observed.snapshot, demand_of(values, capabilities=capabilities))


def _changed_lately(view: GroupView) -> bool:
    since = view.now - timedelta(seconds=view.placement.free_preferences_after)
    events = Event.objects.filter(group=view.row, reason__in=[GAVE_WAY, RETURNED], time__gt=since)
    return events.exists()
