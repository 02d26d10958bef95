"""What becomes of sets inside sets on Kueue: slices, pod sets of their own, or refused by its true name."""

import pytest

from scheduling.backends.kai import Kai
from scheduling.backends.kueue import Kueue
from scheduling.gang.checks import check_gang
from scheduling.gang.gang_form import GangForm
from scheduling.gang.pins import Pin
from scheduling.gang.slices import required_around
from scheduling.gang.tree import build_tree
from tests.unit.scheduling.build import gang, levels, request

KUEUE = Kueue()
LEVELS = levels("zone spine rack host")
USE_CASE_4 = gang("a b c d: spine? s, rack? r1", "e f g h: spine? s, rack? r2")


def check(asked, word="refuse"):
    return KUEUE.check(asked, LEVELS, capabilities=KUEUE.capabilities(None), unsupported_preferred=word)


def workload(asked, word="warn"):
    (pod_group,) = KUEUE.render(request(asked, LEVELS, unsupported_preferred=word)).pod_groups
    return [(p["count"], p["topologyRequest"]) for p in pod_group["spec"]["podSets"]]


def test_use_case_4_prefers_a_rack_for_each_set_where_the_pool_ignores_what_is_around():
    checked = check(USE_CASE_4, "warn")
    assert checked.faults == ()
    assert workload(USE_CASE_4) == [(4, {"preferred": "topology/rack"}), (4, {"preferred": "topology/rack"})]
    (notice,) = checked.notices
    assert notice.code == "preference_ignored"
    assert 'The preference for one spine "s" around other sets is ignored' in notice.message


def test_use_case_4_is_refused_by_its_true_name_with_what_would_do():
    (fault,) = check(USE_CASE_4).faults
    assert fault.capability == "topology.nested"
    assert "are not all simply required" in fault.message
    assert "are not equal" not in fault.message
    assert "unsupported_preferred: warn" in fault.message


def test_an_ignored_preference_leaves_unequal_required_sets_to_themselves():
    asked = gang("a b: spine? s, rack! r1", "c: spine? s, rack! r2")
    assert check(asked, "warn").faults == ()
    assert workload(asked) == [(2, {"required": "topology/rack"}), (1, {"required": "topology/rack"})]


def test_a_preference_around_equal_sets_is_held():
    asked = gang("a b: spine? s, rack! r1", "c d: spine? s, rack! r2")
    assert check(asked, "warn").notices == check(asked).notices == ()
    assert workload(asked) == [
        (
            4,
            {
                "preferred": "topology/spine",
                "podSetSliceRequiredTopology": "topology/rack",
                "podSetSliceSize": 2,
            },
        )
    ]


def test_preferences_two_deep_are_ignored_together():
    asked = gang(
        "a b: zone? z, spine? s, rack? r1", "c d: zone? z, spine? s, rack? r2", "e f: zone? z, rack? r3"
    )
    assert [n.code for n in check(asked, "warn").notices] == ["preference_ignored"] * 2
    assert len(workload(asked)) == 3


CHOSEN = {
    "unequal sets in a required zone": gang("a b: zone! z, rack! r1", "c: zone! z, rack! r2"),
    "preferred racks in a required zone": gang("a b: zone! z, rack? r1", "c: zone! z, rack? r2"),
    "some tasks in no rack": gang("a b: zone! z, rack! r1", "c: zone! z"),
    "sets three deep": gang(
        "a b: zone! z, spine! s, rack! r1", "c: zone! z, spine! s, rack! r2", "d: zone! z, spine! t"
    ),
}


@pytest.mark.parametrize("word", ["refuse", "warn"])
@pytest.mark.parametrize("phrase", CHOSEN)
def test_a_required_domain_is_kept_by_node_labels_or_nothing_is_admitted(phrase, word):
    asked = CHOSEN[phrase]
    assert check(asked, word).faults == check(asked, word).notices == ()
    around = required_around(build_tree(asked, LEVELS).root)
    pins = tuple(Pin(node.path, tuple("ab"[: node.constraint.required + 1])) for node in around)
    specs = {
        pinning: KUEUE.render(request(asked, LEVELS, form=GangForm(pins=pinning))).pod_groups[0]
        for pinning in ((), pins)
    }
    assert [spec["spec"].get("active") for spec in specs.values()] == [False, None]
    rendered = [spec["metadata"]["name"] for spec in specs.values()]
    assert len(set(rendered)) == 2
    group, forms = request(asked, LEVELS).group, [GangForm(pins=pinning) for pinning in specs]
    assert rendered == [KUEUE.pod_group_name(group, generation=0, form=form) for form in forms]
    selectors = [p["template"]["spec"]["nodeSelector"] for p in specs[pins]["spec"]["podSets"]]
    assert {selector["topology/zone"] for selector in selectors} == {"a"}
    deep = [selector.get("topology/spine") for selector in selectors]
    assert deep == (["b", "b", None] if phrase == "sets three deep" else [None, None])


def test_a_scheduler_that_nests_any_sets_ignores_nothing():
    capabilities = Kai().capabilities(None)
    _, notices, tree = check_gang(
        USE_CASE_4, LEVELS, capabilities=capabilities, domains=None, unsupported_preferred="warn"
    )
    assert (notices, len(tree.root.members)) == ([], 1)
