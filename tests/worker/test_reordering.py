"""A waiting gang is named in another order, whatever dies in between, and only while nothing is bound."""

import pytest

from cluster.errors import RequestForbidden, WriteConflict
from tests.builders.crashes import death_at
from tests.builders.forms import propose_form
from tests.builders.gangs import required, topology_gang
from tests.builders.pod_groups import bind, patches, pod_group, pods_of
from tests.fakes.kinds import KAI_BIND_REQUEST, KAI_POD_GROUP
from tests.worker.world import World, fresh, statuses
from workflows.models import Event, TaskGroup
from workflows.services.adoption import expect_other_forms

ORDER = "osmo.nvidia.com/order"
SUBGROUP = "kai.scheduler/subgroup-name"
PAIR, FREE = [{"key": "rack", "group": "r"}], []
FREE_FIRST = [{"set": [], "parts": [FREE, PAIR]}]
POINTS = ("after-order-decision", "reordered-podgroup", "half-of-labels", "before-order-recorded")


def picky(cluster):
    """A scheduler that has a place for the gang only if its free tasks come first.

    Like KAI it leaves a gang alone of which a pod names a leaf that does not exist, or a leaf lacks pods.
    """
    for group in cluster.all(KAI_POD_GROUP):
        leaves = {entry["name"]: entry["minMember"] for entry in group["spec"].get("subGroups", ())}
        name = group["metadata"]["name"]
        named = list(labels_of(cluster, name).values())
        whole = {leaf: named.count(leaf) for leaf in set(named)} == leaves
        if whole and min(leaves).endswith("-free"):
            bind(cluster, name)


def labels_of(cluster, name):
    labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in pods_of(cluster, name)}
    return {pod: labels[pod].get(SUBGROUP) for pod in labels}


@pytest.fixture
def world(db):
    world = World(scheduled=False, further=(KAI_BIND_REQUEST,))
    world.cluster.players.insert(0, picky)
    return world


@pytest.fixture
def group(world):
    """Two tasks that share a rack, and three without a set, all created and without a place."""
    pair = [required("rack", "r")]
    group = topology_gang(world, sets=(pair, pair, (), (), ()))
    world.settle()
    assert statuses(group) == ["SCHEDULING"] * 5
    return group


def propose(group, order=FREE_FIRST):
    propose_form(TaskGroup.objects.filter(pk=group.pk), order=order)


def leaves(world):
    return sorted(entry["name"] for entry in pod_group(world)["spec"]["subGroups"])


def events(group):
    wanted = ("SetsOrdered", "SetsReordered")
    return list(
        Event.objects.filter(group=group, reason__in=wanted).order_by("id").values_list("reason", flat=True)
    )


def assert_placed_in_order(world, group):
    row = fresh(group)
    assert statuses(group) == ["RUNNING"] * 5
    assert (row.form["order"], row.form_state, row.other_form) == (FREE_FIRST, "", None)
    assert [name.endswith("-free") for name in leaves(world)] == [True, False]
    assert sorted(set(labels_of(world.cluster, group.uuid.hex).values())) == leaves(world)
    assert {line["subgroup"] for line in row.constraints} < set(leaves(world))
    assert events(group) == ["SetsOrdered", "SetsReordered"]
    assert ORDER in pod_group(world)["metadata"]["annotations"]


def test_a_gang_is_placed_only_because_it_is_re_ordered(world, group):
    assert [name.endswith("-free") for name in leaves(world)] == [False, True]
    propose(group)
    world.settle()
    assert_placed_in_order(world, group)
    assert patches(world) == 6  # the pod group, and each pod once: both leaves have another name
    message = Event.objects.get(group=group, reason="SetsOrdered").message
    assert 'the other tasks and rack "r"' in message


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_dies_in_between_is_taken_over_from(world, group, point):
    propose(group)
    with death_at(point):
        world.settle()
    world.settle()
    assert_placed_in_order(world, group)
    assert patches(world) == 6


def test_a_begun_edit_is_finished_whatever_is_bound_since(world, group):
    propose(group)
    with death_at("after-order-decision"):
        world.settle()
    bind(world.cluster, group.uuid.hex)
    world.settle()
    assert_placed_in_order(world, group)


def test_an_edit_that_meets_another_ones_edit_is_made_again(world, group):
    propose(group)
    world.cluster.fail(WriteConflict("the object has been modified", status=409), verb="patch")
    world.settle()
    assert_placed_in_order(world, group)


def unobserved_node(world, group):
    bind(world.cluster, group.uuid.hex, first=1)


def node_chosen(world, group):
    pod = group.tasks.first().pod_name
    request = {
        "apiVersion": KAI_BIND_REQUEST.api_version,
        "kind": "BindRequest",
        "metadata": {"name": pod, "namespace": "osmo"},
        "spec": {"podName": pod, "selectedNode": "node-0"},
    }
    world.cluster.create(KAI_BIND_REQUEST, request)


def missing_right(world, group):
    world.cluster.fail(RequestForbidden("no", status=403), verb="list", kind=KAI_BIND_REQUEST)


def resized_from_outside(world, group):
    found = pod_group(world)
    found["metadata"]["annotations"]["osmo.nvidia.com/members"] = "0"
    world.cluster.put(KAI_POD_GROUP, found)


def same_order(world, group):
    propose(group, [])


@pytest.mark.parametrize(
    "obstacle", [unobserved_node, node_chosen, missing_right, resized_from_outside, same_order]
)
def test_it_is_not_begun(world, group, obstacle):
    propose(group)
    obstacle(world, group)
    world.reconcile(group)
    row = fresh(group)
    assert (row.form["order"], row.form_state, row.other_form) == ([], "", None)
    assert [name.endswith("-free") for name in leaves(world)] == [False, True]
    assert (events(group), patches(world)) == ([], 0)


def test_a_group_of_a_backup_is_brought_back_to_the_order_that_its_row_has(world, group):
    world.cluster.players.remove(picky)
    before = TaskGroup.objects.filter(pk=group.pk).values("form", "constraints").get()
    propose(group)
    world.settle()
    assert [name.endswith("-free") for name in leaves(world)] == [True, False]
    TaskGroup.objects.filter(pk=group.pk).update(**before)
    assert expect_other_forms(world.uid, "osmo") == 1
    world.settle()
    row = fresh(group)
    assert (row.form["order"], row.form_state) == ([], "")
    assert [name.endswith("-free") for name in leaves(world)] == [False, True]
    assert sorted(set(labels_of(world.cluster, group.uuid.hex).values())) == leaves(world)
    assert ORDER not in pod_group(world)["metadata"]["annotations"]
    world.cluster.players.insert(0, picky)
    propose(group)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 5


def test_a_group_of_a_backup_whose_objects_are_as_its_row_has_them_is_left_as_it_is(world, group):
    patched = patches(world)
    expect_other_forms(world.uid, "osmo")
    world.settle()
    row = fresh(group)
    assert (row.form_state, events(group), patches(world)) == ("", [], patched)
