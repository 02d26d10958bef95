"""Placing the pods of one group: all of them or none.

The tree is walked from the root. A constraint offers places in order; each is tried with all that stands
below and rolled back if that fails. Siblings are placed one after the other and a placed sibling is never
moved ("Siblings in order of name"), so an early sibling can take the room a later one needs, for ever.

Pods go one by one to the first node in order: best topology score, CPU-only nodes for pods without GPU, the
fullest node (bin-packing), name. Within one attempt room only shrinks, so a node that once refused a shape
is not asked again: 500 equal pods cost one walk over the nodes.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from localcluster.standins.kai import messages, topology
from localcluster.standins.kai.board import Board, Placement
from localcluster.standins.kai.jobs import Job
from localcluster.standins.kai.messages import POD_ERRORS, FitError
from localcluster.standins.kai.topology import Place, Question, Tree
from localcluster.standins.kai.tree import DEFAULT, Inner, Leaf
from localcluster.standins.kai.values import GPU, Constraint, Pod, Shape, Version
from localcluster.standins.kai.versions import VERSIONS

Scores = Mapping[str, int]


@dataclass(slots=True)
class Attempt:
    """One try to place ``tasks`` (pods by leaf) of a job; errors stay for the report."""

    job: Job
    board: Board
    trees: Mapping[str, Tree]
    tasks: Mapping[str, Sequence[Pod]]
    version: Version
    errors: list[FitError] = field(default_factory=list)
    pod_errors: dict[str, str] = field(default_factory=dict)

    def run(self) -> list[Placement]:
        """Place everything and return the placements, or return nothing and leave the board as it was."""
        mark = self.board.checkpoint()
        if self._inner(self.job.tree, tuple(self.board.nodes), {}):
            return self.board.journal[mark:]
        self.board.rollback(mark)
        return []

    def _inner(self, inner: Inner, nodes: tuple[str, ...], scores: Scores) -> bool:
        leaves = inner.leaves()
        for place, own in self._places(inner.name, inner.constraint, leaves, nodes):
            mark = self.board.checkpoint()
            if all(self._child(child, place.nodes, own or scores) for child in inner.children):
                return True
            self.board.rollback(mark)
        return False

    def _child(self, child: Inner | Leaf, nodes: tuple[str, ...], scores: Scores) -> bool:
        if isinstance(child, Inner):
            return self._inner(child, nodes, scores)
        for place, own in self._places(child.name, child.constraint, (child,), nodes):
            mark = self.board.checkpoint()
            if self._fill(child, place.nodes, own or scores):
                return True
            self.board.rollback(mark)
        return False

    def _places(
        self,
        name: str,
        constraint: Constraint | None,
        leaves: Sequence[Leaf],
        nodes: tuple[str, ...],
    ) -> Iterator[tuple[Place, Scores | None]]:
        """Yield what the constraint of one node of the tree allows; without one, all of ``nodes``."""
        if constraint is None or not constraint.topology:
            yield Place(nodes), None
            return
        tree = self.trees.get(constraint.topology)
        pods = [pod for leaf in leaves for pod in self.tasks.get(leaf.name, ())]
        if tree is not None and not pods:
            yield Place(nodes), None
            return
        question = Question(
            group=self.job.name,
            subgroup=name,
            constraint=constraint,
            pods=pods,
            nodes=nodes,
            occupied=self._occupied(leaves),
        )
        subset = topology.subset(question, tree=tree, board=self.board)
        self.errors.extend(subset.errors)
        for place in subset.places:
            yield place, subset.scores

    def _occupied(self, leaves: Sequence[Leaf]) -> frozenset[str]:
        if not VERSIONS[self.version].anchors_everywhere:
            leaves = [leaf for leaf in leaves if self.tasks.get(leaf.name)]
        pods = [pod for leaf in leaves for pod in self.job.pods[leaf.name]]
        running = {pod.node for pod in pods if pod.state == "active" and pod.node is not None}
        earlier = {pod.uid for pod in pods} & self.job.placed
        if earlier:
            running.update(p.node for p in self.board.journal if p.pod.uid in earlier)
        return frozenset(running)

    def _fill(self, leaf: Leaf, nodes: Sequence[str], scores: Scores) -> bool:
        """Place a leaf's pods on these nodes; on failure the caller rolls back."""
        walks: dict[Hashable, _Walk] = {}
        for count, pod in enumerate(self.tasks.get(leaf.name, ())):
            if problem := self.board.before_nodes(pod) or self.board.missing_claim(pod):
                return self._failed(leaf, pod, count, problem)
            kind = (pod.shape, self.board.demands(pod))
            walk = walks.get(kind)
            if walk is None:
                own_texts = VERSIONS[self.version].own_claim_texts
                walk = walks[kind] = _Walk(self.board, pod.shape, nodes, scores, own_texts=own_texts)
            if not walk.place(pod):
                return self._failed(leaf, pod, count, messages.pod_message(walk.refusals()))
        return True

    def _failed(self, leaf: Leaf, pod: Pod, count: int, why: str) -> bool:
        self.pod_errors[pod.uid] = why
        leaves = self.job.tree.leaves()
        gang = any(leaf.min_member > 1 for leaf in leaves)
        running = sum(p.state == "active" for p in self.job.pods[leaf.name])
        if not gang or running >= leaf.min_member:
            text = f"Resources were not found for pod {pod.namespace}/{pod.name} due to: {why}"
        elif len(leaves) == 1 and leaf.name == DEFAULT:
            text = (
                f"Resources were found for {count} pods while {leaf.min_member} are required "
                f"for gang scheduling. Additional pods cannot be scheduled due to: {why}"
            )
        else:
            text = (
                f"Resources were found for {count} pods from all sub-groups while sub-group {leaf.name} "
                f"requires {leaf.min_member} pods for gang scheduling. "
                f"Additional pods cannot be scheduled in this sub-group due to: {why}"
            )
        self.errors.append(FitError(POD_ERRORS, (text,)))
        return False


