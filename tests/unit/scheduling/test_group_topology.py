"""A task group's own topology: what it binds, what its tasks may add, and what contradicts it."""

from textwrap import dedent

import pytest
from hypothesis import given

from scheduling.backends.default import Default
from scheduling.backends.kai import Kai
from scheduling.backends.kueue import Kueue
from scheduling.errors import format_path
from scheduling.gang.nvlink import ChannelClaim, check_nvlink
from scheduling.gang.soundness import check_requirements
from scheduling.topology.levels import Level
from scheduling.topology.requirements import effective
from tests.unit.scheduling.build import gang, levels, request
from tests.unit.scheduling.gangs import grouped
from tests.unit.scheduling.picture import picture

KAI = Kai()
POOL = levels("zone spine rack")

TREES = {
    "it binds all tasks, those with requirements of their own included": (
        gang("a b: rack! r1", "c d: rack! r2", "e", topology="zone! z"),
        """
        gang | required zone preferred zone on [zone]
          00 | required rack preferred rack on [zone spine rack] | min 2: a b
          01 | required rack preferred rack on [zone spine rack] | min 2: c d
          02 free | min 1: e
        """,
    ),
    "a task may leave it": (
        gang("a b", "c: -", topology="rack! r"),
        """
        gang
          00 | required rack preferred rack on [zone spine rack] | min 2: a b
          01 free | min 1: c
        """,
    ),
    "it may be several keys, and a preference": (
        gang("a b", "c: rack? r", topology="spine? s, zone! z"),
        """
        gang | required zone preferred spine on [zone spine]
          00 | preferred rack on [zone spine rack] | min 1: c
          01 free | min 2: a b
        """,
    ),
    "saying it again says nothing new": (
        gang("a: zone! z", "b: zone! z, rack! r", "c", topology="zone! z"),
        """
        gang | required zone preferred zone on [zone]
          00 | required rack preferred rack on [zone spine rack] | min 1: b
          01 free | min 2: a c
        """,
    ),
    "saying its preference again without the wait keeps the wait": (
        gang("a: rack? r", "b", topology="rack? r ~60"),
        "gang | required rack preferred rack on [zone spine rack] | min 2: a b",
    ),
}


@pytest.mark.parametrize("phrase", TREES)
def test_binds(phrase):
    asked, want = TREES[phrase]
    assert check_requirements(asked, POOL) == []
    assert picture(KAI.render(request(asked, POOL))) == dedent(want).strip()


FAULTY = {
    "a broader key, both levels named": (
        gang("a: zone! z", "b", topology="rack! r"),
        ["tasks.a.topology[0].key not_narrower_than_group"],
        ['Key "zone" is broader than key "rack"', "the pool has none"],
    ),
    "a key between two of the group's": (
        gang("a: spine! s", topology="zone! z, rack! r"),
        ["tasks.a.topology[0].key not_narrower_than_group"],
        ['Key "spine" is broader than key "rack"'],
    ),
    "the narrower keys are offered": (
        gang("a: zone! s", topology="spine! s"),
        ["tasks.a.topology[0].key not_narrower_than_group"],
        ['narrower than "spine" there (rack)'],
    ),
    "the same key with another group": (
        gang("a: zone! other", topology="zone! z"),
        ["tasks.a.topology[0].group contradicts_group"],
        ["`- {key: zone, group: z}` for all its tasks"],
    ),
    "the same key with another type": (
        gang("a: zone? z", topology="zone! z"),
        ["tasks.a.topology[0].requirementType contradicts_group"],
        ["write the same"],
    ),
    "the same key with another wait": (
        gang("a: zone? z ~30", topology="zone? z ~60"),
        ["tasks.a.topology[0].waitSeconds contradicts_group"],
        ["waitSeconds: 60"],
    ),
    "an unknown key, once for however many tasks": (
        gang("a b c", topology="rak! r"),
        ["groups[0].topology[0].key unknown_key"],
        ['Did you mean "rack"?'],
    ),
    "a key twice": (
        gang("a b", topology="rack! r, rack! s"),
        ["groups[0].topology[1].key duplicate_key"],
        ['the topology of task group "g"'],
    ),
    "a wait on a requirement": (
        gang("a b", topology="rack! r ~60"),
        ["groups[0].topology[0].waitSeconds wait_on_required"],
        ["never relaxed"],
    ),
}


@pytest.mark.parametrize("phrase", FAULTY)
def test_refused(phrase):
    faulty, want, words = FAULTY[phrase]
    faults = check_requirements(faulty, POOL)
    assert [f"{format_path(fault.path)} {fault.code}" for fault in faults] == want
    for word in words:
        assert word in faults[0].message


def test_a_task_that_leaves_the_group_may_name_what_it_likes():
    apart = gang("a", "b: -", topology="rack! r")
    assert [len(task.requirements) for task in effective(apart).tasks] == [1, 0]


def test_a_scheduler_that_cannot_hold_it_refuses_it_where_it_is_written():
    backend = Kueue()
    asked = gang("a b", topology="rack? r ~60")
    checked = backend.check(asked, POOL, capabilities=backend.capabilities(None))
    assert [(format_path(f.path), f.capability) for f in checked.faults] == [
        ("groups[0].topology[0].waitSeconds", "topology.relax_pending")
    ]
    assert Default().check(asked, POOL, capabilities=Default().capabilities(None)).faults


def test_a_clique_required_of_the_group_holds_its_tasks_together():
    pool = (Level("clique", "nvidia.com/gpu.clique"),)
    claims = {"a": ChannelClaim.SEVERAL, "b": ChannelClaim.SEVERAL}
    group = gang("a b*4", topology="clique! c")
    assert check_nvlink(group, pool, claims=claims, node_gpus={}, raised={}) == []


@given(grouped())
def test_it_is_the_same_as_writing_it_into_every_task(case):
    pool, asked, by_hand = case
    assert check_requirements(asked, pool) == []
    got, want = KAI.render(request(asked, pool)), KAI.render(request(by_hand, pool))
    assert got == want


@given(grouped())
def test_writing_it_in_changes_nothing_the_second_time(case):
    asked = case[1]
    once = effective(asked)
    assert effective(once) is once
