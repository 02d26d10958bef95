"""What is asked about a group on some nodes, and what the verdict says in words.

A group is judged as it is frozen, or as if its tasks were submitted again.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from pools.clusters.capabilities import capabilities_at, capabilities_of
from pools.documents.backend import version_of
from pools.models import Platform
from pools.pod_templates.applied import node_selection, tolerations_of
from scheduling.backends.registry import scheduler_backend
from scheduling.capabilities import Capabilities
from scheduling.errors import Fault
from scheduling.fit.admission import admitted
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.questions import EditSide, Question
from scheduling.fit.verdict import Verdict
from scheduling.sentences import first
from scheduling.topology.levels import domain_of
from whatif.scenario import Target
from workflows.feasibility.capacity.node_snapshot import ObservedNodes, demand_of
from workflows.feasibility.queues.queue_usage import QueueReading
from workflows.feasibility.verdict.sentences import redacted, sentence
from workflows.values.placement import GroupValues, TaskTry


class Prospect(StrEnum):
    """A verdict, or the reason for none: the group would be refused, or no node is known."""

    NOW = "now"
    NOT_NOW = "not_now"
    NEVER = "never"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """``proven`` False means NOT_NOW might really be NEVER: the search hit its limit."""

    prospect: Prospect
    sentence: str
    proven: bool = True


class PreparedNodes:
    """One reading of nodes, about which questions are asked.

    ``no_nodes`` is the reason why no node is known, or empty; ``visible``: the holders that may be named;
    ``queues``: those that must admit a group, None for a scheduler without queues.
    """

    def __init__(
        self,
        observed: ObservedNodes,
        side: EditSide,
        *,
        cluster: str,
        no_nodes: str,
        visible: frozenset[str],
        queues: QueueReading | None,
    ) -> None:
        self.nodes, self._is_complete = observed.snapshot.nodes, observed.snapshot.is_complete
        self._side, self._no_nodes, self._visible, self._cluster = side, no_nodes, visible, cluster
        self._queues, self._freshness = queues, observed.freshness

    def frozen(self, group: GroupValues) -> Judgement | Question:
        """The question of a group as it was accepted, on these nodes; a judgement where none is needed."""
        placement = group.placement
        if placement.terms.cluster_uid and placement.terms.cluster_uid != self._cluster:
            message = f'It was accepted for backend "{placement.terms.backend}", which is another cluster.'
            return Judgement(prospect=Prospect.UNKNOWN, sentence=message)
        return self.question(
            group, capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version)
        )

    def question(self, group: GroupValues, capabilities: Capabilities) -> Judgement | Question:
        if self._no_nodes:
            return Judgement(prospect=Prospect.UNKNOWN, sentence=self._no_nodes)
        paths = capabilities.by_paths
        demand = demand_of(group, capabilities=capabilities)
        return Question(
            self._side, group.placement.terms.levels, paths, demand, is_complete=self._is_complete
        )

    def judgement(self, verdict: Verdict, gang: GangDemand, *, priority: str) -> Judgement:
        """A verdict on these nodes, and on the queues above them, in words."""
        if self._queues:
            verdict = admitted(verdict, replace(self._queues, priority=priority).verdict(gang))
        text = sentence(redacted(verdict, self._visible), self._freshness)
        proven = verdict.proven and not self._freshness.is_old
        return Judgement(prospect=Prospect(verdict.answer.value), sentence=text, proven=proven)


class Resubmission:
    """Judge groups as new submissions to the target."""

    def __init__(self, target: Target, nodes: PreparedNodes) -> None:
        self._target, self._nodes = target, nodes
        self._capabilities = capabilities_of(target.backend)
        self._domains = sorted({domain_of(node.labels, target.levels) for node in nodes.nodes}, key=repr)
        platforms = list(target.pool.platforms.all()) or [Platform(pool=target.pool, name="")]
        self._platforms = {row.name: row for row in platforms}

    def question(self, group: GroupValues) -> Judgement | Question:
        """The question of a group as a new submission; a judgement where it would be refused."""
        moved = self._moved(group)
        if isinstance(moved, str):
            return Judgement(prospect=Prospect.REFUSED, sentence=f"It would be refused: {moved}")
        if faults := self._faults(moved):
            (fault, *_), others = first(faults, 1)
            more = f" {others.capitalize()}." if others else ""
            return Judgement(
                prospect=Prospect.REFUSED, sentence=f"It would be refused: {fault.message}{more}"
            )
        return self._nodes.question(moved, self._capabilities)

    def _moved(self, group: GroupValues) -> GroupValues | str:
        """The group with the target's keys and platforms, or the message why it cannot have them."""
        backend, pool = self._target.backend, self._target.pool
        terms = replace(
            group.placement.terms,
            levels=self._target.levels,
            scheduler_type=backend.scheduler_type,
            scheduler_version=version_of(backend),
        )
        tasks = []
        for task in group.tasks:
            row = self._platforms.get(task.placement.platform) or self._platforms.get(pool.default_platform)
            if self._target.moved and row is None:
                return f'Pool "{pool.name}" has no platform "{task.placement.platform}" and no default one.'
            tasks.append(_on(task, row) if self._target.moved and row else task)
        return replace(group, placement=replace(group.placement, terms=terms), tasks=tuple(tasks))

    def _faults(self, group: GroupValues) -> tuple[Fault, ...]:
        pool = self._target.pool
        checked = scheduler_backend(self._target.backend.scheduler_type).rendering.check(
            group.gang,
            group.placement.terms.levels,
            capabilities=self._capabilities,
            domains=self._domains or None,
            unsupported_preferred="warn" if pool.unsupported_preferred == "warn" else "refuse",
            queue_timeout=group.placement.queue_timeout,
        )
        return checked.faults


def _on(task: TaskTry, platform: Platform) -> TaskTry:
    """The task with the node selection and tolerations of another pool's platform."""
    placement = replace(
        task.placement,
        platform=platform.name,
        node_selector=node_selection(platform.pool, platform),
        tolerations=tuple(tolerations_of(platform.pool, platform)),
    )
    return replace(task, placement=placement)
