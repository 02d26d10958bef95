"""What pages are made from, kept for a short time: one making serves all readers with the same rights.

A page that updates itself is requested every few seconds by each of its readers, and mostly nothing has
changed; and a verdict on 5,000 nodes costs a few tenths of a second. So what was made is kept in this process
under a key that names the page and what the reader may see (``Grants``), and is used

- while its ``version`` is the present one, a text that differs where the rows differ (``pages.pool_rows``);
- for as long as it is good, which its maker says;
- until MOST others were used since.

Once a value is no longer good, one caller makes it anew, and the others get the old one until that is done.
The caller and their rights are read with each request, before anything here is looked up.

Rejected: answers by time alone. A map of 250 nodes takes a tenth of a second of a processor, and its only
reader would cause that every few seconds.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

MOST: Final = 100
"""Values of one process; a map or a workflow takes a few hundred KiB."""

MAKING_SECONDS: Final = 60.0
"""After so long another caller makes the value, too."""


@dataclass(slots=True)
class DrawnValue:
    value: Any
    version: str
    until: float


class DrawnValues:
    """The values that were used last; safe for threads."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, DrawnValue] = OrderedDict()
        self._lock = Lock()

    def find(self, key: str, *, version: str = "") -> Any:
        """The value of this version; None if there is none, or for the first caller once it is not good."""
        with self._lock:
            drawn = self._values.get(key)
            if drawn is None or drawn.version != version:
                return None
            self._values.move_to_end(key)
            if (now := time.monotonic()) < drawn.until:
                return drawn.value
            drawn.until = now + MAKING_SECONDS
            return None

    def keep(self, key: str, value: Any, *, version: str = "", seconds: float) -> None:
        with self._lock:
            self._values[key] = DrawnValue(value, version, time.monotonic() + seconds)
            self._values.move_to_end(key)
            while len(self._values) > MOST:
                self._values.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


drawn_values: Final = DrawnValues()
