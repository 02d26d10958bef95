"""The words of a waiting gang's pins."""

from scheduling.gang.pins import Pins, sentence

PINNED = "SetsPinned"
UNPINNED = "SetsUnpinned"


def pins_message(pins: Pins, *, group: str) -> str:
    """The event's message when sets are pinned to a domain."""
    return (
        f'Group "{group}" has tasks of unlike sizes, and its scheduler passes over a place that holds them. '
        f"Kept there by node labels from now on: {sentence(pins)}. Its pods have no node and are made again."
    )


def unpinned_message(*, group: str) -> str:
    return (
        f'No set of group "{group}" is pinned any more: its scheduler finds a place by itself now, or too '
        "few usable nodes are left where it was pinned. Its pods, which have no node, are made again."
    )
