"""Whether one workload fits now: a flavor for each resource, its quota, a place for each pod set."""

from collections.abc import Mapping, Sequence

from localcluster.standins.kueue import place
from localcluster.standins.kueue.board import Board
from localcluster.standins.kueue.place import DoesNotFit
from localcluster.standins.kueue.values import (
    PODS,
    Admission,
    Assignment,
    ClusterQueue,
    Flavor,
    FlavorQuota,
    PodSet,
    PodSetAdmission,
    Request,
    Workload,
)
from localcluster.standins.quantities import UNIT

Used = dict[tuple[str, str], int]
"""By flavor and resource: what earlier pod sets of the workload take."""


class LevelMissing(DoesNotFit):
    """The Topology has no such level: Kueue leaves such a workload without a word."""


def assign(board: Board, queue: ClusterQueue, workload: Workload) -> Admission:
    """Return the admission that fits beside all on the board; raises DoesNotFit."""
    used: Used = {}
    chosen = {each.name: _flavors(board, queue, each, used) for each in workload.pod_sets}
    places = _places(board, workload, chosen)
    return Admission(
        queue.name,
        tuple(
            PodSetAdmission(
                name=each.name,
                count=each.count,
                flavors=tuple(sorted(chosen[each.name].items())),
                usage=tuple(sorted(_total(each, chosen[each.name]).items())),
                assignment=places.get(each.name),
            )
            for each in workload.pod_sets
        ),
    )


def failure(pod_set: PodSet, reason: object) -> DoesNotFit:
    text = f"couldn't assign flavors to pod set {pod_set.name}: {reason}"
    return LevelMissing(text) if isinstance(reason, LevelMissing) else DoesNotFit(text)


def _total(pod_set: PodSet, flavors: Mapping[str, str]) -> dict[str, int]:
    single = place.single(pod_set.requests) if PODS in flavors else pod_set.requests
    return place.times(single, pod_set.count)


def _flavors(board: Board, queue: ClusterQueue, pod_set: PodSet, used: Used) -> dict[str, str]:
    """The first flavor of each resource group with enough quota, by resource."""
    chosen: dict[str, str] = {}
    demand = {name: amount for name, amount in pod_set.requests.items() if amount}
    for covered, flavors in queue.groups:
        amounts = {name: demand[name] * pod_set.count for name in covered if name in demand}
        if PODS in covered:
            amounts[PODS] = UNIT * pod_set.count
        if not amounts:
            continue
        name = _flavor(board, queue, pod_set, flavors, amounts, used=used)
        chosen |= dict.fromkeys(amounts, name)
        for resource, amount in amounts.items():
            used[name, resource] = used.get((name, resource), 0) + amount
    if missing := sorted(demand.keys() - chosen.keys()):
        raise failure(pod_set, f"resource {missing[0]} unavailable in ClusterQueue")
    return chosen


def _flavor(
    board: Board,
    queue: ClusterQueue,
    pod_set: PodSet,
    flavors: Sequence[FlavorQuota],
    amounts: Mapping[str, int],
    *,
    used: Used,
) -> str:
    reasons: list[DoesNotFit] = []
    resource_flavors = {each.name: each for each in board.snapshot.flavors}
    implied = pod_set.request is None and _topology_only(queue, resource_flavors)
    for quota in flavors:
        try:
            _suits(board, resource_flavors[quota.name], pod_set, implied=implied)
            _within_quota(board, queue, quota, amounts, used)
        except DoesNotFit as reason:
            reasons.append(reason)
        else:
            return quota.name
    if reasons and all(isinstance(reason, LevelMissing) for reason in reasons):
        raise failure(pod_set, reasons[0])
    raise failure(pod_set, ", ".join(str(reason) for reason in reasons))


def _topology_only(queue: ClusterQueue, resource_flavors: Mapping[str, Flavor]) -> bool:
    return all(resource_flavors[flavor.name].topology for _, flavors in queue.groups for flavor in flavors)


