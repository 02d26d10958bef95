"""Patience: a preference that is required for a while, then relaxed on the pending pod group.

At time t a preference that waits N seconds counts as required while N > t, and as a plain preference
afterwards. So a gang has one *stage* for each distinct N, and a last one. All stages share the nodes, names,
order and wrapping of the first, so pods keep their labels and only constraints are edited: a stage is the
first tree with some members relaxed, never a newly built tree. The time t counts from the moment when all
pods exist without a node and the cluster is reachable; reconcile keeps it.

Invariant: a constraint's narrowest level is the same in every stage (a relaxed requirement becomes a
preference of the same level), so every stage names the same Topology objects. Observed on KAI v0.13 and
v0.17: the scheduler applies edited constraints of a pending group in the next cycle.
"""

from collections.abc import Iterator
from dataclasses import replace

from scheduling.capabilities import Capabilities, Capability, lacking
from scheduling.errors import Fault, Path
from scheduling.gang.tree import ConstraintNode, ConstraintTree
from scheduling.sentences import in_seconds
from scheduling.topology.requirements import Gang, effective, place_of


def stage_begins(gang: Gang) -> tuple[float, ...]:
    """When each stage begins, in seconds of waiting; the first at 0, and the only one without patience."""
    waits = {r.required_for for task in effective(gang).tasks for r in task.requirements if not r.required}
    return (0.0, *sorted(waits - {0.0}))


def at_stage(tree: ConstraintTree, number: int) -> ConstraintTree:
    """The tree at one stage. Raises ValueError for a stage that the gang does not have."""
    begins = stage_begins(tree.gang)
    if not 0 <= number < len(begins):
        raise ValueError(f'"{tree.gang.name}" has {len(begins)} stages, so none is number {number}.')
    return tree if number == 0 else replace(tree, root=_relaxed(tree.root, begins[number]))


def _relaxed(node: ConstraintNode, seconds: float) -> ConstraintNode:
    return replace(
        node,
        members=tuple(replace(member, required=member.required_for > seconds) for member in node.members),
        sets=tuple(_relaxed(sub, seconds) for sub in node.sets),
    )


def check_patience(gang: Gang, *, capabilities: Capabilities, queue_timeout: float | None) -> Iterator[Fault]:
    """Refuse patience that the scheduler cannot hold, or that exceeds the gang's queue timeout.

    ``queue_timeout`` is in seconds, None for none. A missing capability refuses even where preferences may be
    ignored: for a while such a preference is required, and a required level is never dropped.
    """
    visited: set[tuple[Path, float]] = set()
    for task in effective(gang).tasks:
        for i, requirement in enumerate(task.requirements):
            seconds = requirement.wait_seconds
            where = (*place_of(task, i), "waitSeconds")
            if seconds is None or (where, seconds) in visited:
                continue
            visited.add((where, seconds))
            if Capability.TOPOLOGY_RELAX_PENDING not in capabilities:
                because = f'Key "{requirement.key}" is to be relaxed here after {in_seconds(seconds)}.'
                yield lacking(Capability.TOPOLOGY_RELAX_PENDING, capabilities, path=where, because=because)
            if queue_timeout is not None and seconds >= queue_timeout:
                message = (
                    f"waitSeconds is {seconds:.10g}, but a task group waits at most "
                    f"{in_seconds(queue_timeout)} for its place (queue_timeout): it would never "
                    "be relaxed. Write less than that."
                )
                yield Fault(where, "wait_beyond_queue_timeout", message)
