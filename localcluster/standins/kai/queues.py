"""Queues: which exist, what is used in each, and what may still be asked for.

A limit or quota of -1 is unlimited; 0, or none written, allows nothing. Pod groups run in leaf queues only: a
group in a queue with children is skipped without a word. A queue whose parent is missing does not exist,
and neither does anything below it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

from localcluster.standins.kai import messages
from localcluster.standins.kai.jobs import Job
from localcluster.standins.kai.messages import FitError
from localcluster.standins.kai.values import GPU, Pod, Queue, QueueLimit
from localcluster.standins.quantities import Amounts

_COUNTED = (GPU, "cpu", "memory")


@dataclass(slots=True)
class Books:
    """Usage per queue in one cycle, parents included."""

    queues: Mapping[str, Queue]
    parents: frozenset[str]
    used: dict[str, dict[str, int]] = field(default_factory=dict)
    fixed: dict[str, dict[str, int]] = field(default_factory=dict)
    """The part of ``used`` held by groups that may not be preempted."""

    @classmethod
    def opened(cls, queues: Iterable[Queue], jobs: Iterable[Job]) -> Self:
        """Keep the queues whose ancestors all exist and enter what runs now."""
        listed = {queue.name: queue for queue in queues}
        rooted = {name: queue for name, queue in listed.items() if _rooted(queue, listed)}
        books = cls(rooted, frozenset(queue.parent for queue in rooted.values() if queue.parent))
        for job in jobs:
            books.enter(job, (pod for pod in job.all_pods() if pod.state == "active"))
        return books

    def enter(self, job: Job, pods: Iterable[Pod], *, sign: int = 1) -> None:
        """Add (or with ``sign=-1`` take off) what these pods use."""
        requested = total(pods)
        for queue in self._upwards(job.group.queue):
            for book in (self.used,) if job.preemptible else (self.used, self.fixed):
                amounts = book.setdefault(queue.name, {})
                for resource, amount in requested.items():
                    amounts[resource] = amounts.get(resource, 0) + sign * amount

    def refusal(self, job: Job, pods: Iterable[Pod]) -> FitError | None:
        """Why the group's queue does not admit these pods, or None."""
        requested = total(pods)
        for queue in self._upwards(job.group.queue):
            if error := self._over(queue, job, requested):
                return error
        return None

    def deserves(self, name: str, gpus: int) -> bool:
        """Whether a queue keeps within its quota of GPUs with so many more; without a quota it does."""
        quota = self.queues[name].gpu.quota
        return quota < 0 or self._used_gpus(name) + gpus <= quota

    def surplus(self, name: str) -> int:
        """By how many GPUs a queue is above its quota; an unlimited one never is."""
        quota = self.queues[name].gpu.quota
        return self._used_gpus(name) - quota if quota >= 0 else 0

    def _used_gpus(self, name: str) -> int:
        return self.used.get(name, {}).get(GPU, 0)

    def exists(self, name: str) -> bool:
        """Whether the queue and all its ancestors exist."""
        return name in self.queues

    def is_leaf(self, name: str) -> bool:
        """Whether pod groups may run in it."""
        return name not in self.parents

    def share(self, name: str, capacity: Amounts) -> tuple[int, float]:
        """Key to choose between queues: higher priority first, then the smallest share of the cluster."""
        used = self.used.get(name, {})
        shares = (used.get(r, 0) / capacity[r] for r in _COUNTED if capacity.get(r, 0) > 0)
        return (-self.queues[name].priority, max(shares, default=0.0))

    def _over(self, queue: Queue, job: Job, requested: Amounts) -> FitError | None:
        used, fixed = self.used.get(queue.name, {}), self.fixed.get(queue.name, {})
        for resource in _COUNTED:
            bounds, amount = _bounds(queue, resource), requested.get(resource, 0)
            if not amount:
                continue
            have = used.get(resource, 0)
            if bounds.limit >= 0 and have + amount > bounds.limit:
                text = messages.over_limit(
                    queue.name, resource, limit=bounds.limit, used=have, requested=amount
                )
                return FitError(messages.OVER_LIMIT, (text,), details=_details(queue))
            fixed_amount = fixed.get(resource, 0)
            if not job.preemptible and bounds.quota >= 0 and fixed_amount + amount > bounds.quota:
                text = messages.over_quota(
                    queue.name, resource, quota=bounds.quota, used=fixed_amount, requested=amount
                )
                return FitError(messages.OVER_QUOTA, (text,), details=_details(queue))
        return None

    def _upwards(self, name: str) -> Iterator[Queue]:
        queue = self.queues.get(name)
        while queue is not None:
            yield queue
            queue = self.queues.get(queue.parent)


def _rooted(queue: Queue, listed: Mapping[str, Queue]) -> bool:
    visited = {queue.name}
    while queue.parent:
        if queue.parent not in listed or queue.parent in visited:
            return False
        visited.add(queue.parent)
        queue = listed[queue.parent]
    return True


def _bounds(queue: Queue, resource: str) -> QueueLimit:
    return {GPU: queue.gpu, "cpu": queue.cpu, "memory": queue.memory}[resource]


def _details(queue: Queue) -> dict[str, object]:
    return {"queueDetails": {"name": queue.name}}


def gpus_of(pods: Iterable[Pod]) -> int:
    return total(pods).get(GPU, 0)


def total(pods: Iterable[Pod]) -> dict[str, int]:
    """Sum of what these pods request."""
    amounts: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.shape.requests:
            amounts[resource] = amounts.get(resource, 0) + amount
    return amounts
