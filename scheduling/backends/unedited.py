"""What schedulers answer whose pod groups are never edited and whose pools need no objects."""

from collections.abc import Collection, Mapping
from typing import Any

from scheduling.backends.base import Manifest, PoolRequest, RenderedGang


class Unedited:
    """The part of ``SchedulerBackend`` in which such schedulers are alike; each says why beside its name."""

    def resized(
        self, gang: RenderedGang, *, living: Collection[str], waiting: Collection[str], rest: bool
    ) -> Manifest:
        """Nothing."""
        del gang, living, waiting, rest
        return {}

    def relaxed(self, before: RenderedGang, after: RenderedGang) -> Manifest | None:
        """None: no preference is applied as required for a time."""
        del before, after
        return None

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        """None."""
        del request
        return ()

    def above(self, pool_object: Mapping[str, Any]) -> str:
        """Empty: there are no pool objects."""
        del pool_object
        return ""
