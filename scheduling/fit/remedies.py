"""Whether a gang would fit if nodes that are kept from it were not: closed, without a label, tainted.

On a full pool a scheduler counts such nodes beside all others, and none of them is why the gang waits. A kind
of node is a cause only where the verdict on the same nodes, with exactly those of the kind open, labelled or
tolerated, is that the gang fits. Where that helps only once running work has ended, and its end alone does
not, it is said so. Costs nothing where the gang may use every node.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from itertools import islice

from scheduling.fit.board import Board
from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.node_index import times
from scheduling.fit.search import Possible, possible
from scheduling.fit.snapshot import FitNode, Snapshot
from scheduling.fit.usable import TaintedNodes, by_taint
from scheduling.fit.verdict import Answer, judge
from scheduling.nodes.taints import passes_by_condition
from scheduling.topology.levels import HOSTNAME_LABEL

MOST_NAMED = 3
NEW = "(one more)"
"""The value of each label of a domain that does not exist yet; no label of Kubernetes can have it."""

MOST_PLACES = 3
"""Domains that unlabelled nodes are tried in, beside one of their own."""


class RemedyKind(StrEnum):
    OPEN = "open"
    LABEL = "label"
    TOLERATE = "tolerate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Nodes that the gang may not use, with which it would fit: how many, and the first by name.

    ``labels`` are those that it would fit with, of RemedyKind.LABEL; ``taints`` those that keep it off, of
    RemedyKind.TOLERATE. ``after_work``: only once running work has ended. ``together``: only with the other
    remedies.
    """

    kind: RemedyKind
    nodes: int
    names: tuple[str, ...]
    labels: Mapping[str, str]
    taints: tuple[TaintedNodes, ...]
    after_work: bool
    together: bool

    def applied(self, node: FitNode) -> FitNode:
        """A node of the kind as the remedy makes it."""
        match self.kind:
            case RemedyKind.OPEN:
                taints = (t for t in node.taints if not passes_by_condition(t.get("key", "")))
                return replace(node, closed="", taints=tuple(taints))
            case RemedyKind.TOLERATE:
                return replace(node, taints=())
            case RemedyKind.LABEL:
                own = {HOSTNAME_LABEL: node.name} if HOSTNAME_LABEL in self.labels else {}
                return replace(node, labels={**self.labels, **own, **node.labels})


RemedyTrial = tuple[Remedy, frozenset[str]]
"""A remedy, and the names of all nodes of its kind."""


def remedies(snapshot: Snapshot, gang: GangDemand) -> tuple[Remedy, ...]:
    """The remedies for a gang that does not fit; empty where none helps, or where to wait is enough."""
    for after_work in (False, True):
        base = without_work(snapshot) if after_work else snapshot
        groups = [*_changes(base, gang)]
        if after_work and (not groups or _fits(base, gang)):
            return ()
        alone = [helpful for group in groups if (helpful := _first(base, gang, group))]
        if not alone and len(groups) > 1:
            alone = _all(base, gang, groups)
        if alone:
            return tuple(replace(remedy, after_work=after_work) for remedy, _ in alone)
    return ()


def without_work(snapshot: Snapshot) -> Snapshot:
    """The snapshot once all work of this service has ended; closed nodes stay closed."""
    changes = {at: replace(node, holdings=()) for at, node in enumerate(snapshot.nodes) if node.holdings}
    return snapshot.with_nodes(changes)


def _first(base: Snapshot, gang: GangDemand, group: Sequence[RemedyTrial]) -> RemedyTrial | None:
    return next((change for change in group if _fits(_changed(base, [change]), gang)), None)


def _all(base: Snapshot, gang: GangDemand, groups: Sequence[Sequence[RemedyTrial]]) -> list[RemedyTrial]:
    """One change of each kind, with all of which the gang fits; labels are tried in each place."""
    most = max(map(len, groups))
    for at in range(most):
        chosen = [group[min(at, len(group) - 1)] for group in groups]
        if _fits(_changed(base, chosen), gang):
            return [(replace(remedy, together=True), names) for remedy, names in chosen]
    return []


def _fits(snapshot: Snapshot, gang: GangDemand) -> bool:
    if possible(Board(snapshot), gang) is Possible.NO and not gang.is_pinnable:
        return False
    verdict = judge(snapshot, gang)
    return verdict.answer is Answer.NOW and not verdict.doubts


