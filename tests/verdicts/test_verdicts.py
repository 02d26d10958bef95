"""The verdict against real schedulers, on small clusters drawn at random.

All worlds stand in one cluster at once, each with nodes of its own. In each round every world gets one more
gang: the verdict is given, the objects are made as the service makes them, and the scheduler places the gang
or does not. A gang without places goes again. ``FIT_SEED``, ``FIT_WORLDS`` and ``FIT_GANGS`` draw others.
"""

import os
import random
import sys
import time
from collections import Counter

import pytest

from scheduling.fit.verdict import Answer
from tests.verdicts.schedulers import KueueScheduler, NativeScheduler
from tests.verdicts.standing import SECONDS, SEED, stand_up, threads
from tests.verdicts.worlds import draw_group, draw_world

QUIET = 2.0  # seconds in which a gang that the verdict gave no room gets none


@pytest.fixture(params=[NativeScheduler, KueueScheduler], ids=lambda made: made.name)
def scheduler(request, cluster_api, namespace):
    if request.param is KueueScheduler:
        request.getfixturevalue("kueue")
    return request.param(cluster_api, namespace)


def is_sure(verdict):
    return verdict.answer is Answer.NOW and not hangs_on_order(verdict)


def hangs_on_order(verdict):
    """Whether the verdict itself says that another order, or chance, would end otherwise."""
    return verdict.another_order or (verdict.answer is Answer.NOW and not verdict.proven)


def settle(scheduler, gangs, verdicts):
    """Wait until the scheduler has said something of each gang, and those are placed that are sure to be."""
    until = time.monotonic() + SECONDS
    while True:
        scheduler.look()
        silent = [world.name for world, group in gangs if not scheduler.said(group)]
        unplaced = [
            world.name
            for world, group in gangs
            if is_sure(verdicts[world.name]) and scheduler.places(world, group) is None
        ]
        if not silent and (not unplaced or time.monotonic() > until):
            break
        assert not silent or time.monotonic() < until, f"nothing was said of the gangs of {silent}"
        time.sleep(0.2)
    time.sleep(QUIET)
    scheduler.look()


class Tally:
    """How often verdict and scheduler agreed, and what was asked where they did not."""

    def __init__(self):
        self.agreed, self.chance, self.wrong, self.same_nodes = Counter(), Counter(), [], Counter()

    def add(self, scheduler, world, group, verdict):
        places = scheduler.places(world, group)
        if hangs_on_order(verdict):
            self.chance["placed" if places else "not placed"] += 1
        elif (places is not None) == (verdict.answer is Answer.NOW):
            self.agreed[verdict.answer.value] += 1
        else:
            text = f"{verdict.answer} but {scheduler.bound(group)} placed, {scheduler.words(group)}"
            self.wrong.append(f"{text}\n{world.picture(group)}")
        if places and verdict.answer is Answer.NOW:
            self.same_nodes[sorted(places.values()) == sorted(verdict.places.values())] += 1
        return places

    def text(self):
        total = self.agreed.total() + len(self.wrong)
        return (
            f"seed {SEED}: agreed {self.agreed.total()} of {total}: {dict(self.agreed)}; "
            f"left to chance: {dict(self.chance)}; the very nodes: {dict(self.same_nodes)}"
        )


def compare(scheduler, namespace, add_nodes, *, worlds, gangs):
    chance = random.Random(SEED)
    where = {"scheduler": scheduler.name, "version": scheduler.version, "namespace": namespace}
    channels = scheduler.has_channels
    drawn = [
        draw_world(chance, name=f"{namespace[-6:]}-{number}", channels=channels, **where)
        for number in range(worlds)
    ]
    stand_up(drawn, namespace, add_nodes, scheduler)
    tally = Tally()
    for _ in range(gangs):
        asked = [
            (world, draw_group(chance, world, shapes=scheduler.shapes, channels=channels)) for world in drawn
        ]
        verdicts = {world.name: world.verdict(group) for world, group in asked}
        threads(lambda gang: scheduler.create(*gang), asked)
        settle(scheduler, asked, verdicts)
        gone = []
        for world, group in asked:
            if places := tally.add(scheduler, world, group, verdicts[world.name]):
                world.hold(group, places)
            else:
                gone.append(group)
        threads(scheduler.remove, gone)
    return tally


SIZES = [
    pytest.param((12, 2), id="few"),
    pytest.param(
        (int(os.environ.get("FIT_WORLDS", "100")), int(os.environ.get("FIT_GANGS", "5"))),
        id="many",
        marks=pytest.mark.deep,
    ),
]


@pytest.mark.parametrize("size", SIZES)
def test_a_scheduler_places_what_the_verdict_promises(scheduler, namespace, add_nodes, size):
    tally = compare(scheduler, namespace, add_nodes, worlds=size[0], gangs=size[1])
    sys.stdout.write(f"{tally.text()}\n")
    assert tally.wrong == [], "\n".join(tally.wrong)
    assert set(tally.agreed) == {"now", "not_now", "never"}
