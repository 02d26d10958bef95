"""Preferences that block a waiting gang give way, and return (``scheduling.fit.freeing`` decides).

``services.orders`` proposes how many levels preferences may name so that the gang is placed on the nodes as
observed. It is taken here under the lease and recorded before the pod group is edited. That is not for good:
if the gang gets no place all the same, another proposal follows, so a place that was lost to others costs no
preference. Between two changes lies the time after which preferences may give way at first.
"""

from dataclasses import replace

from workflows.lifecycle import patience
from workflows.lifecycle.patience import GAVE_WAY, RETURNED
from workflows.reconcile.form import edit
from workflows.reconcile.view.group_view import GroupView
from workflows.services.changes import Change, NewConstraints, NewForm, Note


def freeing_changes(view: GroupView) -> list[Change]:
    """The changes by which what was proposed for the group's preferences is taken; none for no proposal."""
    proposed = view.proposed_form
    if proposed is None or proposed.preference_levels == view.form.preference_levels:
        return []
    form = replace(view.form, preference_levels=proposed.preference_levels)
    rows = edit.constraint_rows(view, form)
    reason, message = (
        (RETURNED, patience.returned_message(view.row.constraints, group=view.row.name))
        if form.preference_levels is None
        else (GAVE_WAY, patience.gave_way_message(rows, group=view.row.name))
    )
    note = Note(key=f"preferences:{view.now.isoformat()}", reason=reason, message=message)
    return [NewForm(form), NewConstraints(rows), note]
