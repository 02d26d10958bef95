"""What a cluster holds against what its groups' rows say."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from doctor.facts import Facts, Finding, GroupRow, Limits, Repair, Seen, Thing, TryRow
from doctor.rules.rows import LIVE, about

COMPUTE_DOMAIN = "ComputeDomain.resource.nvidia.com"
CLAIM = "ResourceClaim.resource.k8s.io"
TEMPLATE = "ResourceClaimTemplate.resource.k8s.io"
SECOND = timedelta(seconds=1)
MADE = ("SCHEDULING", "INITIALIZING", "RUNNING")


def object_rules(facts: Facts, limits: Limits) -> Iterator[Finding]:
    for seen in facts.seen:
        of_group: dict[UUID | None, list[Thing]] = defaultdict(list)
        for thing in seen.things:
            if not thing.is_shared:
                of_group[_owner(thing, facts)].append(thing)
        for uuid, things in of_group.items():
            group = facts.groups.get(uuid) if uuid else None
            yield from _unwanted(seen, facts, group, things, limits)
            yield from _two_pods(seen, group, things)
            yield from _ending_under_pods(seen, group, things)
            if group is not None and group.released_at is None:
                yield from _twice(seen, group, things)
                yield from _in_part(facts, seen, group, things, limits)
        for group in facts.groups.values():
            if group.cluster == seen.cluster and group.released_at is None:
                yield from _vanished(seen, group, of_group.get(group.uuid, ()))


def _owner(thing: Thing, facts: Facts) -> UUID | None:
    return facts.owners.get(thing.pod, thing.group) if thing.pod else thing.group


def _unwanted(
    seen: Seen, facts: Facts, group: GroupRow | None, things: Sequence[Thing], limits: Limits
) -> Iterator[Finding]:
    """Objects without a row that wants them, in the place where it wants them."""
    tries = {one.pod_name for one in group.tries} if group else set()
    for thing in things:
        since = max(filter(None, (thing.created, group.released_at if group else None)), default=None)
        old = since is None or facts.now - since > limits.orphan
        if group is None:
            if thing.api not in (CLAIM, TEMPLATE) and old:  # others make those, maybe for other people
                yield _leaked(seen, thing, "unknown", "no task group wants it", since=since, group=group)
        elif group.released_at is not None:
            yield from _after_release(seen, group, thing, since=since, old=old)
        elif group.cluster != seen.cluster or thing.namespace != group.namespace:
            if old:
                place = f"{group.namespace} of cluster {group.cluster}"
                yield _leaked(
                    seen, thing, "elsewhere", f"its group belongs in {place}", since=since, group=group
                )
        elif not group.touched:
            if old:
                yield _leaked(
                    seen, thing, "untouched", "its group was never begun there", since=since, group=group
                )
        elif thing.kind == "Pod" and tries and thing.name not in tries and old:
            yield _leaked(
                seen, thing, "stranger", "it is of no try of a task of its group", since=since, group=group
            )


def _after_release(
    seen: Seen, group: GroupRow, thing: Thing, *, since: datetime | None, old: bool
) -> Iterator[Finding]:
    released = group.released_at
    if released is None or released >= seen.began:
        return  # it may have gone between the list and the release
    if thing.created is not None and thing.created < released:
        message = f"Released at {released:%H:%M:%S}, and its {thing.label} is still there."
        yield about(
            group,
            kind="lost",
            rule="released-early",
            message=message,
            since=released,
            obj=thing.label,
            repair=_sweeps(thing),
        )
    elif old:
        yield _leaked(seen, thing, "released", "its group was released", since=since, group=group)


def _leaked(
    seen: Seen, thing: Thing, rule: str, why: str, *, since: datetime | None, group: GroupRow | None
) -> Finding:
    ending = ", and is being deleted" if thing.deleting_since else ""
    return Finding(
        kind="leaked",
        rule=rule,
        message=f"{thing.label} is there though {why}{ending}.",
        since=since,
        backend=seen.backend,
        workflow=group.workflow if group else "",
        group=group.name if group else str(thing.group or ""),
        object=thing.label,
        repair=_sweeps(thing) if rule in ("unknown", "released") else "",
        cluster=seen.cluster,
        group_uuid=thing.group,
    )


def _sweeps(thing: Thing) -> Repair:
    """The sweep deletes what we made for a group; what others made goes with it.

    What names no group it never touches: that is for somebody to look at.
    """
    left = thing.deleting_since or thing.api in (CLAIM, TEMPLATE) or thing.group is None
    return "" if left else "sweep"


def _two_pods(seen: Seen, group: GroupRow | None, things: Sequence[Thing]) -> Iterator[Finding]:
    pods: dict[str, list[Thing]] = defaultdict(list)
    for thing in things:
        if thing.kind == "Pod" and thing.task and thing.active and not thing.deleting_since:
            pods[thing.task].append(thing)
    for same in pods.values():
        if len(same) > 1:
            names = ", ".join(sorted(f"{one.namespace}/{one.name}" for one in same))
            yield Finding(
                kind="doubled",
                rule="pods",
                message=f"{len(same)} pods of one task at once: {names}.",
                since=max(filter(None, (one.created for one in same)), default=None),
                backend=seen.backend,
                workflow=group.workflow if group else "",
                group=group.name if group else "",
                object=names,
                cluster=seen.cluster,
                group_uuid=same[0].group,
            )


def _twice(seen: Seen, group: GroupRow, things: Sequence[Thing]) -> Iterator[Finding]:
    """One ComputeDomain for each group, one pod group for each attempt and set."""
    del seen
    domains = [one for one in things if one.api == COMPUTE_DOMAIN]
    if len(domains) > 1:
        yield _doubled(group, "compute-domains", domains)
    if not group.pod_group:
        return
    same: dict[str, list[Thing]] = defaultdict(list)
    for thing in things:
        if thing.is_pod_group:
            same[_attempt(thing, group)].append(thing)
    for many in same.values():
        forms = {one.name.count("-") for one in many}
        if len({(one.api, one.namespace) for one in many}) > 1 or len(forms) > 1 or _whole_twice(many):
            yield _doubled(group, "pod-groups", many)


def _attempt(thing: Thing, group: GroupRow) -> str:
    """The attempt in a pod group's name, which is ``<group>[-<attempt>[-<set>]]``."""
    rest = thing.name.removeprefix(group.uuid.hex).strip("-")
    return rest.partition("-")[0] if thing.name.startswith(group.uuid.hex) else thing.name


