"""The verdicts on gangs that others submitted, against real schedulers, in clusters drawn at random.

In each turn a scheduler gets one gang in each world, put straight into the cluster. It may not act until the
service has explained all; then it places each or does not. Between turns nodes close and open, and pods of
others come and go. ``TRIAL_SEED`` draws others, ``TRIAL_WORLDS`` so many, ``TRIAL_TURNS`` for each scheduler.
"""

import os
import random
import sys
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace

import pytest

from localcluster import controlplane, nodes
from tests.e2e.stands import add_backend, stand
from tests.verdicts.gangs_of_others import NAMESPACE, ON_SCHEDULERS, own_label
from tests.verdicts.standing import threads
from tests.verdicts.worlds import GPUS, LEVELS, draw_world, holder

pytestmark = [pytest.mark.deep, pytest.mark.timeout(6000)]

SEED = int(os.environ.get("TRIAL_SEED", "7"))
WORLDS = int(os.environ.get("TRIAL_WORLDS", "100"))
TURNS = int(os.environ.get("TRIAL_TURNS", "3"))
PLACING_SECONDS = 60.0
QUIET_SECONDS = 6.0
HOLDERS = "/api/v1/namespaces/default/pods"
NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}


class Site:
    """All worlds in one cluster, with a backend of each scheduler that follows gangs of others."""

    def __init__(self, stand, chance):
        self.stand, self.world, self.api, self.chance = stand, stand.world, stand.world.api, chance
        controlplane.create_namespace(self.api, NAMESPACE)
        for on in ON_SCHEDULERS:
            more = {"composite_pod_groups": True} if on.name == "kubernetes" else {}
            add_backend(self.world, on.name, suffix="", namespace="trials", follow_others=True, **more)
        self.world.wait(
            lambda: self.world.service.get("/api/configs/backend/b-kubernetes")["conditions"],
            lambda found: any((c["type"], c["status"]) == ("CompositesHeld", "True") for c in found),
        )
        self.worlds = [self._stand_up(f"w{number}") for number in range(WORLDS)]

    def _stand_up(self, name):
        place = {"scheduler": "", "version": "", "namespace": "default"}
        world = draw_world(self.chance, name=name, channels=False, **place)
        world.machines = [replace(m, node=_apart(m.node, name)) for m in world.machines]
        made = [machine.node for machine in world.machines]
        nodes.create(self.api, made)
        nodes.wait_ready(self.api, made)
        for machine in world.machines:
            self._set(machine)
        for on in ON_SCHEDULERS:
            on.prepare(self.api, self.chance, world)
        return world

    def _set(self, machine):
        """A node is closed or open, and held by others, as the machine says."""
        self.api.patch(f"{nodes.PATH}/{machine.node.name}", {"spec": {"unschedulable": machine.cordoned}})
        self.api.delete(f"{HOLDERS}/held-{machine.node.name}", body=NOW)
        if machine.held:
            self.api.create(HOLDERS, holder("default", machine))

    def change(self, world):
        """One of its nodes is held otherwise, or closed or opened."""
        at = self.chance.randrange(len(world.machines))
        held, closed = self.chance.choice([0, 0, 1, 3, GPUS]), not world.machines[at].cordoned
        change = self.chance.choice([{"held": held}, {"cordoned": closed}])
        world.machines[at] = replace(world.machines[at], **change)
        self._set(world.machines[at])

    def turn(self, on, number):
        """The gangs, what the service says of each, and the names of those placed and never answered."""
        gangs = [on.draw(self.chance, world, f"g{number}-{on.name}-{world.name}") for world in self.worlds]
        with self.stand.frozen(on.name) if on.is_frozen else nullcontext():
            threads(lambda gang: [self.api.create(*each) for each in gang.objects], gangs)
            said = self._explained(on, gangs)
        threads(lambda gang: on.release(self.api, gang), gangs)
        sure = {gang.name for gang in gangs if expected(said[gang.name]) == "now"}
        until = time.monotonic() + PLACING_SECONDS
        while sure - on.placed(self.api, gangs) and time.monotonic() < until:
            time.sleep(0.5)
        time.sleep(QUIET_SECONDS)
        return gangs, said, on.placed(self.api, gangs), on.unanswered(self.api, gangs)

    def _explained(self, on, gangs):
        """What the service says of each, once it has said the same of all for a while."""
        names, before = {gang.name for gang in gangs}, {}

        def is_quiet(found):
            nonlocal before
            before, last = found, before
            time.sleep(3)
            return names <= found.keys() and found == last

        self.world.wait(lambda: self._listed(on), is_quiet)
        path = f"/api/cluster/b-{on.name}/group/{NAMESPACE}"
        return {name: self.world.service.get(f"{path}/{name}") for name in names}

    def _listed(self, on):
        """All gangs of others that wait, by name."""
        listed, more = {}, True
        while more:
            query = {"limit": 100, "offset": len(listed)}
            page = self.world.service.call("GET", f"/api/cluster/b-{on.name}/waiting", **query)
            listed |= {entry["name"]: (entry["verdict"], entry["tasks"]) for entry in page["groups"]}
            more = page["more_entries"]
        return listed

    def clear(self, on, gangs):
        """Remove the gangs, and wait until nothing of them is known."""
        paths = [f"{path}/{body['metadata']['name']}" for gang in gangs for path, body in gang.objects]
        threads(lambda path: self.api.delete(path, body=NOW), paths)
        for path in on.collections:
            self.world.wait(lambda path=path: self.api.list(path)[0], lambda found: not found)
        self.world.wait(lambda: self._listed(on), lambda found: not found)


