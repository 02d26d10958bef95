"""Each row of the table of shapes on Kueue, tried on the real one: placed as promised, or refused."""

import time
from dataclasses import replace

import pytest

from localcluster import nodes
from localcluster.api import ApiError
from scheduling.backends.kueue.version import release_at
from scheduling.capabilities import SchedulerVersion
from scheduling.fit.verdict import Answer
from tests.arch.kueue_capabilities import SHAPES, shape_answer, shape_gang
from tests.verdicts.schedulers import KueueScheduler
from tests.verdicts.worlds import LEVELS, MINE, Machine, World, group_of

RACKS = {"a1": 4, "a2": 4, "b1": 3, "b2": 3, "b3": 3}
"""Nodes of one GPU: the larger zone b has no rack for four tasks."""

SECONDS = 20.0
RELEASE = release_at(SchedulerVersion(0, 17))


@pytest.fixture
def world(add_nodes, namespace, kueue):
    name = f"{namespace[-6:]}-rows"
    wanted = [
        nodes.Node(
            name=f"{name}-{rack}-{number}",
            labels={MINE: name, LEVELS[0].label: rack[0], LEVELS[1].label: rack},
            gpus=1,
        )
        for rack, count in RACKS.items()
        for number in range(count)
    ]
    machines = [Machine(node=node, held=0, cordoned=False) for node in add_nodes(wanted)]
    return World(name=name, machines=machines, scheduler="kueue", version="0.17", namespace=namespace)


@pytest.fixture
def scheduler(world, cluster_api, namespace):
    scheduler = KueueScheduler(cluster_api, namespace)
    scheduler.prepare(world)
    return scheduler


def asked(world, shape):
    """The group of a shape, in a pool that ignores preferences which cannot be held."""
    tasks = [(1, task.requirements) for task in shape_gang(shape).tasks]
    group = group_of(world, tasks)
    terms = replace(group.placement.terms, unsupported_preferred="warn")
    return replace(group, placement=replace(group.placement, terms=terms))


def placed(scheduler, world, group):
    until = time.monotonic() + SECONDS
    while (places := scheduler.places(world, group)) is None:
        assert time.monotonic() < until, scheduler.words(group)
        time.sleep(0.1)
        scheduler.look()
    return places


def domains(world, group, places, key, name):
    """The domains of a key in which the tasks of one of its sets stand."""
    rank = [level.key for level in LEVELS].index(key)
    where = {machine.node.name: machine.node.labels for machine in world.machines}
    return {
        tuple(where[places[task.name]][level.label] for level in LEVELS[: rank + 1])
        for task in group.tasks
        if any((r.key, r.group) == (key, name) for r in task.placement.requirements)
    }


def test_each_shape_is_placed_as_the_table_promises_or_refused(scheduler, world):
    answers = {shape: shape_answer(shape, RELEASE) for shape in SHAPES}
    for shape, answer in answers.items():
        group = asked(world, shape)
        if answer.startswith("refused"):
            if "max_pod_sets" in answer:  # so does Kueue's own definition
                with pytest.raises(ApiError, match="must have at most 8 items"):
                    scheduler.create(world, group)
            continue
        verdict = world.verdict(group)
        assert verdict.answer is Answer.NOW, shape
        group = group.in_form(pins=verdict.pins) if verdict.pins else group
        assert bool(verdict.pins) == answer.startswith("held by us"), shape
        scheduler.create(world, group)
        places = placed(scheduler, world, group)
        sets = {(r.key, r.group, r.required) for t in group.tasks for r in t.placement.requirements}
        for key, name, required in sets:
            if required or (key == "rack" or "ignored" not in answer):
                assert len(domains(world, group, places, key, name)) == 1, (shape, key, name, places)
        scheduler.remove(group)
    words = {answer.split(":")[0].split(";")[0] for answer in answers.values()}
    assert {"accepted", "held by us", "refused", "2 pod sets"} <= words
