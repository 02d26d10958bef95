"""Trials of condition ``SchedulerDisagrees``: schedulers that are frozen are found, and no other is blamed.

On servers of their own, since the others share theirs. ``TRIAL_SEED`` draws other gangs and worlds, and
``TRIAL_WORLDS`` so many for each scheduler. There a scheduler has the time between two turns, much less than
the five minutes of the default.
"""

import os
import random
import sys
import time
from collections import Counter

import psycopg
import pytest

from tests.e2e.conftest import RACK, workflow
from tests.e2e.kueue_queues import Queues
from tests.e2e.left_gangs import condition_of, status_of
from tests.e2e.restless_worlds import RestlessWorld
from tests.e2e.stands import SCHEDULERS, stand

pytestmark = [pytest.mark.deep, pytest.mark.timeout(6000)]

SEED = int(os.environ.get("TRIAL_SEED", "7"))
WORLDS = int(os.environ.get("TRIAL_WORLDS", "100"))
AT_ONCE = 34
ROUNDS = 4
ROUND_SECONDS = 22.0
QUIET_SECONDS = 75.0
FROZEN_SECONDS = 65.0
LEFT = """
    SELECT uuid FROM workflows_taskgroup
     WHERE conditions @> '[{"type": "SchedulerDisagrees", "status": "True"}]'
"""


def left_in(stand):
    """The groups that say now that their scheduler leaves them waiting."""
    with psycopg.connect(stand.running.settings.database_url) as connection:
        return {uuid.hex for (uuid,) in connection.execute(LEFT)}


@pytest.fixture(scope="module")
def patient():
    with stand(seconds=15) as made:
        yield made


class Trial:
    """A gang that fits a pool of one scheduler, submitted before the scheduler is frozen or after."""

    def __init__(self, stand, chance, *, number, scheduler):
        self.world, self.scheduler, self.name = stand.world, scheduler, ""
        size, kind = chance.randint(1, 4), chance.choice(["required", "preferred"])
        self.pool = self.world.make_pool(f"{number}-{scheduler}", size=size, scheduler=scheduler)
        if scheduler == "kueue":
            Queues(self.world).make(self.pool, RACK)
        tasks = size if kind == "required" else 2 * size - 1
        self.text = workflow(
            ("g", [f"t{task}" for task in range(tasks)]),
            resources=f"one: {{gpu: 4, topology: [{{key: rack, requirementType: {kind}}}]}}",
        )
        busy = [f"{self.pool}-r{rack}-{chance.randrange(size)}" for rack in (0, 1)]
        for node in busy:
            self.world.view.block(node)
        self.freed = chance.choice(busy)
        # Kueue's webhooks are frozen with it, and Kubernetes' scheduler would evict others at once
        if scheduler == "kueue" or (scheduler == "kai" and chance.random() < 0.5):
            self.submit()
            self.world.wait_group(self.name, "g", "SCHEDULING")

    def submit(self):
        self.name = self.world.submit(self.pool, self.text)

    def let_it_fit(self):
        self.world.view.unblock(self.freed)
        if not self.name:
            self.submit()

    def status(self, status):
        """Wait until group and backend say so."""
        self.world.wait(lambda: condition_of(self.world, self.name)["status"], lambda found: found == status)
        path = f"/api/configs/backend/{self.world.backend}-{self.scheduler}"
        self.world.wait(lambda: status_of(self.world, path), lambda found: found == status)


@pytest.mark.parametrize("number", range(7))
def test_each_frozen_scheduler_is_found_and_nothing_is_said_of_it_afterwards(patient, number):
    chance = random.Random(SEED * 100 + number)
    trials = [Trial(patient, chance, number=number, scheduler=name) for name in SCHEDULERS]
    with patient.frozen():
        for trial in trials:
            trial.let_it_fit()
        for trial in trials:
            trial.status("True")
            patient.world.wait(
                lambda name=trial.name: patient.world.service.get(f"/api/workflow/{name}/explain")["groups"],
                lambda groups: groups[0]["why"] == "scheduler_disagrees",
            )
    for trial in trials:
        trial.world.wait_group(trial.name, "g", "RUNNING")
        trial.status("False")
        trial.world.service.cancel(trial.name)
        trial.world.wait_released(trial.name)


def watch(stand, worlds, seconds):
    """The gangs of these worlds that are called left within the time, each as it is then."""
    until, left = time.monotonic() + seconds, {}
    while time.monotonic() < until:
        stand.leases.check()
        stand.supervisor.check()
        called = left_in(stand) - left.keys()
        left |= {uuid: world.picture(uuid) for world in worlds for uuid in called & world.names.keys()}
        time.sleep(1)
    return left


def happenings(stand, chance, numbers):
    """Pools of each scheduler in which much happens, then nothing, and at last every scheduler is frozen."""
    worlds = [
        RestlessWorld(stand.world, chance, number=number, scheduler=name, is_bounded=chance.random() < 0.25)
        for number in numbers
        for name in SCHEDULERS
    ]
    alarms, counts = {}, Counter()
    for most, seconds in (*[(4, ROUND_SECONDS)] * ROUNDS, (0, QUIET_SECONDS)):
        for world in worlds:
            for _ in range(chance.randint(0, most)):
                world.act()
        alarms |= watch(stand, worlds, seconds)
    with stand.frozen():
        for world in worlds:
            world.open()
        left = watch(stand, worlds, FROZEN_SECONDS)
    for world in worlds:
        statuses = Counter(world.world.groups(name)["g"]["status"] for name in world.names.values())
        statuses["left by a frozen scheduler"] = len(left.keys() & world.names.keys())
        counts += Counter({f"{world.scheduler} {what}": n for what, n in (statuses + world.counts).items()})
    return list(alarms.values()), counts


def test_no_scheduler_is_blamed_that_works_whatever_others_do():
    alarms, counts = [], Counter()
    for first in range(0, WORLDS, AT_ONCE):
        with stand(seconds=1) as made:
            numbers = range(first, min(first + AT_ONCE, WORLDS))
            found, counted = happenings(made, random.Random(SEED * 1000 + first), numbers)
        alarms, counts = alarms + found, counts + counted
        title = f"seed {SEED}, {numbers.stop} worlds of each scheduler: {len(alarms)} alarms"
        sys.stdout.write("\n".join([f"{title}, {dict(sorted(counts.items()))}", *found, ""]))
    assert alarms == []
    assert all(counts[f"{name} left by a frozen scheduler"] for name in SCHEDULERS), counts
