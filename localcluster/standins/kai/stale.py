"""Gangs that fell below their minimum while running ("Stale gangs").

Such a gang is marked at once (annotation and event ``StaleJob``). If it is still short when the grace period
is over, every pod of it that holds a node is deleted. Filling the gap or lowering ``minMember`` in time
removes the mark. A negative grace period never evicts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from localcluster.standins.kai.jobs import Job
from localcluster.standins.kai.tree import DEFAULT, Leaf
from localcluster.standins.kai.values import Event, Eviction, Pod, StaleMark, Version
from localcluster.standins.kai.versions import VERSIONS

ACTION = "stalegangeviction"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one group; ``wake_at`` is the end of its grace period."""

    mark: StaleMark | None = None
    event: Event | None = None
    evictions: tuple[Eviction, ...] = ()
    wake_at: float | None = None


def judge(job: Job, *, now: float, grace: float, version: Version) -> Verdict:
    """Decide about one group; ``grace`` is the scheduler's default in seconds."""
    group = job.group
    short = job.stale(forgets_finished=VERSIONS[version].forgets_finished)
    if not short:
        return Verdict(mark=StaleMark(group, None)) if group.stale_since is not None else Verdict()
    since = group.stale_since
    mark = StaleMark(group, now) if since is None else None
    event = _event(job, short)
    if VERSIONS[version].own_grace and group.grace is not None:
        grace = group.grace
    end = (now if since is None else since) + grace
    if grace < 0:
        return Verdict(mark=mark, event=event)
    if now < end:
        return Verdict(mark=mark, event=event, wake_at=end)
    return Verdict(mark=mark, event=event, evictions=_evictions(job))


def _event(job: Job, short: Sequence[tuple[Leaf, int]]) -> Event:
    leaves = job.tree.leaves()
    active = sum(pod.state == "active" for pod in job.all_pods())
    text = f"Job is stale. {active} pods are active, minMember is {sum(leaf.min_member for leaf in leaves)}"
    for leaf, count in short:
        if leaf.name != DEFAULT:
            text += f", subGroup {leaf.name} minMember is {leaf.min_member} and {count} pods are active"
    group = job.group
    return Event("PodGroup", group.namespace, group.name, group.uid, "Normal", "StaleJob", text)


def _evictions(job: Job) -> tuple[Eviction, ...]:
    victims = [
        (leaf, pod) for leaf in job.tree.leaves() for pod in job.pods[leaf.name] if pod.state == "active"
    ]
    notes = {"num-evicted-pods": str(len(victims)), "evictor-action-type": ACTION}
    return tuple(Eviction(pod, job.group, _message(leaf, pod), notes) for leaf, pod in victims)


def _message(leaf: Leaf, pod: Pod) -> str:
    where = "" if leaf.name == DEFAULT else f" in sub-group {leaf.name}"
    return (
        f"Workload doesn't meet the minimum required number of pods ({leaf.min_member}){where}, "
        f"evicting remaining pod: {pod.namespace}/{pod.name}"
    )
