"""Callers who are being told why they have no session: how many at a time.

Each holds its connection for half a minute, and is counted among no sessions.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MOST: Final = 64
MOST_OF_USER: Final = 8

_present: Counter[int] = Counter()


def are_full(user: int) -> bool:
    """Whether no more refusals of this user are explained; for any thread."""
    return _present[user] >= MOST_OF_USER or sum(tuple(_present.values())) >= MOST


@contextmanager
def counted(user: int) -> Iterator[None]:
    """Count a refusal while it is explained; on the event loop."""
    _present[user] += 1
    try:
        yield
    finally:
        _present[user] -= 1
        if not _present[user]:
            del _present[user]
