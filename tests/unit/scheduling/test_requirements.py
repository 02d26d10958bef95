"""Everything that can be wrong with requirements, and what the user reads then."""

import pytest

from scheduling.errors import format_path
from scheduling.gang.soundness import check_requirements
from scheduling.topology.requirements import Gang, GangTask, Requirement
from tests.unit.scheduling.build import gang, levels

POOL = levels("zone spine rack")

SOUND = {
    "no requirement at all": gang("a b"),
    "keys skipped": gang("a b: zone! z, rack! r", "c d: rack! other"),
    "one name under two zones is two sets": gang("a: zone! x, rack! r1", "b: zone! y, rack! r1"),
    "names that collide when joined": gang("a: zone! a, rack! b-c", "b: zone! a-b, rack! c"),
    "the same name for two keys": gang("a b: zone! x, rack! x"),
    "spaces, capitals, letters of any language, 200 characters": gang(
        "a: zone! Zone A", "b: zone! żółw", "c: zone! 机架", f"d: zone! {'x' * 200}", "e: zone! a_b.c/d"
    ),
}

FAULTY = {
    "an unknown key": (
        gang("a: rak! r"),
        ["tasks.a.topology[0].key unknown_key"],
        ['no topology key "rak"', 'Did you mean "rack"?', "broadest first: zone, spine, rack"],
    ),
    "a key twice in one task": (
        gang("a: rack! r, rack! s"),
        ["tasks.a.topology[1].key duplicate_key"],
        ['"rack"', 'task "a"'],
    ),
    "an empty name and one of blanks": (
        Gang("g", (GangTask("a", 1, (Requirement("zone", ""), Requirement("rack", "  "))),)),
        ["topology[0].group empty_group", "topology[1].group empty_group"],
        ["empty"],
    ),
    "a name that cannot be printed": (
        Gang("g", (GangTask("a", 1, (Requirement("zone", "a\x00\n"),)),)),
        ["topology[0].group unprintable_group"],
        [r"a\x00\n"],
    ),
    "one set required and preferred": (
        gang("a b: rack! r", "c: rack? r"),
        ["tasks.c.topology[0].requirementType required_and_preferred"],
        ['rack "r" is required by tasks "a" and "b" but preferred by task "c"'],
    ),
    "one set required and auto": (
        gang("a b: rack! r", "c: rack@ r"),
        ["tasks.c.topology[0].requirementType required_and_preferred"],
        ['rack "r" is required by tasks "a" and "b" but auto for task "c"'],
    ),
    "one set preferred and auto": (
        gang("a: rack@ r", "c: rack? r"),
        ["tasks.a.topology[0].requirementType required_and_preferred"],
        ['rack "r" is preferred by task "c" but auto for task "a"'],
    ),
    "auto, for a minute": (
        gang("a: rack@ r ~60"),
        ["tasks.a.topology[0].waitSeconds wait_on_required"],
        ["is auto here"],
    ),
    "auto in a task group that requires": (
        gang("a: zone@ z", topology="zone! z"),
        ["tasks.a.topology[0].requirementType contradicts_group"],
        ["{key: zone, group: z}"],
    ),
    "the same rack with and without a zone": (
        gang("a b: zone! z, rack! r1", "c: rack! r1"),
        ["tasks.c.topology[0] ambiguous_group"],
        ['tasks "a" and "b"', 'task "c"', 'Add `- {key: zone, group: z}` to task "c"'],
    ),
    "a preferred line is shown as it is written": (
        gang("a: zone? two words, rack! r1", "c: rack! r1"),
        ["tasks.c.topology[0] ambiguous_group"],
        ['`- {key: zone, group: "two words", requirementType: preferred}`'],
    ),
    "two lists, neither within the other": (
        gang("a: zone! z, rack! r1", "b: spine! s, rack! r1"),
        ["tasks.a.topology[1] ambiguous_group", "tasks.b.topology[1] ambiguous_group"],
        ['Add `- {key: spine, group: s}` to task "a"', 'Add `- {key: zone, group: z}` to task "b"'],
    ),
    "all of it at once": (
        gang("a: rak! r", "b: rack! x, rack! y", "c d: rack! r", "e: rack? r"),
        [
            "tasks.a.topology[0].key unknown_key",
            "tasks.b.topology[1].key duplicate_key",
            "tasks.e.topology[0].requirementType required_and_preferred",
        ],
        [],
    ),
}


@pytest.mark.parametrize("phrase", SOUND)
def test_accepted(phrase):
    assert check_requirements(SOUND[phrase], POOL) == []


@pytest.mark.parametrize("phrase", FAULTY)
def test_refused(phrase):
    faulty, want, words = FAULTY[phrase]
    faults = check_requirements(faulty, POOL)
    assert [f"{format_path(fault.path)} {fault.code}" for fault in faults] == want
    said = "\n".join(fault.message for fault in faults)
    for word in words:
        assert word in said


def test_the_line_a_refusal_shows_makes_it_go_away():
    mended = gang("a b: zone! z, rack! r1", "c: rack! r1, zone! z")
    assert check_requirements(mended, POOL) == []


def test_an_unknown_key_tells_the_pools_keys_in_order():
    (fault,) = check_requirements(gang("a: nonsense! r"), POOL)
    assert fault.allowed == ("zone", "spine", "rack")
    assert "Did you mean" not in fault.message


@pytest.mark.parametrize(
    ("word", "want"),
    {
        "topology/rack": 'That is a label: did you mean key "rack"?',
        "cloud.example.com/rack": 'Did you mean "rack"?',
        "Rack": 'Did you mean "rack"?',
    }.items(),
)
def test_a_label_in_place_of_a_key_is_answered_with_the_key(word, want):
    (fault,) = check_requirements(gang(f"a: {word}! r"), POOL)
    assert want in fault.message


def test_a_pool_without_keys_says_so():
    (fault,) = check_requirements(gang("a: rack! r"), ())
    assert "It has no topology keys at all." in fault.message
    assert fault.allowed == ()


def test_a_resource_that_many_tasks_share_is_wrong_once():
    shared = Requirement("rak", "r", path=("workflow", "resources", "shard", "topology", 1))
    many = Gang("g", tuple(GangTask(f"t{i}", 1, (shared,)) for i in range(1000)))
    (fault,) = check_requirements(many, POOL)
    assert format_path(fault.path) == "workflow.resources.shard.topology[1].key"


def test_ten_thousand_unknown_keys_are_all_reported():
    many = Gang(
        "g", tuple(GangTask(f"t{i}", 1, (Requirement(f"k{i}"),), ("tasks", i)) for i in range(10_000))
    )
    faults = check_requirements(many, POOL)
    assert [fault.path[1] for fault in faults] == list(range(10_000))
