"""The minimums of a running gang's pod group, once some of its tasks have finished or are tried again.

KAI counts pods that live, and holds a gang to its minimum as long as its pod group says so. A leaf below
it makes the gang stale, and after a grace period the rest is deleted (fact: seen on v0.13 and v0.17); a
retried pod whose peers have finished is never placed, because the gang is not ready. So a minimum counts
what is left: the living tasks, without those that wait for a node once more beside others that run, which
KAI then places as additional pods in the domain the others hold. A leaf with no living task is taken out.

A leaf of which all living tasks wait cannot be lowered below one (v0.13 accepts no 0), so its gang stays
stale while the others run. Taken out for a moment it is stale no more, and KAI counts its grace period anew
once the leaf is back; meanwhile its pods, whose label fits no leaf, are left alone. Tried on running KAI:
docs/explanation/kai-behaviour.md.

``subGroups`` is one atomic list, so all of it is given.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from scheduling.backends.base import Manifest, RenderedGang

STALE_ANNOTATION = "kai.scheduler/stale-podgroup-timestamp"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"


def resized(gang: RenderedGang, *, living: Collection[str], waiting: Collection[str], rest: bool) -> Manifest:
    """The fields of the pod group's spec that hold minimums; empty if no task lives.

    ``rest`` takes out the leaves of which all living tasks wait.
    """
    (group,) = gang.pod_groups
    alive = Counter(_leaf(gang, task) for task in living)
    placed = Counter(_leaf(gang, task) for task in living if task not in waiting)
    minimum = {leaf: placed[leaf] or count for leaf, count in alive.items() if placed[leaf] or not rest}
    if not minimum:
        return {}
    if "subGroups" not in group["spec"]:
        return {"minMember": minimum[""]}
    return {"subGroups": _trimmed(group["spec"]["subGroups"], minimum)}


def _leaf(gang: RenderedGang, task: str) -> str:
    return gang.pods[task].labels.get(SUBGROUP_LABEL, "")


def _trimmed(entries: list[Manifest], minimum: Mapping[str, int]) -> list[Manifest]:
    """The subgroups without leaves that have no task left, and without parents of nothing."""
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
