"""The values that a process used last, by key: made once, they serve all its readers.

A value is used

- while its ``version`` is the present one, anything that differs where what it was made from differs;
- for as long as it is good, which its maker says;
- until as many others as are kept, or others with as many parts together, were used since.

Once a value without a version is no longer good, one caller makes it anew, and the others get the old one
until that is done, within LATE_SECONDS. Values never change, so threads may share them.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from django.db import connection

MAKING_SECONDS: Final = 60.0
"""After so long another caller makes the value, too."""

LATE_SECONDS: Final = 300.0
"""For so long others have a value while one caller makes the next; then each caller makes it."""

MOST_PARTS = 100_000
"""Of all values of one kind together, if nothing else is said; the value used last is always kept."""

Value = TypeVar("Value")


@dataclass(slots=True)
class RecentValue(Generic[Value]):
    value: Value
    version: object
    parts: int
    until: float
    last: float


class RecentValues(Generic[Value]):
    """At most ``most`` values, and those of ``most_parts`` parts together (None: MOST_PARTS)."""

    def __init__(self, *, most: int = 64, most_parts: int | None = None) -> None:
        self._most, self._most_parts = most, most_parts
        self._values: OrderedDict[Hashable, RecentValue[Value]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable, *, version: object = None) -> Value | None:
        """The value of this version; None if there is none, or for the first caller once it is not good."""
        with self._lock:
            entry, now = self._values.get(key), time.monotonic()
            if entry is None or entry.version != version or now >= entry.last:
                return None
            self._values.move_to_end(key)
            if now < entry.until:
                return entry.value
            entry.until = now + MAKING_SECONDS
            return None

    def keep(
        self,
        key: Hashable,
        value: Value,
        *,
        version: object = None,
        parts: int = 0,
        seconds: float = math.inf,
    ) -> None:
        """Keep a value that is good for so long; one without a version serves LATE_SECONDS more."""
        with self._lock:
            until = time.monotonic() + seconds
            last = until if version else until + LATE_SECONDS
            self._values[key] = RecentValue(value, version, parts, until, last)
            self._values.move_to_end(key)
            while self._is_too_large():
                self._values.popitem(last=False)

    def _is_too_large(self) -> bool:
        count, parts = len(self._values), sum(entry.parts for entry in self._values.values())
        most_parts = MOST_PARTS if self._most_parts is None else self._most_parts
        return count > self._most or (count > 1 and parts > most_parts)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()

    def used(self) -> list[Hashable]:
        """The keys, that used longest ago first."""
        with self._lock:
            return list(self._values)


def database() -> str:
    """The name of the database, a part of the key of values that are read from it."""
    return str(connection.settings_dict["NAME"])