def _apart(node, name):
    """A node whose zone and rack are in no other world."""
    places = {level.label: node.labels.get(level.label) for level in LEVELS}
    places = {label: f"{name}-{place}" for label, place in places.items() if place}
    own = {own_label(name, label): place for label, place in places.items()}
    return replace(node, labels={**node.labels, **places, **own})


def expected(said):
    """What the service says of a gang: placed, not placed, or nothing for certain."""
    fit, faults = said["feasibility"], [fault for fault in said["faults"] if "spec.active" not in fault]
    if faults:
        return "fault"
    if said["not_examined"]:
        return f"{said['verdict']}, not all examined"
    if fit["another_order"] or (said["verdict"] == "now" and not fit["proven"]):
        return f"{said['verdict']}, by chance"
    return said["verdict"]


def test_a_scheduler_places_those_gangs_of_others_of_which_the_service_says_so():
    counts, wrong = Counter(), []
    with stand(seconds=300) as made:
        site = Site(made, random.Random(SEED))
        for number in range(TURNS):
            for on in ON_SCHEDULERS:
                gangs, said, placed, unanswered = site.turn(on, number)
                for world, gang in zip(site.worlds, gangs, strict=True):
                    answer, is_placed = expected(said[gang.name]), gang.name in placed
                    answer = "unanswered" if answer == "now" and gang.name in unanswered else answer
                    counts[f"{on.name}: {answer}: {'' if is_placed else 'not '}placed"] += 1
                    if answer in ("now", "not_now", "never", "fault") and is_placed != (answer == "now"):
                        wrong.append(picture(world, gang, said[gang.name], is_placed))
                site.clear(on, gangs)
                for world in site.worlds:
                    site.change(world)
    sys.stdout.write(f"seed {SEED}, {WORLDS} worlds, {TURNS} turns: {dict(sorted(counts.items()))}\n")
    assert wrong == [], "\n\n".join(wrong)
    assert all(counts[f"{on.name}: now: placed"] for on in ON_SCHEDULERS), counts


def picture(world, gang, said, is_placed):
    """What there is to see of a gang of which the verdict was wrong."""
    bodies = [f"{body['metadata']['name']} {body['spec']}" for path, body in gang.objects]
    told = [said[name] for name in ("verdict", "sentence", "faults", "not_examined", "scheduler_report")]
    machines = [f"{m.node} held={m.held} cordoned={m.cordoned}" for m in world.machines]
    lines = [f"{gang.shape} {gang.name} needs {gang.least}, placed={is_placed}: {told}", *machines, *bodies]
    return "\n  ".join(lines)
