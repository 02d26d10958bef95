"""Which version of a kind a cluster serves, for kinds that one release serves otherwise than the next.

The answer is kept for a minute in each process: a cluster changes it by an upgrade of its API server.
"""

from collections.abc import Callable
from dataclasses import replace

from cluster.clock import boot_seconds
from cluster.connection import Access
from cluster.kinds import Kind

SECONDS = 60.0

Discover = Callable[[str, str], frozenset[str] | None]

_served: dict[tuple[Access, Kind], tuple[float, Kind]] = {}


def served(access: Access, kind: Kind, discover: Discover) -> Kind:
    """The kind in the first of its versions that the cluster serves; unchanged if it serves none."""
    until, answer = _served.get((access, kind), (0.0, kind))
    if boot_seconds() < until:
        return answer
    version = first_served(kind, discover)
    if version is None:
        return kind
    answer = replace(kind, version=version, other_versions=())
    _served[access, kind] = boot_seconds() + SECONDS, answer
    return answer


def first_served(kind: Kind, discover: Discover) -> str | None:
    """The first of a kind's versions that is served; None for none."""
    return next((v for v in kind.versions if kind.plural in (discover(kind.group, v) or ())), None)
