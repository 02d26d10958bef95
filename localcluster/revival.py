"""Starting a part again that ended by itself: at most three times each, and never silently.

Parts are examined in the order of their start, and a part that says when it is ready is waited for, so that
those after it find what they need. Their data last, so a part begins where it ended.
"""

import time
from collections import Counter
from collections.abc import Callable

import urllib3

from localcluster import controlplane
from localcluster.api import ApiError
from localcluster.supervisor import Child, ServerFailed, Supervisor, tail

MOST = 3
PAUSE_SECONDS = 1.0
"""PostgreSQL's own processes need a moment to notice that their parent was killed."""


class Revival:
    """The parts of one supervisor; ``counts`` is how often each was started again."""

    def __init__(
        self, supervisor: Supervisor, plane: controlplane.Plane | None, *, report: Callable[[str], None]
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._supervisor, self._plane, self._report = supervisor, plane, report

    def check(self) -> bool:
        """Start again what has ended; whether anything had. Raises ServerFailed the fourth time."""
        children = self._supervisor.children
        ended = [child for child in children if child.ending() is not None or child.command.is_ending()]
        for child in ended:
            self._revive(child)
        return bool(ended)

    def _revive(self, child: Child) -> None:
        name, ending = child.command.name, child.ending()
        fate = f"ended with {ending}" if ending else "lets nobody in any more"
        if self.counts[name] == MOST:
            raise ServerFailed(
                f"{name} {fate} after it was started again {MOST} times, so everything stops. The data stay, "
                f"and `make up` goes on with them. The end of its log {child.log}:\n{tail(child.log)}"
            )
        time.sleep(PAUSE_SECONDS)
        if name == controlplane.KWOK and not self._leases_dropped():
            return
        self.counts[name] += 1
        self._report(
            f"{name} {fate} and is started again, {self.counts[name]} of at most {MOST} times; "
            f"its log: {child.log}"
        )
        new = self._supervisor.restart(name)
        if child.probe:
            self._wait_ready(new, child.probe)

    def _wait_ready(self, child: Child, probe: Callable[[], str | None]) -> None:
        try:
            self._supervisor.wait_ready(child, probe, seconds=controlplane.READY_SECONDS)
        except ServerFailed:
            if child.ending() is None:
                raise

    def _leases_dropped(self) -> bool:
        assert self._plane is not None
        try:
            controlplane.drop_leases(self._plane)
        except (ApiError, urllib3.exceptions.HTTPError):  # an API server that has ended too
            return False
        return True
