"""Groups that are evicted and at once made anew, as a service does that brings them back: it comes to rest.

Each of two queues has some groups of the lowest priority. An evicted one is replaced by a group that is the
youngest, in the next cycle.
"""

import dataclasses
import itertools

import pytest

from localcluster.standins.kai.values import Queue, QueueLimit
from localcluster.standins.quantities import UNIT
from tests.standins.worlds import UNLIMITED, after, group, pods, run, shape, world

CYCLES = 8
NODES = "a/r1: n1 n2 n3"
QUOTAS, SIZES = (0, 4, 8, 12), (1, 2, 3)


def queue(name, quota):
    limit = QueueLimit(quota=quota * UNIT if quota >= 0 else -1, limit=-1)
    return Queue(name, cpu=UNLIMITED, memory=UNLIMITED, gpu=limit)


def contest(*gangs, **quotas):
    """Three nodes of four GPUs; each gang is a queue and a number of nodes, the oldest first."""
    groups, members = [], []
    for number, (own, count) in enumerate(gangs):
        name = f"g{number}"
        groups.append(group(name, min_member=count, created=f"t{number:04}", queue=own))
        members += pods(count, f"{name}-", group=name, shape=shape(4))
    queues = tuple(queue(name, quota) for name, quota in quotas.items())
    return world(NODES, gpus=4, queues=queues, groups=tuple(groups), pods=tuple(members))


def made_anew(snapshot, decisions, cycle):
    """The next snapshot; what was evicted is there again, as a younger group that waits."""
    lost = {eviction.pod.group for eviction in decisions.evictions}
    following = after(snapshot, decisions)
    groups = tuple(
        dataclasses.replace(each, created=f"u{cycle:04}-{each.name}", uid=f"{each.uid}.{cycle}")
        if each.name in lost
        else each
        for each in following.groups
    )
    others = tuple(each for each in following.pods if each.group not in lost)
    waiting = tuple(
        dataclasses.replace(each, state="pending", node=None, uid=f"{each.uid}.{cycle}")
        for each in snapshot.pods
        if each.group in lost
    )
    return dataclasses.replace(following, groups=groups, pods=(*others, *waiting))


def evicted(snapshot):
    """The groups that are evicted in each of some cycles."""
    by_cycle = []
    for cycle in range(CYCLES):
        decisions = run(snapshot)
        by_cycle.append({each.pod.group for each in decisions.evictions})
        snapshot = made_anew(snapshot, decisions, cycle)
    return by_cycle


@pytest.mark.parametrize("quotas", [*itertools.product(QUOTAS, repeat=2)])
def test_two_groups_that_want_the_same_room_come_to_rest(quotas):
    for sizes in itertools.product(SIZES, repeat=2):
        by_cycle = evicted(contest(*zip("pq", sizes, strict=True), p=quotas[0], q=quotas[1]))
        assert not any(by_cycle[2:]), (sizes, by_cycle)


def test_behind_a_group_above_its_quota_another_takes_the_same_room_again_and_again():
    """KAI orders queues by their first group alone, so what was evicted is placed first once more.

    No attempt is bounded by the scheduler: a service that brings groups back has to pause.
    """
    by_cycle = evicted(contest(("p", 3), ("q", 4), ("q", 1), p=6, q=4))
    assert by_cycle == [set(), *[{"g0"}, set()] * (CYCLES // 2)][:CYCLES]
