"""How fast the controller goes.

The original has one worker for ComputeDomains, and the default client: 5 requests a second, 10 at once after
a rest. A domain costs it five requests until it is whole, two of them templates; nodes lose their labels one
after the other. An object that it fails on comes back after 5 ms, twice as long each time, at most 1,000 s.
Source: NVIDIA's driver v0.5, ``pkg/flags/kubeclient.go``, ``pkg/workqueue/workqueue.go``.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Pace:
    """``requests_per_second`` of None is as many as there are; ``pauses`` are the first and the longest."""

    requests_per_second: float | None = None
    burst: int = 10
    pauses: tuple[float, float] = (0.2, 10.0)


FAST = Pace()
REAL = Pace(requests_per_second=5.0, burst=10, pauses=(0.005, 1000.0))


@dataclass(slots=True)
class Bucket:
    """Allows a request as client-go's token bucket does."""

    pace: Pace
    clock: Callable[[], float] = time.monotonic
    tokens: float = field(init=False)
    since: float = field(init=False)

    def __post_init__(self) -> None:
        self.tokens, self.since = float(self.pace.burst), self.clock()

    def take(self) -> bool:
        """Use one request up, if one is left."""
        self._fill()
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True

    def wait(self) -> float:
        """Seconds until the next request is allowed."""
        self._fill()
        rate = self.pace.requests_per_second
        return 0.0 if rate is None else max(1 - self.tokens, 0) / rate

    def _fill(self) -> None:
        now = self.clock()
        rate = self.pace.requests_per_second
        grown = float(self.pace.burst) if rate is None else self.tokens + (now - self.since) * rate
        self.tokens, self.since = min(grown, float(self.pace.burst)), now
