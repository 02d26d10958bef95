"""The values that a process used last, bounded by the nodes, or tasks, that they have together."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sized
from typing import Generic, TypeVar

from django.db import connection

MOST_NODES = 100_000
"""Nodes that are kept in all values of one kind together; the value used last always is."""

MOST_KEPT = 64

Value = TypeVar("Value", bound=Sized)


class RecentValues(Generic[Value]):
    """The values that were used last, by key; safe for threads, because values never change.

    The length of a value is the number of its nodes, or of its tasks; ``most`` bounds it, None: MOST_NODES.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Value | None:
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def keep(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while self._is_too_large():
                self._values.popitem(last=False)

    def _is_too_large(self) -> bool:
        count, size = len(self._values), sum(map(len, self._values.values()))
        most = MOST_NODES if self._most is None else self._most
        return count > MOST_KEPT or (count > 1 and size > most)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()

    def used(self) -> list[Hashable]:
        """The keys, that used longest ago first."""
        with self._lock:
            return list(self._values)


def database() -> str:
    """The name of the database, a part of every key."""
    return str(connection.settings_dict["NAME"])
