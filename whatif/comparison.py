"""Compare the verdicts before and after a scenario for each group that waits."""

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from django.utils import timezone

from pools.clusters.capabilities import capabilities_of
from pools.models import Backend, Pool
from pools.pod_templates.applied import node_selection, pod_kinds
from pools.selectors import Caller, installation, pool_levels
from pools.services.pool_objects import queue_of
from pools.values.freshness import Freshness
from scheduling.errors import Fault, InvalidSpec, in_order
from scheduling.fit.edits import after, drained
from scheduling.fit.questions import EditSide, Question, Questions, answer_job
from scheduling.fit.snapshot import FitNode
from scheduling.fit.usable import as_usable, selected_labels
from scheduling.fit.verdict import Verdict
from scheduling.kubernetes_syntax import selects
from scheduling.topology.levels import Levels
from web.children import Exceeded, JobBounds, children
from web.limits.turns import turn
from web.rest.errors import summary
from whatif.judgement import Judgement, PreparedNodes, Prospect, Resubmission
from whatif.scenario import Scenario, Target, edits_of, target_of
from workflows.feasibility.capacity.node_snapshot import ObservedNodes, observed_nodes, selectors_of
from workflows.feasibility.placement.fragmentation import PoolFragments, of_snapshot
from workflows.feasibility.queues.queue_usage import QueueReading, read_queues
from workflows.feasibility.queues.waiting_groups import WaitingGroup, waiting_groups_in
from workflows.feasibility.verdict.sentences import no_nodes_reason
from workflows.selectors import names_known_to

SECONDS = 10.0
"""Time in which verdicts are started; groups that are left afterwards are counted, not judged."""

BOUNDS: Final = JobBounds(cpu_seconds=20, seconds=60.0, memory=512 * 2**20, answer=64 * 2**20)
"""Of the process that judges: one verdict may be slow, and the machine busy."""

_HOPELESS = frozenset({Prospect.NEVER, Prospect.REFUSED})


class Effect(StrEnum):
    """The effect on a group: it fits now, becomes possible, must wait, or becomes impossible."""

    FITS = "fits"
    POSSIBLE = "possible"
    WAITS = "waits"
    IMPOSSIBLE = "impossible"
    SAME = "same"

    @property
    def words(self) -> str:
        """The effect as pages say it."""
        return _WORDS[self]


