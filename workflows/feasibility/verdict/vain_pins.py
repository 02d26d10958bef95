"""Pins in vain: a waiting gang whose sets node labels keep where there is no room.

Its numbers are those of the gang without pins: the room beside the labels would be counted as absent.
"""

from datetime import datetime

from pools.clusters.capabilities import capabilities_at
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.pin_choice import is_lost
from scheduling.fit.snapshot import Snapshot
from scheduling.gang.checks import chooses_domains
from scheduling.gang.pins import sentence
from workflows.lifecycle.pin_words import PINNED
from workflows.lifecycle.repeated_changes import MOST_CHANGES, changeable_at, renewable_at
from workflows.models import Event
from workflows.values.placement import GroupValues


def place_sentence(
    group: GroupValues, pinned: GangDemand, snapshot: Snapshot, *, has_place: bool, now: datetime
) -> str:
    """Where the labels keep it, and when the service chooses another place; ``has_place``: elsewhere."""
    place = f"Node labels keep {sentence(group.form.pins)}, where there is no room for it."
    if not has_place:
        return f"{place} The service chooses another place once one has room."
    times = list(Event.objects.filter(group_id=group.uuid, reason=PINNED).values_list("time", flat=True))
    terms = group.placement.terms
    capabilities = capabilities_at(terms.scheduler_type, terms.scheduler_version)
    if chooses_domains(capabilities) or is_lost(snapshot, pinned):
        at = renewable_at(times)
    elif len(times) >= MOST_CHANGES:
        return f"{place} There is room elsewhere, but after {len(times)} choices it keeps the last."
    else:
        at = changeable_at(times)
    when = "now" if at is None or at <= now else f"at {at:%H:%M:%S} UTC"
    return (
        f"{place} There is room elsewhere: unless a gang that was submitted earlier takes it, the service "
        f"chooses that place {when}."
    )
