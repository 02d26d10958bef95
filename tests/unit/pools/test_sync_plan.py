"""What to do about a cluster's shared objects, decided from values alone."""

import pytest

from cluster.kinds import PRIORITY_CLASS
from pools.services.sync_plan import DesiredObjects, ObservedObjects, SyncPlan, name_of, plan
from tests.fakes.kinds import KAI_QUEUE, KAI_TOPOLOGY, KUEUE_QUEUES


def queue(name, *, parent=None, limit=-1, uid="u1"):
    spec = {"resources": {"gpu": {"limit": limit}}}
    if parent:
        spec["parentQueue"] = parent
    metadata = {"name": name, "labels": {"osmo.installation": "x"}}
    manifest = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": spec}
    return manifest if uid is None else {**manifest, "metadata": {**metadata, "uid": uid}}


def by_name(*objects, kind=KAI_QUEUE):
    return {(kind, obj["metadata"]["name"]): obj for obj in objects}


def decide(*, desired=(), own=(), foreign=(), kept=(), unserved=()):
    return plan(
        DesiredObjects(objects=by_name(*desired), kept_queues=set(kept)),
        ObservedObjects(own=by_name(*own), foreign=by_name(*foreign), unserved=set(unserved)),
    )


def named(objects):
    return [obj["metadata"]["name"] for obj in objects]


def test_nothing_wanted_and_nothing_there_is_nothing_to_do():
    assert decide() == SyncPlan()


def test_a_missing_object_is_made():
    assert named(decide(desired=[queue("a", uid=None)]).creates) == ["a"]


def test_an_object_as_it_should_be_is_left_alone_whatever_the_server_added():
    there = queue("a") | {"status": {"requested": 3}}
    there["spec"] = {**there["spec"], "priority": 100}
    steps = decide(desired=[queue("a", uid=None)], own=[there])
    assert (steps.creates, steps.updates, steps.deletes) == ((), (), ())


def test_a_difference_is_mended_on_that_very_object():
    steps = decide(desired=[queue("a", limit=4, uid=None)], own=[queue("a", uid="u7")])
    assert [obj["metadata"]["uid"] for obj in steps.updates] == ["u7"]


def test_nothing_wanted_means_delete_children_first():
    ours = [queue("a-parent"), queue("b-child", parent="a-parent")]
    assert named(decide(own=ours).deletes) == ["b-child", "a-parent"]


def test_queues_in_use_stay_with_those_above_them():
    ours = [queue("parent"), queue("child", parent="parent"), queue("other")]
    assert named(decide(own=ours, kept=["child"]).deletes) == ["other"]


def test_an_object_that_is_not_ours_is_reported_and_never_written():
    steps = decide(desired=[queue("a", uid=None)], foreign=[queue("a", uid="theirs")])
    assert steps.foreign == ("Queue a",)
    assert (steps.creates, steps.updates, steps.deletes) == ((), (), ())


def test_a_kind_that_is_not_served_is_not_asked_for():
    assert not decide(desired=[queue("a", uid=None)], unserved=[KAI_QUEUE, KAI_TOPOLOGY]).creates


def test_somebody_elses_priority_of_the_same_value_does_as_well():
    ours = {"apiVersion": "v1", "kind": "PriorityClass", "metadata": {"name": "p"}, "value": 5}
    for value, foreign in ((5, ()), (6, ("PriorityClass p",))):
        theirs = {**ours, "value": value}
        steps = plan(
            DesiredObjects(objects=by_name(ours, kind=PRIORITY_CLASS), kept_queues=set()),
            ObservedObjects(own={}, foreign=by_name(theirs, kind=PRIORITY_CLASS)),
        )
        assert steps.foreign == foreign
        assert not steps.updates


def topology(*labels, uid=None):
    metadata = {"name": "osmo-t", "labels": {"osmo.installation": "x"}} | ({"uid": uid} if uid else {})
    spec = {"levels": [{"nodeLabel": label} for label in labels]}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": metadata, "spec": spec}


