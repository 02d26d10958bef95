"""How much room each domain of a map has for a set that waits. Pure."""

from pages.map.tree import PlacePath, SetRoom
from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import Verdict, rooms
from scheduling.gang.tree import ConstraintNode as TreeNode
from scheduling.topology.levels import Levels


def narrowest_set(verdict: Verdict, demand: GangDemand) -> TreeNode | None:
    """The set to compare with domains: the narrowest that no domain holds now, or that has a level at all."""
    bound = [node for node in demand.tree.root.walk() if node.constraint.required is not None]
    blocked = {set_verdict.path for set_verdict in verdict.blocked}
    return next((node for node in reversed(bound) if node.path in blocked), bound[-1] if bound else None)


def rooms_on_map(
    snapshot: Snapshot, demand: GangDemand, node: TreeNode, *, levels: Levels
) -> dict[tuple[int, PlacePath], SetRoom]:
    """The room by rank and path, if the map, whose boxes are of ``levels``, has the levels of the set."""
    rank = node.constraint.required
    if rank is None or snapshot.levels[: rank + 1] != levels[: rank + 1]:
        return {}
    return {
        (rank, room.path): SetRoom(node.size, max(0, node.size - room.missing), room.empty)
        for room in rooms(snapshot, demand, path=node.path)
    }
