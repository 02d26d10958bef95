"""Whatever others write is read without an error: named as not understood, bounded, and printable."""

import copy
import json
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.backends.kubernetes.gang import WITH_COMPOSITES
from scheduling.backends.registry import installed
from scheduling.fit.snapshot import Snapshot
from scheduling.fit.verdict import judge
from scheduling.foreign.gang import GangKept, NotRead, PodKept, kept_pods, root_of
from scheduling.foreign.written import MOST_BYTES
from tests.builders.others_gangs import codes, gang_kept, pod_kept, read, stored
from tests.unit.scheduling.fit.worlds import RACK, ZONE, draw
from tests.unit.scheduling.foreign.objects import (
    QUEUES,
    constraint,
    group_of,
    kai_pods,
    native_pods,
    on_kai,
    on_kueue,
    pod_group,
    pod_set,
    workload,
)

NODES = draw("a/r1: a1 a2\n b/r1: b1").nodes
TOPOLOGIES = {"floor": (ZONE, RACK, "kubernetes.io/hostname"), "t": (ZONE, RACK), "empty": ()}
HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 3, 2**31, 2**70, 10**5]),
    st.floats(),
    st.sampled_from(["", "\0\x1b[31m\n", "x" * 5000, "\ud800", "worker", "root", "floor", ZONE, "nope"]),
    st.just([]),
    st.just({}),
    st.just([None, 3, ["x"], {"name": 4}]),
    st.just({"name": {"name": []}, "gang": 3}),
)
ROOT = group_of("root", 2, key=ZONE, field="minGroupCount")
OBJECTS = {
    "kai": pod_group(
        owner=("PyTorchJob", "llm"),
        minMember=3,
        minSubGroup=2,
        priorityClassName="p",
        topologyConstraint=constraint(preferred=ZONE),
        status={
            "resourcesStatus": {"allocated": {"cpu": "0"}},
            "schedulingConditions": [{"message": "no room"}],
        },
        subGroups=[
            {"name": "worker", "minSubGroup": 2, "topologyConstraint": constraint(ZONE)},
            {"name": "x", "parent": "worker", "minMember": 1, "topologyConstraint": constraint(RACK)},
            {"name": "y", "parent": "worker", "minMember": 1, "topologyConstraint": constraint(RACK, RACK)},
            {"name": "master", "minMember": 1},
        ],
    ),
    "kubernetes": group_of("g", 2, key=RACK, parent="root", priority=3),
    "kueue": workload(
        pod_set("main", 4, required=ZONE, podSetSliceRequiredTopology=RACK, podSetSliceSize=2),
        pod_set("leader", 1, preferred=RACK, podSetGroupName="g"),
        priorityClassRef={"name": "p"},
        conditions=[{"type": "QuotaReserved", "status": "False", "message": "no"}],
    ),
}
PODS = {
    "kai": [each for part in ("x", "y", "master") for each in kai_pods(2, part)],
    "kubernetes": native_pods(2, "g", priority=3),
    "kueue": [],
}
SCHEDULERS = sorted(OBJECTS)


