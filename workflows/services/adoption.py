"""The fate of groups when their database takes over a cluster in which a later state of it has written.

A backup may be older than a decision about a group's form. Its objects then have the order and the pins of a
decision that the row has forgotten, and an edit by the row alone would leave pod group and pods with names
of two orders: a scheduler never places such a gang. So each group is compared with its objects once, in the
ways that a crash in the middle of an edit is made good (``reconcile.form.bringing``). A group without
objects, of any scheduler and also one that waits for others, looks for pods of later tries before it creates
its own (``reconcile.objects.plan``).
"""

from workflows.lifecycle.form_states import OTHER_PINS, FormState
from workflows.models import TaskGroup
from workflows.services.waiting_gangs import ordering_schedulers
from workflows.values.placement import VERSION


def expect_other_forms(cluster_uid: str, namespace: str) -> int:
    """Have the next reconciliation of each live group there bring its objects to its row.

    Returns how many groups have objects with a form. Idempotent. Harmless where the objects are as the row
    has them.
    """
    live = TaskGroup.objects.filter(
        backend__cluster_id=cluster_uid,
        placement__namespace=namespace,
        released_at=None,
        stop_status="",
    )
    live.filter(touched_cluster=False).update(touched_cluster=True)  # its timeout begins with its create
    groups = live.filter(placement__version=VERSION, placement__scheduler_type__in=ordering_schedulers())
    groups.exclude(form_state__in=OTHER_PINS).update(other_form=None, searched_capacity="")
    return groups.update(form_state=FormState.PINS_AND_ORDER)
