"""The demand of one pod on a node: amounts, and which nodes it may use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from scheduling.fit.snapshot import FitNode, ResourceVector
from scheduling.nodes.taints import Taint, Toleration, barring
from scheduling.topology.levels import HOSTNAME_LABEL, NO_CLIQUE


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of one pod. Tolerations are as a pod writes them; hashable, so equal tasks are one kind.

    ``others`` has further resources that the pod asks for: how much of them is in use is not known.
    ``ignores_closed`` marks a demand that a scheduler counts on nodes that take no new pods, too;
    ``avoids_held`` one that gets no node whose NVLink channel other work holds.
    """

    amounts: ResourceVector
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[tuple[tuple[str, str], ...], ...] = ()
    excluded: frozenset[str] = frozenset()
    """Nodes by their label kubernetes.io/hostname."""

    clique: str = ""
    """The label of the NVLink clique that it requires: it keeps off nodes whose value means none."""

    others: tuple[tuple[str, int], ...] = ()
    ignores_closed: bool = False
    avoids_held: bool = False

    @classmethod
    def of(
        cls,
        amounts: ResourceVector,
        *,
        selector: Mapping[str, str] | None = None,
        tolerations: Sequence[Mapping[str, object]] = (),
        excluded: Sequence[str] = (),
        clique: str = "",
        others: Mapping[str, int] = MappingProxyType({}),
    ) -> "Demand":
        plain = tuple(tuple(sorted((k, str(v)) for k, v in toleration.items())) for toleration in tolerations)
        selection = tuple(sorted((selector or {}).items()))
        return cls(amounts, selection, plain, frozenset(excluded), clique, tuple(sorted(others.items())))

    def on_nodes_with(self, labels: Mapping[str, str]) -> "Demand":
        """The same demand on nodes that carry these labels, too."""
        return replace(self, selector=tuple(sorted({**dict(self.selector), **labels}.items())))

    def may_use(self, node: FitNode) -> bool:
        """Whether the pod may use the node, whatever is free there."""
        if self._excludes(node) or (node.closed and not self.ignores_closed):
            return False
        if self.avoids_held and node.channel_is_held:
            return False
        for key, value in self.selector:
            if node.labels.get(key) != value:
                return False
        if self.lacking(node):
            return False
        return not node.taints or not self.untolerated(node)

    def lacking(self, node: FitNode) -> list[str]:
        """The further resources of which the node offers too little, as far as nodes publish them."""
        if not self.others:
            return []
        offered = dict(node.extended)
        return [name for name, amount in self.others if offered.get(name, amount) < amount]

    def untolerated(self, node: FitNode) -> list[Taint]:
        """The node's taints that keep the pod off it."""
        return barring(node.taints, _as_written(self.tolerations))

    def _excludes(self, node: FitNode) -> bool:
        if self.clique and node.labels.get(self.clique) in NO_CLIQUE:
            return True
        return bool(self.excluded) and node.labels.get(HOSTNAME_LABEL, node.name) in self.excluded


@lru_cache(maxsize=256)
def _as_written(tolerations: tuple[tuple[tuple[str, str], ...], ...]) -> tuple[Toleration, ...]:
    return tuple(map(dict, tolerations))