def _suits(board: Board, flavor: Flavor, pod_set: PodSet, *, implied: bool) -> None:
    tolerations = (*pod_set.tolerations, *flavor.tolerations)
    for taint in flavor.taints:
        if taint.effect != "PreferNoSchedule" and not any(each.tolerates(taint) for each in tolerations):
            raise DoesNotFit(
                f"untolerated taint {taint.key}={taint.value}:{taint.effect} in flavor {flavor.name}"
            )
    if any(flavor.labels.get(key, value) != value for key, value in pod_set.selector):
        raise DoesNotFit(f"flavor {flavor.name} doesn't match node affinity")
    if pod_set.request is not None:
        if flavor.topology is None:
            raise DoesNotFit(f'Flavor "{flavor.name}" does not support TopologyAwareScheduling')
        tree = board.tree(flavor.name)
        if tree is None or not place.has_levels(tree.topology, pod_set.request):
            raise LevelMissing(f'Flavor "{flavor.name}" does not contain the requested level')
    elif flavor.topology is not None and not implied:
        raise DoesNotFit(f'Flavor "{flavor.name}" supports only TopologyAwareScheduling')


def _within_quota(
    board: Board, queue: ClusterQueue, quota: FlavorQuota, amounts: Mapping[str, int], used: Used
) -> None:
    nominal = dict(quota.nominal)
    for resource, amount in sorted(amounts.items()):
        limit, before = nominal.get(resource, 0), used.get((quota.name, resource), 0)
        if before + amount > limit:
            raise DoesNotFit(
                f"insufficient quota for {resource} in flavor {quota.name}, previously considered podsets "
                f"requests ({written(before)}) + current podset request ({written(amount)}) > "
                f"maximum capacity ({written(limit)})"
            )
        reserved = board.quota.get((queue.name, quota.name, resource), 0)
        if (more := reserved + before + amount - limit) > 0:
            raise DoesNotFit(
                f"insufficient unused quota for {resource} in flavor {quota.name}, "
                f"{written(more)} more needed"
            )


def written(amount: int) -> str:
    """An amount as a Kubernetes quantity."""
    quotient, rest = divmod(amount, UNIT)
    return f"{amount}m" if rest else str(quotient)


def _places(
    board: Board, workload: Workload, chosen: Mapping[str, Mapping[str, str]]
) -> dict[str, Assignment]:
    """A place for each pod set in order, each beside those before it."""
    places: dict[str, Assignment] = {}
    usage: dict[str, place.LeafUsage] = {}
    for members in _groups(workload.pod_sets):
        flavors = sorted(set(chosen[members[0].name].values()))
        if len(flavors) > 1:  # Kueue v0.19 tas_flavorassigner.go: a place is looked for in one flavor
            raise failure(members[0], f"more than one flavor assigned: {', '.join(flavors)}")
        flavor = flavors[0] if flavors else ""
        if (tree := board.tree(flavor)) is None:
            continue
        before = usage.get(flavor, board.usage(tree))
        try:
            if len(members) == 1:
                assignments = [place.find(tree, members[0], usage=before)]
            else:
                assignments = list(place.find_group(tree, *members, usage=before))
        except DoesNotFit as reason:
            raise failure(members[0], reason) from reason
        for pod_set, assignment in zip(members, assignments, strict=True):
            places[pod_set.name] = assignment
            before = place.plus(tree, before, assignment, pod_set)
        usage[flavor] = before
    return places


def _groups(pod_sets: Sequence[PodSet]) -> list[list[PodSet]]:
    """Pod sets that are placed together: of a named group the larger (or first) one and its leader."""
    groups: dict[str, list[PodSet]] = {}
    for pod_set in pod_sets:
        name = (pod_set.request or Request()).group
        groups.setdefault(f"group {name}" if name else f"pod set {pod_set.name}", []).append(pod_set)
    return [sorted(members[:2], key=lambda member: -member.count) for members in groups.values()]
