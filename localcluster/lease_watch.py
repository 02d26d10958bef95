"""Starting kwok again where it has stopped renewing the leases of nodes.

kwok 0.8.0 renews by a queue with delays whose heap (``pkg/utils/heap/heap.go``) may hold a node twice: once
from a renewal that was under way as the node was removed, once since the node is there again, or was listed
just before. Then ``Remove`` takes away the later entry, nothing takes away the earlier one, and everything
behind it waits for ever. ``NODE_GRACE_SECONDS`` later all nodes are unreachable. It is no matter of load, nor
of the stages. Tried with that queue alone: a name that is added twice holds up all others.
"""

import time
from contextlib import closing

import urllib3

from localcluster.api import Api, ApiError
from localcluster.controlplane import (
    LEASE_ANSWER_SECONDS,
    LEASE_SECONDS,
    LEASES,
    Plane,
    restart_kwok,
    unrenewed_leases,
)
from localcluster.supervisor import Supervisor

LOOK_SECONDS = 15.0
STALE_SECONDS = float(LEASE_SECONDS)
"""A lease is renewed every 30 seconds or so, later on a loaded machine."""


class LeaseWatch:
    """Its leases may be checked at any pace; few calls ask the cluster."""

    def __init__(self, supervisor: Supervisor, plane: Plane) -> None:
        self._supervisor, self._plane = supervisor, plane
        self._next_look = time.monotonic() + LOOK_SECONDS

    def check(self) -> int:
        """Start kwok again if most leases are stale, not those of some stopped kubelets; how many are."""
        if time.monotonic() < self._next_look:
            return 0
        self._next_look = time.monotonic() + LOOK_SECONDS
        try:
            if stale := self._stale():
                restart_kwok(self._supervisor, self._plane)
        except (ApiError, urllib3.exceptions.HTTPError):  # an API server that is restarted
            return 0
        return stale

    def _stale(self) -> int:
        with closing(Api(self._plane.access(), seconds=LEASE_ANSWER_SECONDS)) as api:
            stale = unrenewed_leases(api, seconds=STALE_SECONDS)
            return stale if 2 * stale > len(api.list(LEASES)[0]) else 0
