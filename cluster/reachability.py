"""Which clusters left our last request without a reply, as this process has seen it.

Code that spends threads on clusters checks this first: a cluster that accepts connections and never answers
holds each for as long as a call may last. Any reply ends the silence, a refusal too. Kept per process, since
each has its own way to the network; nothing expires, because the next request shows it.
"""

from cluster.connection import Access

_silent: set[Access] = set()


def note(access: Access, *, replied: bool) -> None:
    """Remember how the last request to a cluster went."""
    if replied:
        _silent.discard(access)
    else:
        _silent.add(access)


def is_silent(access: Access) -> bool:
    """Whether the last request got no reply."""
    return access in _silent