def places(value, path=()):
    """The places in a document at which something can be changed."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed(data, document):
    """The document with up to three values that are missing or hostile."""
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(list(places(document)) or [("new",)]))
        place = document
        for key in above:
            place = place[key]
        if isinstance(place, dict) and data.draw(st.integers(0, 4)) == 0:
            place.pop(last, None)
        elif isinstance(place, list) or last in place:
            place[last] = copy.deepcopy(data.draw(HOSTILE))
    return document


def reading(scheduler, gang, *, version="", beside=()):
    return read(
        scheduler, gang, topologies=TOPOLOGIES, queues=QUEUES, version=version, beside=(gang, *beside)
    )


def assert_sound(gang):
    """Every sentence can be shown, and the demand, if there is one, can be judged."""
    for text in (
        *(entry.message for entry in gang.unread),
        *gang.faults,
        *gang.faults_on(NODES),
        gang.report,
    ):
        assert text.isprintable(), text
    assert all(entry.message.endswith(".") for entry in gang.unread)
    if gang.demand is None:
        assert gang.unread or gang.faults
    else:
        verdict = judge(Snapshot.of(NODES, gang.levels, paths=True), gang.demand)
        assert verdict.tasks == gang.tasks > 0


@given(st.data(), st.sampled_from(SCHEDULERS), st.sampled_from(["", "0.17.0", str(WITH_COMPOSITES)]))
def test_an_object_with_anything_in_any_field_is_kept_and_read(data, scheduler, version):
    foreign = installed()[scheduler].foreign
    obj = changed(data, OBJECTS[scheduler])
    kept = foreign.keep(foreign.kinds[0], obj, pod_of=lambda template: pod_kept())
    above = ()
    if scheduler == "kubernetes":
        above = (foreign.keep(foreign.kinds[1], changed(data, ROOT), pod_of=lambda template: pod_kept()),)
    assert kept is None or len(json.dumps(kept)) <= MOST_BYTES
    pods = kept_pods((foreign.gang_of(manifest)[1], pod) for manifest, pod in PODS[scheduler])
    gang = stored(GangKept(resource="r", namespace="ns", name="g", obj=kept, above=above, pods=pods))
    assert_sound(reading(scheduler, gang, version=version))


@given(st.data(), st.sampled_from(SCHEDULERS))
def test_a_row_with_anything_in_any_field_is_read(data, scheduler):
    gang = gang_kept(
        scheduler, OBJECTS[scheduler], PODS[scheduler], above=[ROOT] if scheduler == "kubernetes" else []
    )
    row = changed(data, gang.to_json())
    assert_sound(reading(scheduler, GangKept.from_json(row)))


TEXTS, COUNTS = st.text(max_size=5), st.integers(0, 2**53)
PODS_OF_ANY_KIND = st.builds(
    PodKept,
    scheduler=TEXTS,
    priority=st.none() | st.integers(-5, 5),
    priority_class=TEXTS,
    requests=st.dictionaries(TEXTS, COUNTS, max_size=3),
    selector=st.dictionaries(TEXTS, TEXTS, max_size=3),
    tolerations=st.lists(st.dictionaries(TEXTS, TEXTS | COUNTS, max_size=2), max_size=2).map(tuple),
    excluded=st.lists(TEXTS, max_size=2).map(tuple),
    unread=st.lists(TEXTS, max_size=2).map(tuple),
    gates=COUNTS,
    report=TEXTS,
    owner=st.tuples(TEXTS, TEXTS),
)


@given(st.lists(st.tuples(TEXTS, PODS_OF_ANY_KIND), max_size=6))
def test_what_is_kept_of_a_gang_comes_back_as_it_was(pods):
    groups_of_pods = kept_pods(pods)
    gang = GangKept(
        resource="r", namespace="ns", name="g", obj={"a": 1}, above=(None, {}), pods=groups_of_pods, omitted=3
    )
    assert stored(gang) == gang
    assert sum(entry.count for entry in groups_of_pods) == len(pods)


@pytest.mark.parametrize("row", [None, 3, "text", [], {}, {"pods": None}, {"resource": "r", "name": 3}])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_row_that_is_none_is_malformed(scheduler, row):
    gang = reading(scheduler, GangKept.from_json(row))
    assert (gang.demand, codes(gang)) == (None, {"malformed"})


def test_of_a_pod_group_that_is_too_large_its_owner_queue_and_class_are_known():
    parts = [{"name": f"part-{number}", "minMember": 1} for number in range(10_000)]
    manifest = pod_group(owner=("Grove", "big"), subGroups=parts, priorityClassName="train")
    gang = on_kai(manifest)
    assert (gang.owner, gang.queue, gang.priority) == (("Grove", "big"), "team", "train")
    assert (gang.demand, codes(gang)) == (None, {"too_large"})


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_object_that_is_missing_or_too_large_is_named(scheduler):
    gang = gang_kept(scheduler, OBJECTS[scheduler])
    assert codes(reading(scheduler, replace(gang, obj=None))) == {"missing"}
    assert codes(reading(scheduler, replace(gang, obj={"too_large": True}))) == {"too_large"}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_object_that_is_being_deleted_is_not_kept(scheduler):
    obj = copy.deepcopy(OBJECTS[scheduler])
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert gang_kept(scheduler, obj).obj is None


@given(
    st.recursive(
        HOSTILE,
        lambda inner: st.dictionaries(
            st.sampled_from(["metadata", "spec", "labels", "annotations", "schedulingGroup"]), inner
        ),
    )
)
def test_any_pod_belongs_to_some_gang_or_none(value):
    for scheduler in SCHEDULERS:
        name, part = installed()[scheduler].foreign.gang_of(value if isinstance(value, dict) else {})
        assert isinstance(name, str)
        assert isinstance(part, str)


def groups(*pairs):
    return pod_group(subGroups=[{"name": name, "parent": parent, "minMember": 1} for name, parent in pairs])


MALFORMED = {
    "a loop": (groups(("a", "b"), ("b", "a")), "inside themselves"),
    "itself as its parent": (groups(("a", "a")), "inside themselves"),
    "a parent that is missing": (groups(("a", "b")), '"b" as a parent'),
    "a parent with capitals, which KAI never finds": (groups(("A", ""), ("b", "A")), '"A" as a parent'),
    "two sub-groups of one name": (groups(("a", ""), ("a", "b"), ("b", "")), "two sub-groups of one name"),
    "no list of sub-groups": (pod_group(subGroups=7), "PodGroup.spec.subGroups is no list"),
    "a negative minimum": (pod_group(minMember=-3), "PodGroup.spec.minMember is no number"),
    "a chain of sub-groups": (
        groups(*((f"a{i}", f"a{i - 1}" if i else "") for i in range(300))),
        "inside each other",
    ),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_pod_group_is_not_understood_that_has(case):
    obj, words = MALFORMED[case]
    gang = on_kai(obj, kai_pods(1))
    assert "malformed" in codes(gang)
    assert words in gang.unread[0].message


def test_ten_thousand_sub_groups_are_too_many():
    gang = on_kai(groups(*((f"group-{number}", "") for number in range(10_000))))
    assert (gang.demand, codes(gang)) == (None, {"too_large"})


def test_five_hundred_sub_groups_with_constraints_are_read():
    names = [f"{number:03}-0123456789abcdef" for number in range(500)]
    subgroups = [{"name": n, "minMember": 1, "topologyConstraint": constraint(RACK, RACK)} for n in names]
    gang = on_kai(pod_group(subGroups=subgroups), *(kai_pods(1, name) for name in names))
    assert (gang.tasks, gang.unread) == (500, ())


def test_a_million_pods_are_too_many():
    assert codes(on_kueue(workload(pod_set("main", 1_000_000)))) == {"too_large"}


def test_names_of_others_are_printable_in_sentences():
    gang = on_kai(pod_group(name="\x1b[2Jbad\0"), kai_pods(1, group="\x1b[2Jbad\0", part="\u202ex"))
    assert_sound(gang)


LOOPS = {
    "missing": (),
    "itself": (group_of("root", 1, field="minGroupCount", parent="root"),),
    "a loop": (
        group_of("root", 1, field="minGroupCount", parent="top"),
        group_of("top", 1, field="minGroupCount", parent="root"),
    ),
}


@pytest.mark.parametrize("case", LOOPS)
def test_composites_without_a_root_are_named(case):
    gang = gang_kept("kubernetes", group_of("g", 1, parent="root"), native_pods(1, "g"), above=LOOPS[case])
    read_back = reading("kubernetes", gang, version=str(WITH_COMPOSITES))
    assert read_back.demand is None
    assert codes(read_back) == ({"missing"} if case == "missing" else {"malformed"})


def test_pod_groups_of_another_root_are_not_siblings():
    other = gang_kept("kubernetes", group_of("h", 1, parent="other"), native_pods(1, "h"), above=[])
    gang = gang_kept("kubernetes", group_of("g", 1), native_pods(1, "g"))
    foreign = installed()["kubernetes"].foreign
    read_back = foreign.read(gang, topologies={}, queues={}, version=None, siblings=[other])
    assert (read_back.tasks, root_of(other), root_of(gang)) == (1, "other", "")


def test_every_reason_is_a_word_of_its_own():
    assert all(set(code) <= {*string.ascii_lowercase, "_"} for code in NotRead)
