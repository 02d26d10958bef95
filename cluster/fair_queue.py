"""A queue whose owners take turns, so that none of them waits for all work of another.

An owner is a path from broad to narrow, such as pool, user and workflow: pools take turns, within a pool its
users, within a user their workflows, and within a workflow the first piece of work is the first to leave. A
full queue makes room for an owner at the cost of the one that has most.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Owner = tuple[str, ...]
"""The names of an owner, broadest first; all owners of a queue have equally many."""


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
        self._count[owner] += 1
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
        """Drop the last work of the owner that has most, unless this one would then have as much."""
        largest, count = self._count.most_common(1)[0]
        if self._count[owner] + 1 >= count:
            return False
        self._remove(next(reversed(self._leaf(largest))))
        return True

    def _leaf(self, owner: Owner) -> OrderedDict[Any, Any]:
        node: OrderedDict[Any, Any] = self._turns
        for name in owner:
            node = node.setdefault(name, OrderedDict())
        return node

    def _remove(self, work: T) -> None:
        owner = self._owners.pop(work)
        self._count[owner] -= 1
        if not self._count[owner]:
            del self._count[owner]
        nodes: list[OrderedDict[Any, Any]] = [self._turns]
        for name in owner:
            nodes.append(nodes[-1][name])
        del nodes[-1][work]
        for node, name in zip(reversed(nodes[:-1]), reversed(owner), strict=True):
            if not node[name]:
                del node[name]
