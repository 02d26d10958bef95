"""A running gang's minimum counts what is left of it."""

from dataclasses import replace

import pytest

from scheduling.backends.kai import Kai
from scheduling.topology.requirements import Requirement
from tests.builders.terms import changed
from tests.unit.lifecycle.values import group, one_try
from workflows.manifests.group import Renderer

KAI = Kai()


def rendered(sets):
    tasks = [
        one_try(f"t{n}", n, requirements=(Requirement("rack", rack),) if rack else ())
        for n, rack in enumerate(sets)
    ]
    return Renderer(group(tasks)).gangs[0]


def minimums(spec):
    return [entry["minMember"] for entry in spec["subGroups"]]


def test_an_untouched_gang_keeps_its_minimum():
    gang = rendered(["a", "a", "b", "b"])
    got = KAI.resized(gang, living=["t0", "t1", "t2", "t3"], waiting=[], rest=False)
    assert got["subGroups"] == gang.pod_groups[0]["spec"]["subGroups"]


def test_finished_tasks_are_not_counted():
    assert KAI.resized(rendered(["a", "a", "a"]), living=["t0"], waiting=[], rest=False) == {"minMember": 1}


def test_a_task_tried_again_beside_running_ones_is_not_part_of_the_minimum():
    assert KAI.resized(rendered(["a"] * 4), living=["t0", "t1", "t2", "t3"], waiting=["t0"], rest=False) == {
        "minMember": 3
    }


def test_a_task_tried_again_alone_is_the_minimum():
    assert KAI.resized(rendered(["a"] * 4), living=["t0"], waiting=["t0"], rest=False) == {"minMember": 1}


def test_a_leaf_without_living_tasks_goes_and_takes_its_empty_parents_with_it():
    got = KAI.resized(rendered(["a", "a", "b", "b"]), living=["t2", "t3"], waiting=[], rest=False)
    assert minimums(got) == [2]


def without_grace(sets, version="0.17"):
    """A gang on a version of KAI whose pod groups can switch staleness off, or another one."""
    tasks = [
        one_try(f"t{n}", n, requirements=(Requirement("rack", rack),) if rack else ())
        for n, rack in enumerate(sets)
    ]
    values = group(tasks)
    return Renderer(replace(values, placement=changed(values.placement, scheduler_version=version))).gangs[0]


def test_where_staleness_can_be_off_it_is():
    assert without_grace(["a"] * 4).pod_groups[0]["spec"]["stalenessGracePeriod"] == "-1s"
    assert "stalenessGracePeriod" not in rendered(["a"] * 4).pod_groups[0]["spec"]


def test_a_gang_without_a_grace_period_keeps_its_place_for_a_task_tried_again():
    """The caller names only tasks whose pods are ending as waiting."""
    living = ["t0", "t1", "t2", "t3"]
    gang = without_grace(["a", "a", "b", "b"])
    assert gang.never_stale
    assert minimums(KAI.resized(gang, living=living, waiting=[], rest=False)) == [2, 2]
    assert minimums(KAI.resized(gang, living=living, waiting=["t0", "t1"], rest=True)) == [0, 2]


@pytest.mark.parametrize("rest", [False, True])
def test_where_leaves_may_be_optional_one_whose_tasks_all_wait_stays_with_a_minimum_of_none(rest):
    living = ["t0", "t1", "t2", "t3"]
    gang = without_grace(["a", "a", "b", "b"], version="0.15")
    assert not gang.never_stale
    assert minimums(KAI.resized(gang, living=living, waiting=["t0", "t1"], rest=rest)) == [0, 2]
    assert minimums(KAI.resized(gang, living=["t0", "t1"], waiting=["t0", "t1"], rest=False)) == [2]
    older = without_grace(["a", "a", "b", "b"], version="0.14")
    want = [2] if rest else [2, 2]
    assert minimums(KAI.resized(older, living=living, waiting=["t0", "t1"], rest=rest)) == want