def _whole_twice(many: Sequence[Thing]) -> bool:
    return len(many) > 1 and len({one.name for one in many}) < len(many)


def _doubled(group: GroupRow, rule: str, many: Sequence[Thing]) -> Finding:
    labels = ", ".join(sorted(f"{one.api} {one.namespace}/{one.name}" for one in many))
    message = f"{len(many)} for one group and attempt: {labels}."
    since = max(filter(None, (one.created for one in many)), default=None)
    return about(group, kind="doubled", rule=rule, message=message, since=since, obj=labels)


def _in_part(
    facts: Facts, seen: Seen, group: GroupRow, things: Sequence[Thing], limits: Limits
) -> Iterator[Finding]:
    """A gang is there as a whole, or is being completed or taken down for no longer than the limit."""
    pods = [one for one in things if one.kind == "Pod" and one.active and not one.deleting_since]
    since = min(filter(None, (one.created for one in pods)), default=None)
    old = since is None or facts.now - since > limits.half_made
    if pods and old and group.pod_group and not any(one.api == group.pod_group for one in things):
        missing = "" if group.pod_group not in seen.missing else " (its kind is not served)"
        message = f"{len(pods)} pods are there without their pod group{missing}."
        yield about(
            group,
            kind="half-made",
            rule="no-pod-group",
            message=message,
            since=since,
            repair="nudge",
            unsure=True,
        )
    if pods and old and group.nvlink and not any(one.api == COMPUTE_DOMAIN for one in things):
        message = f"{len(pods)} pods of an NVLink group are there without a ComputeDomain."
        yield about(
            group,
            kind="half-made",
            rule="no-domain",
            message=message,
            since=since,
            repair="nudge",
            unsure=True,
        )
    yield from _fewer_pods(facts, group, things, limits)


def _fewer_pods(facts: Facts, group: GroupRow, things: Sequence[Thing], limits: Limits) -> Iterator[Finding]:
    there = {one.name for one in things if one.kind == "Pod"}
    waits = [one for one in group.tries if one.latest and one.status == "PROCESSING"]
    began = [one.processing_since or group.processing_since or group.submitted for one in waits]
    if group.status not in LIVE or not waits or facts.now - max(began) <= limits.half_made:
        return
    absent = [one for one in waits if one.pod_name not in there]
    message = (
        f"{len(absent)} of {_latest(group)} pods are not made while other objects of the group are there."
    )
    if group.waiting:
        message += f" {group.waiting}"
    yield about(group, kind="half-made", rule="fewer-pods", message=message, since=max(began), repair="nudge")


def _latest(group: GroupRow) -> int:
    return sum(one.latest for one in group.tries)


def _vanished(seen: Seen, group: GroupRow, things: Sequence[Thing]) -> Iterator[Finding]:
    """Tasks that go on according to their rows, without a pod that does."""
    pods = {one.name: one for one in things if one.kind == "Pod" and one.namespace == group.namespace}
    for one in group.tries:
        if not (one.latest and one.status in MADE) or not _before(one, group, seen):
            continue
        pod = pods.get(one.pod_name)
        if pod is None:
            message = f"Task {one.name} is {one.status} and its pod {one.pod_name} is gone."
        elif not pod.active:
            message = f"Task {one.name} is {one.status} and its pod {one.pod_name} is {pod.phase}."
        else:
            continue
        yield about(
            group,
            kind="lost",
            rule="unnoticed",
            message=message,
            since=None,
            obj=f"Pod {group.namespace}/{one.pod_name}",
            repair="nudge",
            unsure=True,
        )


def _before(one: TryRow, group: GroupRow, seen: Seen) -> bool:
    """Whether the pod was made before the cluster was listed."""
    made = one.scheduling_since or group.scheduling_since
    return made is not None and made < seen.began


def _ending_under_pods(seen: Seen, group: GroupRow | None, things: Sequence[Thing]) -> Iterator[Finding]:
    """A ComputeDomain must outlive the pods that use it.

    Pods are listed before it: one whose end began during the list may have waited for them.
    """
    running = [one for one in things if one.kind == "Pod" and one.active and one.node]
    for domain in things:
        if domain.api != COMPUTE_DOMAIN or domain.deleting_since is None or not running:
            continue
        if domain.deleting_since + SECOND > seen.began:  # the cluster writes whole seconds
            continue
        yield Finding(
            kind="unsafe",
            rule="domain-ending",
            message=f"{domain.label} is being deleted and {len(running)} pods of its group are on nodes.",
            since=domain.deleting_since,
            backend=seen.backend,
            workflow=group.workflow if group else "",
            group=group.name if group else str(domain.group or ""),
            object=domain.label,
            cluster=seen.cluster,
            group_uuid=domain.group,
            unsure=True,
        )