class _Walk:
    """The nodes one shape may go to, in order, with a cursor that never turns back."""

    def __init__(
        self, board: Board, shape: Shape, nodes: Sequence[str], scores: Scores, *, own_texts: bool
    ) -> None:
        self.board, self.shape, self.all, self.own_texts = board, shape, nodes, own_texts
        wants_gpu = bool(dict(shape.requests).get(GPU))
        measure = GPU if wants_gpu else "cpu"

        def order(name: str) -> tuple[int, bool, int, str]:
            has_gpu = board.nodes[name].allocatable.get(GPU, 0) > 0
            return (-scores.get(name, 0), not wants_gpu and has_gpu, board.idle[name].get(measure, 0), name)

        self.nodes = sorted((n for n in nodes if board.refusal(n, shape) is None), key=order)
        self.cursor = {False: 0, True: 0}

    def place(self, pod: Pod) -> bool:
        """Place on idle room if there is any, otherwise on room that is being released."""
        return self._place(pod, releasing=False) or self._place(pod, releasing=True)

    def _place(self, pod: Pod, *, releasing: bool) -> bool:
        while self.cursor[releasing] < len(self.nodes):
            name = self.nodes[self.cursor[releasing]]
            if not self.board.lacking(name, self.shape, releasing=releasing):
                allocations = self.board.allocate_claims(pod, name, releasing=releasing)
                if allocations is not None:
                    self.board.place(pod, name, pipelined=releasing, allocations=allocations)
                    return True
            self.cursor[releasing] += 1
        return False

    def refusals(self) -> Iterator[str]:
        """Progress for every node why it cannot take one more."""
        for name in self.all:
            if refusal := self.board.refusal(name, self.shape):
                yield refusal
            elif short := self.board.lacking(name, self.shape, releasing=True):
                yield from short
            else:
                own = f"cannot allocate all DRA claims on node {name}"
                yield own if self.own_texts else "cannot allocate all claims"
