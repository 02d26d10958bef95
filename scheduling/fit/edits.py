"""A snapshot as it would be: nodes drained, nodes added, work ended. Pure.

Drained nodes are gone from it and not merely closed: a closed node opens again, so a gang would only wait
for it, and whoever drains a rack asks what becomes of those that wait if it does not come back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduling.fit.snapshot import FitNode, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """``domains`` are label values, of which a drained node carries all; ``ended`` names holders."""

    domains: tuple[Mapping[str, str], ...] = ()
    nodes: frozenset[str] = frozenset()
    added: tuple[FitNode, ...] = ()
    ended: frozenset[str] = frozenset()

    def drains(self, node: FitNode) -> bool:
        return node.name in self.nodes or any(in_domain(node, one) for one in self.domains)


def in_domain(node: FitNode, values: Mapping[str, str]) -> bool:
    """Whether a node carries all these label values."""
    return all(node.labels.get(label) == value for label, value in values.items())


def after(snapshot: Snapshot, edits: Edits) -> Snapshot:
    """The snapshot with the edits made."""

    def change(node: FitNode) -> FitNode | None:
        if edits.drains(node):
            return None
        kept = tuple(one for one in node.holdings if one.holder not in edits.ended)
        return node if len(kept) == len(node.holdings) else replace(node, holdings=kept)

    return snapshot.edited(change, added=edits.added)


def drained(snapshot: Snapshot, edits: Edits) -> Sequence[FitNode]:
    """The nodes that the edits drain."""
    return [node for node in snapshot.nodes if edits.drains(node)]
