"""The verdicts before and after, and what they mean for each group that waits."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from pools.clusters.capabilities import capabilities_of
from pools.models import Backend, Pool
from pools.pod_templates.applied import node_selection
from pools.selectors import Caller, pool_levels
from scheduling.errors import InvalidSpec, in_order
from scheduling.fit.edits import after, drained
from scheduling.fit.snapshot import FitNode
from scheduling.levels import Levels
from web.errors import summary
from whatif.asked import Asked, Target, edits_of, target_of
from whatif.standing import Anew, Judged, Nodes, Standing
from whatif.waiting import WaitingGroup, waiting_in
from workflows.feasibility.fragmentation import PoolFragments, of_snapshot
from workflows.feasibility.nodes import ObservedNodes, observed_nodes, selectors_of
from workflows.feasibility.sentences import unseen as why_unseen
from workflows.selectors import names_known_to

SECONDS = 10.0
"""For how long verdicts are begun; groups that are left then are counted, not judged."""

_HOPELESS = frozenset({Standing.NEVER, Standing.REFUSED})


class Change(StrEnum):
    """What becomes of a group: it would fit now, could fit at all, would have to wait, or never fits."""

    FITS = "fits"
    POSSIBLE = "possible"
    WAITS = "waits"
    IMPOSSIBLE = "impossible"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One group that waits. ``workflow`` is empty for a caller who may not list the pool's workflows."""

    workflow: str
    group: str
    tasks: int
    before: Judged
    after: Judged

    @property
    def change(self) -> Change:
        first, then = self.before.standing, self.after.standing
        if first == then or Standing.UNKNOWN in {first, then} or {first, then} == _HOPELESS:
            return Change.SAME
        if then in _HOPELESS:
            return Change.IMPOSSIBLE
        if then is Standing.NOW:
            return Change.FITS
        return Change.POSSIBLE if first in _HOPELESS else Change.WAITS


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """``waiting`` counts the groups that would wait still, ``left_out`` those of them that were not judged.

    ``displaced`` names the workflows that stand on drained nodes.
    """

    pool: str
    scheduler: str
    synced_at: datetime | None
    waiting: int
    groups: tuple[Compared, ...]
    before: PoolFragments
    after: PoolFragments
    drained: int
    displaced: tuple[str, ...]
    anew: bool
    others_known: bool

    @property
    def left_out(self) -> int:
        return self.waiting - len(self.groups)

    def counts(self) -> Mapping[Change, int]:
        found = Counter(one.change for one in self.groups)
        return {change: found[change] for change in Change}


def what_if(pool: Pool, asked: Asked, *, user: Caller, names: bool) -> WhatIf:
    """Judge what waits in a pool, which came with its keys and platforms, before and after the edits.

    ``names`` says that the caller may know what waits. Pools may share nodes, so who holds one is named only
    if the caller may list that one's pool. Raises InvalidSpec with every fault.
    """
    target, faults = target_of(pool, asked, user=user)
    waiting = waiting_in(pool.name)
    labels = _labels(target, waiting.groups)
    before = _read(pool, waiting.groups, labels)
    base = _read_target(target, waiting.groups, labels) if target.elsewhere else before
    known = names_known_to(user, _holders(before) | _holders(base))
    ending = known.union(one.workflow for one in waiting.groups)
    edits, more = edits_of(asked, base.snapshot, target, workflows=ending)
    if faults := in_order([*faults, *more]):
        raise InvalidSpec(summary(faults), faults)
    then = replace(base, snapshot=after(base.snapshot, edits))
    gone = drained(base.snapshot, edits)
    displaced = sorted({one.holder for node in gone for one in node.holdings} & known - edits.ended)
    staying = [one for one in waiting.groups if one.workflow not in edits.ended]
    compared = _compared(
        staying,
        _nodes(before, pool.backend, unseen=before, known=known),
        _nodes(then, target.backend, unseen=base, known=known),
        target if target.anew else None,
        names=names,
    )
    return WhatIf(
        pool=pool.name,
        scheduler=target.backend.scheduler_type,
        synced_at=base.synced_at,
        waiting=waiting.count - (len(waiting.groups) - len(staying)),
        groups=tuple(compared),
        before=_fragments(before, pool, pool_levels(pool)),
        after=_fragments(then, target.pool, target.levels),
        drained=len(gone),
        displaced=tuple(displaced),
        anew=target.anew,
        others_known=base.others_known,
    )


def _labels(target: Target, groups: Sequence[WaitingGroup]) -> set[str]:
    """Every label that some verdict or some edit reads; those of added nodes come with the nodes."""
    levels = {level.label for one in groups for level in one.values.placement.levels}
    return levels | {level.label for level in (*target.levels, *pool_levels(target.pool))}


def _holders(seen: ObservedNodes) -> set[str]:
    """The workflows that stand on the nodes."""
    return {one.holder for node in seen.snapshot.nodes for one in node.holdings}


def _read(pool: Pool, groups: Sequence[WaitingGroup], labels: set[str]) -> ObservedNodes:
    return observed_nodes(
        pool.backend.cluster_id or "",
        selectors=[node_selection(pool), *selectors_of(one.values for one in groups)],
        levels=pool_levels(pool),
        capabilities=capabilities_of(pool.backend),
        labels=labels,
    )


def _read_target(target: Target, groups: Sequence[WaitingGroup], labels: set[str]) -> ObservedNodes:
    """The nodes where the groups would be: those of the other pool, or the own pool's in another cluster."""
    rows = target.pool.platforms.all()
    own = [node_selection(target.pool), *(node_selection(target.pool, row) for row in rows)]
    return observed_nodes(
        target.backend.cluster_id or "",
        selectors=own if target.moved else [*own, *selectors_of(one.values for one in groups)],
        levels=pool_levels(target.pool),
        capabilities=capabilities_of(target.backend),
        labels=labels,
    )


def _nodes(seen: ObservedNodes, backend: Backend, *, unseen: ObservedNodes, known: frozenset[str]) -> Nodes:
    """``unseen`` is what was read before any edit: a pool drained whole is known to have no node."""
    cluster = backend.cluster_id or ""
    return Nodes(seen, cluster=cluster, unseen=why_unseen(unseen, reached=bool(cluster)), known=known)


def _fragments(seen: ObservedNodes, pool: Pool, levels: Levels) -> PoolFragments:
    """Of the pool's own nodes alone: groups may select others that were the pool's when they came."""
    own = node_selection(pool)

    def mine(node: FitNode) -> FitNode | None:
        return node if all(node.labels.get(key) == value for key, value in own.items()) else None

    snapshot = replace(seen.snapshot, levels=levels).edited(mine)
    return of_snapshot(snapshot, synced_at=seen.synced_at)


def _compared(
    groups: Sequence[WaitingGroup], before: Nodes, then: Nodes, target: Target | None, *, names: bool
) -> list[Compared]:
    """As many as there is time for; ``target`` is where they would be accepted anew, None if they stay."""
    until = time.monotonic() + SECONDS
    anew = Anew(target, then) if target else None
    found: list[Compared] = []
    for one in groups:
        if time.monotonic() > until:
            break
        values = one.values
        found.append(
            Compared(
                workflow=one.workflow if names else "",
                group=values.name,
                tasks=len(values.tasks),
                before=before.frozen(values),
                after=anew.judged(values) if anew else then.frozen(values),
            )
        )
    return found
