"""A snapshot after edits: nodes drained, nodes added, workflows ended. Pure.

Drained nodes are removed, not closed. A closed node opens again, so a gang would only wait for it; an
administrator who drains a rack needs the verdict for the case that it does not come back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduling.fit.snapshot import FitNode, Snapshot
from scheduling.kubernetes_syntax import selects


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """A drained node carries all label values of one of ``domains``; ``ended`` names holders."""

    domains: tuple[Mapping[str, str], ...] = ()
    nodes: frozenset[str] = frozenset()
    added: tuple[FitNode, ...] = ()
    ended: frozenset[str] = frozenset()

    def drains(self, node: FitNode) -> bool:
        return node.name in self.nodes or any(in_domain(node, domain) for domain in self.domains)


def in_domain(node: FitNode, values: Mapping[str, str]) -> bool:
    """Whether a node carries all of these label values."""
    return selects(values, node.labels)


def after(snapshot: Snapshot, edits: Edits) -> Snapshot:
    """The snapshot after the edits."""

    def change(node: FitNode) -> FitNode | None:
        if edits.drains(node):
            return None
        holdings = tuple(holding for holding in node.holdings if holding.holder not in edits.ended)
        return node if len(holdings) == len(node.holdings) else replace(node, holdings=holdings)

    return snapshot.edited(change, added=edits.added)


def drained(snapshot: Snapshot, edits: Edits) -> Sequence[FitNode]:
    """The nodes that the edits drain."""
    return [node for node in snapshot.nodes if edits.drains(node)]
