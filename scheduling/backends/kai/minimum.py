"""The minimums of a running gang's pod group, once some of its tasks have finished or are tried again.

KAI counts living pods and holds a gang to the minimum in its pod group. A leaf below its minimum makes the
gang stale, and after a grace period KAI deletes the rest. A retried pod whose peers have finished is never
placed, because the gang is not ready. So a minimum counts only living tasks that have a place; KAI then
places the waiting ones as additional pods in the domain of the others. A leaf without living tasks is
removed.

From v0.15 on a leaf whose living tasks all wait has a minimum of 0, and KAI places them whenever there is
room ("Optional leaves"). Before, 0 counted as 1, so such a gang stays stale while the others run. Removing
the leaf for a moment ends that: KAI restarts its grace period once the leaf is back. Meanwhile KAI leaves the
leaf's pods alone, because their label names no leaf. Tried on running KAI v0.13 and v0.17:
docs/explanation/kai-behaviour.md.

Where the pod group switches staleness off (``stalenessGracePeriod``, v0.17), nobody's clock runs. The gang
keeps the minimum of a task that is tried again, so KAI places the replacement before younger groups; only
tasks that have ended, or whose pod is ending, are taken out.

``subGroups`` is one atomic list, so a patch contains all of it.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from scheduling.backends.base import Manifest, RenderedGang

STALE_ANNOTATION = "kai.scheduler/stale-podgroup-timestamp"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
GRACE_FIELD = "stalenessGracePeriod"
NO_GRACE = "-1s"
"""A negative grace period: KAI never evicts the gang for being below its minimum."""


def resized(gang: RenderedGang, *, living: Collection[str], waiting: Collection[str], rest: bool) -> Manifest:
    """The fields of the pod group's spec with minimums; empty if no task lives.

    ``rest`` removes the leaves whose living tasks all wait; those that may be optional are that, and stay.
    """
    (group,) = gang.pod_groups
    alive = Counter(_leaf(gang, task) for task in living)
    placed = Counter(_leaf(gang, task) for task in living if task not in waiting)
    if "subGroups" not in group["spec"]:
        return {"minMember": placed[""] or alive[""]} if alive and (placed or not rest) else {}
    if gang.optional_leaves and placed:
        minimum = {leaf: placed[leaf] for leaf in alive}
    else:
        minimum = {leaf: placed[leaf] or count for leaf, count in alive.items() if placed[leaf] or not rest}
    if not minimum:
        return {}
    return {"subGroups": _trimmed(group["spec"]["subGroups"], minimum)}


def _leaf(gang: RenderedGang, task: str) -> str:
    return gang.pods[task].labels.get(SUBGROUP_LABEL, "")


def _trimmed(entries: list[Manifest], minimum: Mapping[str, int]) -> list[Manifest]:
    """The subgroups without leaves that have no living task, and without parents that have no child."""
    subgroups = [
        {**entry, "minMember": minimum[entry["name"]]} if "minMember" in entry else entry
        for entry in entries
        if "minMember" not in entry or entry["name"] in minimum
    ]
    while True:
        parents = {entry.get("parent") for entry in subgroups}
        left = [entry for entry in subgroups if "minMember" in entry or entry["name"] in parents]
        if len(left) == len(subgroups):
            return subgroups
        subgroups = left
