"""Whether task groups could be placed at all without some nodes."""

from collections.abc import Sequence

from pools.clusters.capabilities import capabilities_at
from scheduling.fit.verdict import Answer, judge
from workflows.feasibility.capacity.node_snapshot import demand_of, observed_nodes, selectors_of
from workflows.values.placement import GroupValues


class UsableNodes:
    """The nodes that groups of one placement may use, read once to judge several times."""

    def __init__(self, groups: Sequence[GroupValues], *, cluster: str) -> None:
        placement = groups[0].placement
        self._groups = groups
        self._capabilities = capabilities_at(
            placement.terms.scheduler_type, placement.terms.scheduler_version
        )
        self._observed = observed_nodes(
            cluster,
            selectors=selectors_of(groups),
            levels=placement.terms.levels,
            capabilities=self._capabilities,
            without=[group.uuid for group in groups],
        )

    def never_without(self, nodes: Sequence[str]) -> bool:
        """Whether some group could never be placed without these nodes; False where none is known."""
        if not self._observed.snapshot.nodes:
            return False
        groups = (group.avoiding(nodes) for group in self._groups)
        demands = (demand_of(group, capabilities=self._capabilities) for group in groups)
        return any(judge(self._observed.snapshot, demand).answer is Answer.NEVER for demand in demands)
