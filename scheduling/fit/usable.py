"""Which nodes of a pool its pods may use now: the one definition of every count of free and open nodes. Pure.

A node is usable by a pool if it is ready, not cordoned, and carries no taint that keeps all pods off that the
pool could send there: those of each platform that selects the node. Passing taints count like others. What is
in use on the node is another matter, and so is a node that no platform selects.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from scheduling.fit.snapshot import FitNode, Snapshot
from scheduling.kubernetes_syntax import selects
from scheduling.nodes.taints import Taint, Toleration, barring, passes_by_condition, taint_name

TAINTED = "tainted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodKind:
    """The pods of one platform of a pool: the labels that they select nodes by, and their tolerations."""

    selector: Mapping[str, str]
    tolerations: Sequence[Toleration]


@dataclass(frozen=True, slots=True)
class TaintedNodes:
    """How many nodes carry a taint, as ``key:effect``.

    ``may_pass``: on all of them. ``since`` is then when the last of them got it, None if not known of all.
    """

    taint: str
    nodes: int
    may_pass: bool
    since: datetime | None


def by_taint(tainted: Iterable[tuple[FitNode, Taint]]) -> tuple[TaintedNodes, ...]:
    """The nodes by their taints, most nodes first."""
    times: dict[str, list[datetime | None]] = defaultdict(list)
    lasting = set()
    for node, taint in tainted:
        name, key = taint_name(taint), taint.get("key", "")
        times[name].append(node.passing.get(key))
        if key not in node.passing and not passes_by_condition(key):
            lasting.add(name)
    entries = [
        TaintedNodes(
            taint,
            len(since),
            taint not in lasting,
            None if None in since else max(filter(None, since)),
        )
        for taint, since in times.items()
    ]
    return tuple(sorted(entries, key=lambda entry: (-entry.nodes, entry.taint)))


def refusal(taints: Sequence[Taint], labels: Mapping[str, str], kinds: Sequence[PodKind]) -> list[Taint]:
    """The taints of a node that keep all pods of these kinds off it; empty where some may run there."""
    if not taints:
        return []
    fitting = [kind for kind in kinds if selects(kind.selector, labels)] or kinds
    refused = [barring(taints, kind.tolerations) for kind in fitting]
    return refused[0] if refused and all(refused) else []


def as_usable(snapshot: Snapshot, kinds: Sequence[PodKind]) -> Snapshot:
    """The snapshot with the nodes closed that taints keep from all of these pods.

    Its nodes carry the labels of the selectors. Verdicts do not need it: a demand reads taints itself.
    """
    changes = {
        at: replace(node, closed=TAINTED)
        for at, node in enumerate(snapshot.nodes)
        if node.taints and not node.closed and refusal(node.taints, node.labels, kinds)
    }
    return snapshot.with_nodes(changes)


def selected_labels(kinds: Iterable[PodKind]) -> set[str]:
    """The labels that tell which pods select a node."""
    return {label for kind in kinds for label in kind.selector}
