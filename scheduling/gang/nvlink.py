"""NVLink of a task group: which tasks claim a channel, and warnings about what a ComputeDomain does not do.

A node has one channel, which one pod at a time can claim. A ComputeDomain connects pods that share an NVLink
clique; it does not bring them together. Source: NVIDIA's DRA driver, as observed running.

``channel_claims`` is the only rule for who claims. The words of the task, its task group and its platform are
asked in this order; without any, the tasks with GPUs claim where the group has at least two of them on
platforms with NVLink: a lone task has nobody to talk to, and its claim would close its node to others.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduling.errors import Fault, Notice, Path
from scheduling.sentences import listing
from scheduling.topology.levels import CLIQUE_LABEL, Level, clique_rank, ranks
from scheduling.topology.requirements import Gang, GangTask, effective

LEAST_CLAIMING = 2
"""Tasks of a group that must be able to claim before any does without a word of its author."""


class ChannelClaim(StrEnum):
    """Whether a task's user container claims a channel of its group's ComputeDomain: by the reason for it."""

    TASK = "task_true"
    GROUP = "group_true"
    SEVERAL = "several"
    NO_DOMAIN = "no_domain"
    NO_GPU = "no_gpu"
    NOT_THIS_TASK = "task_false"
    PLATFORM = "platform_false"
    ALONE = "alone"

    @property
    def is_made(self) -> bool:
        return self in (ChannelClaim.TASK, ChannelClaim.GROUP, ChannelClaim.SEVERAL)

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    ChannelClaim.TASK: "The task says `nvlink: true`.",
    ChannelClaim.GROUP: "The task group says `nvlink: true`.",
    ChannelClaim.SEVERAL: "At least two tasks of the group have GPUs on platforms with NVLink.",
    ChannelClaim.NO_DOMAIN: "The task group has no ComputeDomain.",
    ChannelClaim.NO_GPU: "The task asks for no GPU.",
    ChannelClaim.NOT_THIS_TASK: "The task says `nvlink: false`.",
    ChannelClaim.PLATFORM: "The task's platform has no NVLink.",
    ChannelClaim.ALONE: "No other task of the group has GPUs on a platform with NVLink.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkTask:
    """A task as the rule sees it. ``word``: its own ``nvlink``, None for ``auto`` or nothing.

    ``platform`` is the platform's name, empty for the pool itself; ``platform_has_nvlink`` is the pool's
    flag where the platform has none. ``path`` is the task's place in the document.
    """

    name: str
    gpus: int
    word: bool | None
    platform: str
    platform_has_nvlink: bool
    path: Path


def channel_claims(
    tasks: Sequence[NvlinkTask], *, group_word: bool | None, has_domain: bool
) -> dict[str, ChannelClaim]:
    """Decide for each task, by name, whether it claims a channel."""
    if not has_domain:
        return {task.name: ChannelClaim.NO_DOMAIN for task in tasks}
    able = [task for task in tasks if task.gpus and task.platform_has_nvlink and task.word is not False]
    default = ChannelClaim.SEVERAL if len(able) >= LEAST_CLAIMING else ChannelClaim.ALONE
    return {task.name: _claim(task, default, group_word=group_word) for task in tasks}


def _claim(task: NvlinkTask, default: ChannelClaim, *, group_word: bool | None) -> ChannelClaim:
    if not task.gpus:
        return ChannelClaim.NO_GPU
    if task.word is not None:
        return ChannelClaim.TASK if task.word else ChannelClaim.NOT_THIS_TASK
    if group_word:
        return ChannelClaim.GROUP
    return default if task.platform_has_nvlink else ChannelClaim.PLATFORM


def claim_faults(
    tasks: Sequence[NvlinkTask],
    claims: Mapping[str, ChannelClaim],
    *,
    group_word: bool | None,
    group_path: Path,
    pool: str,
    pool_has_nvlink: bool,
) -> Iterator[Fault]:
    """The faults of ``nvlink`` words that contradict each other, the pool or a platform."""
    if group_word and not pool_has_nvlink:
        message = f'Pool "{pool}" has no NVLink, so its task groups get no ComputeDomain.'
        yield Fault((*group_path, "nvlink"), "nvlink_not_in_pool", message, allowed=("false",))
    without: dict[str, list[str]] = {}
    for task in tasks:
        path = (*task.path, "nvlink")
        if task.word and not pool_has_nvlink:
            message = f'Pool "{pool}" has no NVLink, so no task can claim a channel.'
            yield Fault(path, "nvlink_not_in_pool", message, allowed=("false",))
        elif task.word and group_word is False:
            message = (
                "The task cannot claim a channel: `nvlink: false` of its group gives it no ComputeDomain."
            )
            yield Fault(path, "nvlink_contradiction", message, allowed=("false",))
        elif task.word and not task.gpus:
            message = "A task claims a channel for its GPUs, but this task asks for none."
            yield Fault(path, "nvlink_without_gpu", message, allowed=("false",))
        elif task.word and not task.platform_has_nvlink:
            message = f'Platform "{task.platform}" has no NVLink, so no node of it has a channel to claim.'
            yield Fault(path, "nvlink_not_on_platform", message, allowed=("false",))
        elif claims[task.name].is_made and not task.platform_has_nvlink:
            without.setdefault(task.platform, []).append(task.name)
    for platform, names in without.items():
        message = (
            f'Platform "{platform}" has no NVLink, but the group says `nvlink: true`. Give tasks '
            f"{listing(names)} `nvlink: false`, or leave the group's word out."
        )
        yield Fault((*group_path, "nvlink"), "nvlink_not_on_platform", message, allowed=("auto", "false"))


def check_nvlink(
    gang: Gang,
    levels: Sequence[Level],
    *,
    claims: Mapping[str, ChannelClaim],
    node_gpus: Mapping[str, int],
    raised: Mapping[str, int],
) -> list[Notice]:
    """Warn of what a ComputeDomain does not do for this group.

    ``claims`` are those of ``channel_claims``. ``node_gpus`` is the number of GPUs of a node of the task's
    platform, by task name, if known. ``raised`` is that of ``raised_gpus``.
    """
    tasks = effective(gang).tasks
    claiming = [task for task in tasks if claims[task.name].is_made]
    if not claiming:
        return [Notice("nvlink_unused", _unused(gang.name, [claims[task.name] for task in tasks]), gang.path)]
    notices = []
    if len(claiming) > 1 and (apart := _without_shared_clique(claiming, levels)):
        notices.append(Notice("nvlink_without_clique", _apart(apart, levels), gang.path))
    room = {task.name: raised.get(task.name, task.gpus) for task in claiming}
    idle = {name: free for name, gpus in room.items() if (free := node_gpus.get(name, 0) - gpus) > 0}
    if idle:
        notices.append(Notice("nvlink_partial_node", _partial(idle), gang.path))
    if raised:
        more = sum(raised[task.name] - task.gpus for task in tasks if task.name in raised)
        notices.append(Notice("nvlink_raised_gpus", _raised(raised, more=more), gang.path))
    return notices


def raised_gpus(gpus: Mapping[str, int], node_gpus: Mapping[str, int]) -> dict[str, int]:
    """The GPUs to ask for, by task, so that no node is given to two claims by a scheduler that counts none.

    ``gpus`` are those of the tasks of a gang that claim a channel, ``node_gpus`` the most that a node of each
    one's platform has, 0 if unknown. No two tasks that ask for more than half of a node's GPUs share it.
    Tasks that ask for enough are left out, and so are all where no two would fit on one node.
    """

    def may_share(size: int) -> bool:
        least = heapq.nsmallest(2, (gpus[task] for task in gpus if node_gpus.get(task, 0) >= size))
        return len(least) > 1 and sum(least) <= size

    if not any(map(may_share, {node_gpus.get(task, 0) for task in gpus})):
        return {}
    return {task: node_gpus[task] // 2 + 1 for task in gpus if 2 * gpus[task] <= node_gpus.get(task, 0)}


def _raised(raised: Mapping[str, int], *, more: int) -> str:
    amounts = " or ".join(map(str, sorted(set(raised.values()))))
    return (
        f"The pool's scheduler counts no NVLink channels and might give one node to two claims. So tasks "
        f"{listing(list(raised))} ask its queue for {amounts} GPUs each, more than half of a node: {more} "
        "GPUs of the queue's quota more than their pods get."
    )


def _unused(group: str, claims: Sequence[ChannelClaim]) -> str:
    reasons = set(claims)
    if reasons == {ChannelClaim.NO_GPU}:
        return f'No task of "{group}" asks for a GPU, so its ComputeDomain stays unused.'
    sentences = [r.sentence for r in (ChannelClaim.ALONE, ChannelClaim.PLATFORM) if r in reasons]
    first = f'No task of "{group}" claims an NVLink channel, so its ComputeDomain stays unused.'
    return " ".join([first, *sentences, "A task that needs a channel says `nvlink: true`."])


def _partial(idle: Mapping[str, int]) -> str:
    number = sum(idle.values())
    return (
        f"Tasks {listing(list(idle))} claim their node's one NVLink channel and ask for fewer GPUs than the "
        f"node has. The other {number} GPUs of these nodes are left to tasks that claim no channel and stand "
        "idle without such tasks."
    )


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
