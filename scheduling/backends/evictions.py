"""How a scheduler evicted a pod that is gone, found in the messages of its events.

A pod's name belongs to one try, so a message about an earlier try never counts for a later one. From the
tenth similar event on, client-go's correlator merges events and only the first names stay; such a message
counts for all peers, and a message without any pod's name counts for every pod. A pod that vanishes while the
scheduler evicts its peers by name was not evicted: it was deleted from outside. The scheduler's own backend
reads the messages.
"""

import re
from collections.abc import Collection, Sequence

from scheduling.backends.base import Eviction
from scheduling.backends.facets import SchedulerTexts
from scheduling.backends.plain_texts import PlainTexts

FOLDED_AFTER = 10

_POD = re.compile(r"\b[0-9a-f]{32}-[0-9]+\b")  # as ``names.pod`` makes them


def eviction_of(
    texts: SchedulerTexts | None, pod: str, *, messages: Sequence[str], peers: Collection[str]
) -> Eviction | None:
    """How a pod was evicted; None if no message is about it.

    ``texts`` are the scheduler's, None if it is not installed. ``messages`` run oldest
    first, ``peers`` are the pods of the latest tries of its group.
    """
    message = _message_about(pod, messages, peers)
    if not message:
        return None
    return (texts or PlainTexts()).read_eviction(message)


def _message_about(pod: str, messages: Sequence[str], peers: Collection[str]) -> str:
    """The last message that is about this pod, empty for none."""
    pods = {message: set(_POD.findall(message)) for message in messages}
    if own := [message for message in messages if pod in pods[message]]:
        return own[-1]
    if of_all := [message for message in messages if not pods[message]]:
        return of_all[-1]
    of_peers = [message for message in messages if not pods[message].isdisjoint(peers)]
    combined = any("combined from similar events" in message for message in of_peers)
    return of_peers[-1] if combined or len(of_peers) >= FOLDED_AFTER else ""
