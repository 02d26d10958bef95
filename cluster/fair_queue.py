"""A queue whose owners take turns, so that none of them waits for all work of another.

An owner is a path from broad to narrow, such as pool, user and workflow: pools take turns, within a pool its
users, within a user their workflows, and within a workflow the first piece of work is the first to leave. A
full queue makes room in the same way: at the cost of the pool that has most, then of the user in a pool, then
of a user's workflow.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Owner = tuple[str, ...]
"""The names of an owner, broadest first; all owners of a queue have equally many."""


def _parts(owner: Owner) -> Iterator[Owner]:
    """The owner and what it belongs to: the pool, the user in it, the workflow."""
    return (owner[:depth] for depth in range(1, len(owner) + 1))


class FairQueue(Generic[T]):
    """Not safe for threads; ``most`` pieces of work at a time, each of them once."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._owners: dict[T, Owner] = {}
        self._count: Counter[Owner] = Counter()
        self._turns: OrderedDict[Any, Any] = OrderedDict()
        self._depth = 0

    def __len__(self) -> int:
        return len(self._owners)

    def __iter__(self) -> Iterator[T]:
        return iter(self._owners)

    def put(self, work: T, owner: Owner) -> bool:
        """Add a piece of work; False if its owner has its share of a full queue already."""
        if work in self._owners:
            return True
        if len(self._owners) >= self._most and not self._make_room(owner):
            return False
        self._owners[work], self._depth = owner, len(owner)
        self._count.update(_parts(owner))
        self._leaf(owner)[work] = None
        return True

    def take(self) -> tuple[T, Owner] | None:
        """The next piece of work, with its owner; None if there is none."""
        if not self._owners:
            return None
        node: OrderedDict[Any, Any] = self._turns
        for _ in range(self._depth):
            name = next(iter(node))
            node.move_to_end(name)
            node = node[name]
        work: T = next(iter(node))
        owner = self._owners[work]
        self._remove(work)
        return work, owner

    def _make_room(self, owner: Owner) -> bool:
        """Drop work of the pool, user or workflow that has most, unless this one would then have as much.

        From broad to narrow: a pool makes room for another pool, a user of the same pool for another user.
        """
        for depth in range(1, len(owner) + 1):
            part = owner[:depth]
            largest = self._largest(owner[: depth - 1])
            if self._count[part] + 1 < self._count[largest]:
                while len(largest) < self._depth:
                    largest = self._largest(largest)
                self._remove(next(reversed(self._leaf(largest))))
                return True
        return False

    def _largest(self, broader: Owner) -> Owner:
        """Of the parts of a broader owner the one that has most."""
        node: OrderedDict[Any, Any] = self._turns
        for name in broader:
            node = node.get(name, {})
        return max(((*broader, name) for name in node), key=self._count.__getitem__, default=broader)

    def _leaf(self, owner: Owner) -> OrderedDict[Any, Any]:
        node: OrderedDict[Any, Any] = self._turns
        for name in owner:
            node = node.setdefault(name, OrderedDict())
        return node

    def _remove(self, work: T) -> None:
        owner = self._owners.pop(work)
        for part in _parts(owner):
            self._count[part] -= 1
            if not self._count[part]:
                del self._count[part]
        nodes: list[OrderedDict[Any, Any]] = [self._turns]
        for name in owner:
            nodes.append(nodes[-1][name])
        del nodes[-1][work]
        for node, name in zip(reversed(nodes[:-1]), reversed(owner), strict=True):
            if not node[name]:
                del node[name]
