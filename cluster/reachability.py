"""The clusters that left the last request of this process without a reply.

Code that uses threads for clusters checks this first: a cluster that accepts connections and never answers
occupies each thread for as long as a call may last. Any reply ends the silence, a refusal too. Each process
keeps its own record, since each has its own way to the network; nothing expires, because the next request
updates it.
"""

from cluster.connection import Access

_silent: set[Access] = set()


def note(access: Access, *, replied: bool) -> None:
    """Record whether the last request to a cluster got a reply."""
    if replied:
        _silent.discard(access)
    else:
        _silent.add(access)


def is_silent(access: Access) -> bool:
    """Whether the last request got no reply."""
    return access in _silent
