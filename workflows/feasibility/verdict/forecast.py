"""What a verdict means for the user and for others: preferences met, nodes broken up, when there is room.

It compares one pool with another, for the same task group. Pure.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from scheduling.fit.fragmentation import free_nodes
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.outcome import PlacementOutcome, outcomes, worst
from scheduling.fit.snapshot import RESOURCES, Snapshot
from scheduling.fit.verdict import Answer, SetVerdict, Verdict
from scheduling.topology.levels import domain_of

_GPU = RESOURCES.index("gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """``preferences_met`` and ``broken_nodes`` are None unless the group fits now.

    ``broken_nodes`` counts wholly free nodes of which the group would use a part and leave the rest.
    ``free_at`` is the latest time at which all that is in the way has ended, None if unknown.
    """

    preferences_met: bool | None = None
    broken_nodes: int | None = None
    free_at: datetime | None = None


NO_FORECAST = Forecast()


def forecast(
    snapshot: Snapshot, gang: GangDemand, verdict: Verdict, *, gives_way_at: datetime | None = None
) -> Forecast:
    """The forecast of a gang that was judged on these nodes.

    ``gives_way_at``: its preferences hide room, and give way then.
    """
    if verdict.answer is Answer.NOW:
        return Forecast(
            preferences_met=_preferences_met(snapshot, gang, verdict),
            broken_nodes=_broken_nodes(snapshot, gang, verdict),
        )
    if verdict.answer is Answer.NEVER:
        return NO_FORECAST
    return Forecast(free_at=gives_way_at or _free_at(verdict))


def _preferences_met(snapshot: Snapshot, gang: GangDemand, verdict: Verdict) -> bool:
    levels = gang.tree.levels
    nodes = {name: snapshot.node(name) for name in set(verdict.places.values())}
    places = {name: domain_of(node.labels, levels) for name, node in nodes.items()}
    by_task = {task: places[name] for task, name in verdict.places.items()}
    return worst(outcomes(gang.tree, by_task, paths=snapshot.paths)) is PlacementOutcome.MATCH


def _broken_nodes(snapshot: Snapshot, gang: GangDemand, verdict: Verdict) -> int:
    """A node without GPUs is broken up by any task: where none has GPUs, it is free while nothing runs."""
    used: Counter[str] = Counter()
    for task, name in verdict.places.items():
        used[name] += gang.demands[task].amounts[_GPU]
    nodes = [snapshot.node(name) for name in used]
    flags = zip(nodes, free_nodes(nodes, among=snapshot.nodes), strict=True)
    return sum(is_free and (not node.gpus or 0 < used[node.name] < node.gpus) for node, is_free in flags)


def _free_at(verdict: Verdict) -> datetime | None:
    if verdict.quota.shortages:  # nothing is known of when a queue has room
        return None
    times = [_set_free_at(entry) for entry in verdict.blocked]
    ends = [time for time in times if time is not None]
    return max(ends) if ends and len(ends) == len(times) else None


def _set_free_at(entry: SetVerdict) -> datetime | None:
    return min((domain.free_at for domain in entry.nearest if domain.free_at is not None), default=None)