_WORDS = {
    Effect.FITS: "would fit now",
    Effect.POSSIBLE: "would become possible",
    Effect.WAITS: "would have to wait",
    Effect.IMPOSSIBLE: "would become impossible",
    Effect.SAME: "stays as it is",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupComparison:
    """One group that waits. ``workflow`` is empty if the caller may not list the pool's workflows."""

    workflow: str
    group: str
    tasks: int
    before: Judgement
    after: Judgement

    @property
    def effect(self) -> Effect:
        first, then = self.before.prospect, self.after.prospect
        if first == then or Prospect.UNKNOWN in {first, then} or {first, then} == _HOPELESS:
            return Effect.SAME
        if then in _HOPELESS:
            return Effect.IMPOSSIBLE
        if then is Prospect.NOW:
            return Effect.FITS
        return Effect.POSSIBLE if first in _HOPELESS else Effect.WAITS


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """``waiting`` counts the groups that would still wait, ``left_out`` those of them that were not judged.

    ``displaced`` names the workflows with pods on drained nodes.
    """

    pool: str
    scheduler: str
    freshness: Freshness
    waiting: int
    groups: tuple[GroupComparison, ...]
    before: PoolFragments
    after: PoolFragments
    drained: int
    displaced: tuple[str, ...]
    resubmits: bool
    others_known: bool

    @property
    def left_out(self) -> int:
        return self.waiting - len(self.groups)

    def counts(self) -> Mapping[Effect, int]:
        counts = Counter(group.effect for group in self.groups)
        return {effect: counts[effect] for effect in Effect}


def what_if(pool: Pool, scenario: Scenario, *, user: Caller, names: bool) -> WhatIf:
    """Judge the groups that wait in a pool before and after the edits; the pool has its keys and platforms.

    ``names``: the caller may list the pool's workflows. Pools may share nodes, so a holder is named only if
    the caller may list that holder's pool. Raises InvalidSpec with every fault, Busy where too many expensive
    requests of the caller wait.
    """
    with turn(user.get_username()):
        return _what_if(pool, scenario, user=user, names=names)


def _what_if(pool: Pool, scenario: Scenario, *, user: Caller, names: bool) -> WhatIf:
    target, faults = target_of(pool, scenario, user=user)
    waiting = waiting_groups_in(pool.name)
    labels = _labels(target, waiting.groups)
    before = _read(pool, waiting.groups, labels)
    base = _read_target(target, waiting.groups, labels) if target.elsewhere else before
    visible = names_known_to(user, _holders(before) | _holders(base))
    ending = visible.union(group.workflow for group in waiting.groups)
    edits, more = edits_of(scenario, base.snapshot, target, workflows=ending)
    if faults := in_order([*faults, *more]):
        raise InvalidSpec(summary(faults), faults)
    then = replace(base, snapshot=after(base.snapshot, edits))
    drained_nodes = drained(base.snapshot, edits)
    holders = {holding.holder for node in drained_nodes for holding in node.holdings}
    displaced = sorted(holders & visible - edits.ended)
    staying = [group for group in waiting.groups if group.workflow not in edits.ended]
    queues = _queues(pool, before)
    queues_then = _queues(target.pool, base)
    queues_then = queues_then and queues_then.without(edits.ended)
    compared = _compared(
        staying,
        _nodes(before, EditSide.BEFORE, pool.backend, known_nodes=before, visible=visible, queues=queues),
        _nodes(then, EditSide.AFTER, target.backend, known_nodes=base, visible=visible, queues=queues_then),
        target if target.resubmits else None,
        names=names,
    )
    return WhatIf(
        pool=pool.name,
        scheduler=target.backend.scheduler_type,
        freshness=base.freshness,
        waiting=waiting.count - (len(waiting.groups) - len(staying)),
        groups=tuple(compared),
        before=_fragments(before, pool, pool_levels(pool)),
        after=_fragments(then, target.pool, target.levels),
        drained=len(drained_nodes),
        displaced=tuple(displaced),
        resubmits=target.resubmits,
        others_known=base.others_known,
    )


def _labels(target: Target, groups: Sequence[WaitingGroup]) -> set[str]:
    """Every label that a verdict or an edit reads; added nodes bring their own."""
    levels = {level.label for group in groups for level in group.values.placement.terms.levels}
    levels |= {level.label for level in (*target.levels, *pool_levels(target.pool))}
    return levels | selected_labels(pod_kinds(target.pool))


def _holders(observed: ObservedNodes) -> set[str]:
    """The workflows with pods on the nodes."""
    return {holding.holder for node in observed.snapshot.nodes for holding in node.holdings}


def _read(pool: Pool, groups: Sequence[WaitingGroup], labels: set[str]) -> ObservedNodes:
    return observed_nodes(
        pool.backend.cluster_id or "",
        selectors=[node_selection(pool), *selectors_of(group.values for group in groups)],
        levels=pool_levels(pool),
        capabilities=capabilities_of(pool.backend),
        labels=labels,
    )


def _read_target(target: Target, groups: Sequence[WaitingGroup], labels: set[str]) -> ObservedNodes:
    """The nodes where the groups would be: the other pool's, or their own pool's in another cluster."""
    rows = target.pool.platforms.all()
    own = [node_selection(target.pool), *(node_selection(target.pool, row) for row in rows)]
    return observed_nodes(
        target.backend.cluster_id or "",
        selectors=own if target.moved else [*own, *selectors_of(group.values for group in groups)],
        levels=pool_levels(target.pool),
        capabilities=capabilities_of(target.backend),
        labels=labels,
    )


def _nodes(
    observed: ObservedNodes,
    side: EditSide,
    backend: Backend,
    *,
    known_nodes: ObservedNodes,
    visible: frozenset[str],
    queues: QueueReading | None,
) -> PreparedNodes:
    """``known_nodes`` were read before any edit: a pool whose nodes are all drained is not an unknown one."""
    cluster = backend.cluster_id or ""
    no_nodes = no_nodes_reason(known_nodes, reached=bool(cluster))
    return PreparedNodes(observed, side, cluster=cluster, no_nodes=no_nodes, visible=visible, queues=queues)


def _queues(pool: Pool, observed: ObservedNodes) -> QueueReading | None:
    own = installation()
    return read_queues(
        pool.backend.scheduler_type,
        installation=own,
        pool=pool.name,
        queue=queue_of(pool, own),
        priority="NORMAL",
        cluster=pool.backend.cluster_id or "",
        usage=observed.usage,
        now=timezone.now(),
    )


def _fragments(observed: ObservedNodes, pool: Pool, levels: Levels) -> PoolFragments:
    """Count only the pool's own nodes: groups may select nodes that were the pool's when they came."""
    own = node_selection(pool)

    def in_pool(node: FitNode) -> FitNode | None:
        return node if selects(own, node.labels) else None

    snapshot = replace(observed.snapshot, levels=levels).edited(in_pool)
    return of_snapshot(as_usable(snapshot, pod_kinds(pool)), freshness=observed.freshness)


def _compared(
    groups: Sequence[WaitingGroup],
    before: PreparedNodes,
    then: PreparedNodes,
    target: Target | None,
    *,
    names: bool,
) -> list[GroupComparison]:
    """Compare as many groups as time allows; ``target``: where they are resubmitted, None if they stay."""
    resubmission = Resubmission(target, then) if target else None
    prepared = [
        (
            before.frozen(group.values),
            resubmission.question(group.values) if resubmission else then.frozen(group.values),
        )
        for group in groups
    ]
    questions = Questions(
        nodes=(before.nodes, then.nodes),
        groups=tuple(tuple(part for part in pair if isinstance(part, Question)) for pair in prepared),
        seconds=SECONDS,
    )
    comparisons: list[GroupComparison] = []
    for group, pair, verdicts in zip(groups, prepared, _answers(questions), strict=False):
        judged = iter(verdicts)
        first, second = (
            nodes.judgement(next(judged), part.gang, priority=group.values.placement.priority)
            if isinstance(part, Question)
            else part
            for nodes, part in zip((before, then), pair, strict=True)
        )
        comparisons.append(
            GroupComparison(
                workflow=group.workflow if names else "",
                group=group.values.name,
                tasks=len(group.values.tasks),
                before=first,
                after=second,
            )
        )
    return comparisons


def _answers(questions: Questions) -> list[tuple[Verdict, ...]]:
    """The verdicts, judged in a process of their own. Raises InvalidSpec where they exceed its bounds."""
    if not any(questions.groups):
        return questions.answers()
    try:
        answer = children().run(answer_job, pickle.dumps(questions), BOUNDS)
    except Exceeded as error:
        message = f"The question cannot be answered: {error}."
        raise InvalidSpec(message, [Fault((), "too_expensive", message)]) from error
    answers: list[tuple[Verdict, ...]] = pickle.loads(answer)  # noqa: S301 -- of our own code
    return answers