def test_a_topology_of_ours_with_other_levels_is_replaced_because_nobody_can_edit_it():
    wanted, there = topology("zone", "rack"), topology("rack", uid="u1")
    steps = plan(
        DesiredObjects(objects=by_name(wanted, kind=KAI_TOPOLOGY), kept_queues=set()),
        ObservedObjects(own=by_name(there, kind=KAI_TOPOLOGY)),
    )
    assert steps == SyncPlan(replaces=((there, wanted),))


def owned(kind, name, spec, **metadata):
    """An object of a queue of Kueue that is ours."""
    plural = next(each for each in KUEUE_QUEUES if each.name == kind)
    place = {"namespace": "osmo"} if plural.namespaced else {}
    return {
        "apiVersion": plural.api_version,
        "kind": kind,
        "metadata": {"name": name, **place, **metadata},
        "spec": spec,
    }


def kueue_objects(**metadata):
    """What one queue leads to, in order of creation; ``metadata`` is by kind."""
    specs = {
        "Topology": {"levels": [{"nodeLabel": "rack"}]},
        "ResourceFlavor": {"nodeLabels": {"pool": "p"}, "topologyName": "q"},
        "ClusterQueue": {"resourceGroups": [{"flavors": [{"name": "q"}]}]},
        "LocalQueue": {"clusterQueue": "q"},
    }
    return [owned(kind, "q", spec, **metadata.get(kind, {})) for kind, spec in specs.items()]


def decide_on(desired=(), own=(), kept=()):
    return plan(
        DesiredObjects(objects={name_of(obj): obj for obj in desired}, kept_queues=set(kept)),
        ObservedObjects(own={name_of(obj): obj for obj in own}),
    )


def kinds(objects):
    return [obj["kind"] for obj in objects]


UIDS = {
    kind: {"uid": f"uid of {kind}"} for kind in ("Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue")
}


def test_the_objects_that_a_queue_of_kueue_leads_to_are_made_before_it_and_go_after_it():
    made = kinds(decide_on(desired=kueue_objects()).creates)
    assert made == ["Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue"]
    assert kinds(decide_on(own=kueue_objects(**UIDS)).deletes) == made[::-1]


def test_a_queue_of_kueue_in_use_stays_with_all_that_it_leads_to():
    unused = owned("ResourceFlavor", "unused", {"nodeLabels": {"pool": "q"}, "topologyName": "q"})
    assert decide_on(own=[*kueue_objects(**UIDS), unused], kept=["q"]).deletes == (unused,)


def test_a_label_that_somebody_added_to_a_flavor_is_a_difference():
    there = kueue_objects(**UIDS)
    there[1] = {**there[1], "spec": {**there[1]["spec"], "nodeLabels": {"pool": "p", "gpu": "b200"}}}
    assert kinds(decide_on(desired=kueue_objects(), own=there).updates) == ["ResourceFlavor"]


def test_nothing_is_made_upon_an_object_that_is_going():
    topology, flavor, *_ = kueue_objects(**UIDS)
    flavor = {**flavor, "metadata": {**flavor["metadata"], "deletionTimestamp": "now"}}
    steps = decide_on(desired=kueue_objects(), own=[topology, flavor])
    assert (steps.creates, steps.ending) == ((), ("ResourceFlavor q",))
    steps = decide_on(desired=kueue_objects(), own=[topology])
    assert kinds(steps.creates) == ["ResourceFlavor", "ClusterQueue", "LocalQueue"]


@pytest.mark.parametrize("place", range(4))
def test_nothing_is_made_upon_an_object_of_somebody_else(place):
    desired = kueue_objects()
    theirs = desired[place]
    steps = plan(
        DesiredObjects(objects={name_of(obj): obj for obj in desired}, kept_queues=set()),
        ObservedObjects(own={}, foreign={name_of(theirs): theirs}),
    )
    assert kinds(steps.creates) == kinds(desired[:place])
    assert len(steps.foreign) == 1
