"""What KAI's queue controller writes into the status of queues: their children and what is in use below them.

Sums of the pods of each pod group, and of child queues (``pkg/queuecontroller``, ``pkg/podgroupcontroller``):
*allocated* are pods that have a node and have not ended, also while they are deleted; *requested* are all
pods that have not ended. Quantities as pods write them, GPUs whole.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from localcluster.standins.kai.jobs import Job
from localcluster.standins.kai.values import Pod, Queue, QueueStatus
from localcluster.standins.quantities import UNIT

_ENDED = ("succeeded", "failed")


@dataclass(slots=True)
class _Sums:
    allocated: dict[str, int] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)


def statuses(queues: Iterable[Queue], jobs: Iterable[Job]) -> list[QueueStatus]:
    """The status of each queue that is not up to date."""
    listed = {queue.name: queue for queue in queues}
    children: dict[str, list[str]] = {}
    for name in sorted(listed):
        children.setdefault(listed[name].parent, []).append(name)
    sums = {name: _Sums() for name in listed}
    for job in jobs:
        for name in _upwards(job.group.queue, listed):
            _enter(sums[name], job)
    news = []
    for name, queue in sorted(listed.items()):
        status = QueueStatus(
            queue=name,
            children=tuple(children.get(name, ())),
            allocated=_written(sums[name].allocated),
            fixed=_written(sums[name].fixed),
            requested=_written(sums[name].requested),
        )
        if status != queue.status:
            news.append(status)
    return news


def _upwards(name: str, listed: Mapping[str, Queue]) -> list[str]:
    chain: list[str] = []
    while name in listed and name not in chain:
        chain.append(name)
        name = listed[name].parent
    return chain


def _enter(sums: _Sums, job: Job) -> None:
    for pod in job.all_pods():
        if pod.state in _ENDED:
            continue
        _add(sums.requested, pod)
        if pod.node is not None:
            _add(sums.allocated, pod)
            if not job.preemptible:
                _add(sums.fixed, pod)


def _add(amounts: dict[str, int], pod: Pod) -> None:
    for resource, amount in pod.shape.requests:
        if resource != "pods":
            amounts[resource] = amounts.get(resource, 0) + amount


def _written(amounts: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
    """As quantities, by name."""
    return tuple(
        (name, f"{amount}m" if amount % UNIT else str(amount // UNIT))
        for name, amount in sorted(amounts.items())
        if amount
    )
