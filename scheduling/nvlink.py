"""Warnings for a group in an NVLink pool.

A ComputeDomain connects pods that share an NVLink clique; it does not bring them together. A node has one
channel, which one pod at a time can claim. Neither is a fault, but both surprise users, so the reply to a
submission mentions them. Source: NVIDIA's DRA driver, as observed running.
"""

from collections.abc import Mapping, Sequence

from scheduling.errors import Notice
from scheduling.levels import CLIQUE_LABEL, Level, clique_rank, ranks
from scheduling.requirements import Gang, GangTask, effective
from scheduling.sentences import listing


def claims_channel(task: GangTask) -> bool:
    """Whether the task's user container claims a channel: it does if the task asks for a GPU."""
    return task.gpus > 0


def check_nvlink(gang: Gang, levels: Sequence[Level], *, node_gpus: Mapping[str, int]) -> list[Notice]:
    """Warn of what a ComputeDomain does not do for this group.

    ``node_gpus`` is the number of GPUs of a node of the task's platform, by task name, if known.
    """
    claiming = [task for task in effective(gang).tasks if claims_channel(task)]
    if not claiming:
        message = f'No task of "{gang.name}" asks for a GPU, so its ComputeDomain stays unused.'
        return [Notice("nvlink_unused", message, gang.path)]
    notices = []
    if len(claiming) > 1 and (apart := _without_shared_clique(claiming, levels)):
        notices.append(Notice("nvlink_without_clique", _apart(apart, levels), gang.path))
    if partial := [task.name for task in claiming if task.gpus < node_gpus.get(task.name, 0)]:
        message = (
            f"Tasks {listing(partial)} ask for fewer GPUs than their nodes have. A node has one NVLink "
            "channel, so no second task that claims one can share such a node."
        )
        notices.append(Notice("nvlink_partial_node", message, gang.path))
    return notices


def _without_shared_clique(tasks: Sequence[GangTask], levels: Sequence[Level]) -> list[str]:
    """The tasks that no requirement keeps in one clique."""
    clique = clique_rank(levels)
    rank = ranks(levels)
    return [
        task.name
        for task in tasks
        if clique is None or not any(r.required and rank.get(r.key, -1) >= clique for r in task.requirements)
    ]


def _apart(tasks: Sequence[str], levels: Sequence[Level]) -> str:
    clique = clique_rank(levels)
    advice = (
        f"The pool has no topology key for {CLIQUE_LABEL}; its administrator can add one."
        if clique is None
        else f"Add `- {{key: {levels[clique].key}}}` to the topology of their resources."
    )
    return (
        f"Tasks {listing(tasks)} claim NVLink but need not share a clique: a ComputeDomain alone does not "
        f"bring them together. {advice}"
    )
