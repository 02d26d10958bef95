"""What pages are made from, kept for a short time: one making serves all readers with the same rights.

A page that updates itself is requested every few seconds by each of its readers, and mostly nothing has
changed; and a verdict on 5,000 nodes costs a few tenths of a second. So what was made is kept in this process
under a key that names the page and what the reader may see (``Grants``), and is used

- while its ``version`` is the present one, a text that differs where the rows differ (``pages.pool_rows``);
- for as long as it is good, which its maker says;
- until as many others as are kept were used since.

Once a value without a version is no longer good, one caller makes it anew, and the others get the old one
until that is done, within LATE_SECONDS.
The caller and their rights are read with each request, before anything here is looked up.

Rejected: answers by time alone. A map of 250 nodes takes a tenth of a second of a processor, and its only
reader would cause that every few seconds.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

MAKING_SECONDS: Final = 60.0
"""After so long another caller makes the value, too."""

LATE_SECONDS: Final = 300.0
"""For so long others have a value while one caller makes the next; then each caller makes it."""


@dataclass(slots=True)
class DrawnValue:
    value: Any
    version: str
    until: float
    last: float


class DrawnValues:
    """The values that were used last, at most ``most``; safe for threads."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, DrawnValue] = OrderedDict()
        self._lock = Lock()

    def find(self, key: str, *, version: str = "") -> Any:
        """The value of this version; None if there is none, or for the first caller once it is not good."""
        with self._lock:
            drawn, now = self._values.get(key), time.monotonic()
            if drawn is None or drawn.version != version or now >= drawn.last:
                return None
            self._values.move_to_end(key)
            if now < drawn.until:
                return drawn.value
            drawn.until = now + MAKING_SECONDS
            return None

    def keep(self, key: str, value: Any, *, version: str = "", seconds: float) -> None:
        """Keep a value that is good for so long; one without a version serves LATE_SECONDS more."""
        with self._lock:
            until = time.monotonic() + seconds
            last = until if version else until + LATE_SECONDS
            self._values[key] = DrawnValue(value, version, until, last)
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


drawn_pages: Final = DrawnValues(most=30)
"""What pages show; of a pool of 5,000 nodes one takes about 2 MiB."""

drawn_explanations: Final = DrawnValues(most=300)
"""Why groups wait: sentences and numbers, a few KiB each."""