def _changed(base: Snapshot, changes: Sequence[RemedyTrial]) -> Snapshot:
    def change(node: FitNode) -> FitNode:
        return reduce(
            lambda so_far, entry: entry[0].applied(so_far) if node.name in entry[1] else so_far, changes, node
        )

    if any(remedy.kind is RemedyKind.LABEL for remedy, _ in changes):
        return base.edited(change)
    places = {at for _, names in changes for name in names if (at := base.place(name)) is not None}
    return base.with_nodes({at: change(base.nodes[at]) for at in places})


def _changes(snapshot: Snapshot, gang: GangDemand) -> Iterator[list[RemedyTrial]]:
    """For each kind of which there are nodes that some task could use: the changes that are tried."""
    kinds = {*gang.demands.values()}
    closed = _of(snapshot, kinds, lambda node, _kind: bool(node.closed))
    if closed:
        yield [_change(RemedyKind.OPEN, closed)]
    tainted = _of(snapshot, kinds, _is_tainted)
    if tainted:
        yield [_change(RemedyKind.TOLERATE, tainted, taints=_taints(tainted, kinds))]
    cuts = [cut for node in gang.tree.root.walk() if (cut := gang.cut_of(node)) is not None]
    if cuts:
        lacking = [at for at, place in enumerate(snapshot.places) if None in place[: max(cuts) + 1]]
        names = {snapshot.nodes[at].name for at in lacking}
        unlabelled = _of(snapshot, kinds, lambda node, _kind: node.name in names)
        if unlabelled:
            yield [
                _change(RemedyKind.LABEL, nodes, labels)
                for labels in _labels(snapshot, max(cuts))
                if (nodes := [node for node in unlabelled if _agrees(node, labels)])
            ]


def _of(snapshot: Snapshot, kinds: set[Demand], is_kind: Callable[[FitNode, Demand], bool]) -> list[FitNode]:
    """The nodes of a kind that have room for some task, and that it could use if that were all."""
    return [
        node
        for node in snapshot.nodes
        if any(
            is_kind(node, kind)
            and times(node.free, kind.amounts)
            and kind.may_use(replace(node, closed="", taints=()))
            for kind in kinds
        )
    ]


def _is_tainted(node: FitNode, kind: Demand) -> bool:
    """Whether taints alone keep the task off; a node is opened together with the taints of its condition."""
    return bool(node.taints) and not node.closed and bool(kind.untolerated(node))


def _taints(nodes: Sequence[FitNode], kinds: set[Demand]) -> tuple[TaintedNodes, ...]:
    """The taints that some task does not tolerate, each once of a node."""
    return by_taint(
        (node, taint)
        for node in nodes
        for taint in node.taints
        if any(taint in kind.untolerated(node) for kind in kinds)
    )


def _change(
    kind: RemedyKind,
    nodes: Sequence[FitNode],
    labels: Mapping[str, str] | None = None,
    taints: tuple[TaintedNodes, ...] = (),
) -> RemedyTrial:
    names = [node.name for node in nodes]
    first = tuple(names[:MOST_NAMED])
    remedy = Remedy(
        kind=kind,
        nodes=len(names),
        names=first,
        labels=labels or {},
        taints=taints,
        after_work=False,
        together=False,
    )
    return remedy, frozenset(names)


def _agrees(node: FitNode, labels: Mapping[str, str]) -> bool:
    return all(value in (NEW, node.labels.get(label, value)) for label, value in labels.items())


def _labels(snapshot: Snapshot, cut: int) -> Iterator[Mapping[str, str]]:
    """The labels of some domains of the narrowest level that counts, most free nodes first; then new ones."""
    levels = snapshot.levels[: cut + 1]
    by_free = sorted(
        snapshot.domains[cut],
        key=lambda domain: -sum(snapshot.nodes[at].free_gpus for at in domain.nodes),
    )
    for domain in islice(by_free, MOST_PLACES):
        node = snapshot.nodes[domain.nodes[0]]
        yield {level.label: node.labels[level.label] for level in levels if level.label in node.labels}
    yield {level.label: NEW for level in levels}
