"""What would become of the groups that wait in a pool, with other nodes or other keys."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduling.topology.requirements import Requirement
from tests.error_shape import assert_error_shape
from tests.factories import (
    RACK,
    ZONE,
    BackendFactory,
    ClusterFactory,
    NodeFactory,
    PoolFactory,
    TaskFactory,
    TaskGroupFactory,
    WorkflowFactory,
)
from tests.statements import writing
from web.models import Role, RoleAssignment
from whatif import comparison
from workflows.feasibility.queues import waiting_groups

pytestmark = pytest.mark.django_db

IN_A_RACK = (Requirement("rack", "r"),)
KEYS = {level.key: {"key": level.key, "label": level.label} for level in (ZONE, RACK)}


@pytest.fixture
def pool():
    """Racks of four and two nodes of eight GPUs each, in one zone."""
    made = PoolFactory(name="train", levels=[ZONE, RACK])
    nodes(made.backend.cluster, {"r1": 4, "r2": 2})
    return made


def nodes(cluster, racks):
    for rack, count in racks.items():
        for number in range(count):
            labels = {ZONE.label: "a", RACK.label: rack, "kubernetes.io/hostname": f"{rack}-{number}"}
            NodeFactory(cluster=cluster, name=f"{rack}-{number}", labels=labels)


def group(pool, tasks, *, name, on=(), requirements=IN_A_RACK, **fields):
    """A group that waits, or stands on nodes."""
    workflow = WorkflowFactory(pool=pool, base_name=name)
    made = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, status="RUNNING" if on else "PROCESSING")
    for place in range(tasks):
        node = on[place] if on else ""
        TaskFactory(
            group=made, node_name=node, placement__gpu=8, placement__requirements=requirements, **fields
        )
    return workflow.name


@pytest.fixture
def ask(api):
    def post(status=200, **document):
        answer = api.post("/api/pool/train/what-if", document, format="json")
        assert answer.status_code == status, answer.json()
        return answer.json()

    return post


def changes(told):
    return {
        group["workflow"]: (group["before"]["verdict"], group["after"]["verdict"], group["change"])
        for group in told["groups"]
    }


def test_nothing_changed_says_how_everything_that_waits_stands(ask, pool):
    two, five = group(pool, 2, name="two"), group(pool, 5, name="five")
    told = ask()
    assert changes(told) == {two: ("now", "now", "same"), five: ("never", "never", "same")}
    assert (told["waiting"], told["left_out"], told["summary"]["same"]) == (2, 0, 2)


def test_a_drained_domain_makes_impossible_what_fitted_only_there(ask, pool):
    four, two = group(pool, 4, name="four"), group(pool, 2, name="two")

    told = ask(drain=[{"rack": "r1"}])

    assert changes(told) == {four: ("now", "never", "impossible"), two: ("now", "now", "same")}
    assert told["drained"] == 4
    assert told["summary"]["impossible"] == 1
    before, after = (told["fragmentation"][when]["keys"][1]["largest"] for when in ("before", "after"))
    assert (before, after) == (4, 2)


def test_with_every_node_drained_nothing_ever_fits(ask, pool):
    free, racked = group(pool, 1, name="free", requirements=()), group(pool, 1, name="racked")
    told = ask(drain=[{"zone": "a"}])
    assert changes(told) == {free: ("now", "never", "impossible"), racked: ("now", "never", "impossible")}


def test_a_drained_node_tells_whose_work_stands_on_it(ask, pool):
    night, four = group(pool, 1, name="night", on=["r1-0"]), group(pool, 4, name="four")
    told = ask(drain_nodes=["r1-0"])
    assert told["displaced"] == [night]
    assert changes(told) == {four: ("not_now", "never", "impossible")}
    assert night in told["groups"][0]["before"]["sentence"]


def test_nodes_that_the_pools_queue_does_not_admit_help_nobody(ask, pool):
    type(pool).objects.filter(pk=pool.pk).update(resources={"gpu": {"maximum": 32}})
    five = group(pool, 5, name="five")
    comparison_of_five = ask(add_nodes=[{"like": "r1-0"}])
    assert changes(comparison_of_five) == {five: ("never", "never", "same")}
    assert "never allows more than 32 GPUs" in comparison_of_five["groups"][0]["after"]["sentence"]


def test_added_nodes_make_possible_what_never_fitted(ask, pool):
    five = group(pool, 5, name="five")
    assert changes(ask(add_nodes=[{"like": "r1-0"}])) == {five: ("never", "now", "fits")}
    plain = {"labels": {ZONE.label: "b", RACK.label: "r9"}, "allocatable": {"nvidia.com/gpu": "8"}}
    small = ask(add_nodes=[{"count": 5, **plain}])
    assert changes(small) == {five: ("never", "never", "same")}  # they have no processors
    plain["allocatable"] |= {"cpu": "64", "memory": "512Gi"}
    assert changes(ask(add_nodes=[{"count": 5, **plain}])) == {five: ("never", "now", "fits")}


def test_work_that_ends_makes_room(ask, pool):
    night, four = group(pool, 1, name="night", on=["r1-0"]), group(pool, 4, name="four")
    assert changes(ask(without=[night])) == {four: ("not_now", "now", "fits")}
    assert ask(without=[four])["waiting"] == 0


def test_other_keys_judge_what_waits_as_if_it_were_submitted_anew(ask, pool):
    """Told apart by zone alone the set of five has room; a rack is a word nobody knows then."""
    five = group(pool, 5, name="five", requirements=(Requirement("zone", "z"),))
    four = group(pool, 4, name="four")

    told = ask(topology_keys=[KEYS["zone"]])

    assert changes(told) == {five: ("now", "now", "same"), four: ("now", "refused", "impossible")}
    after = told["groups"][1]["after"]["sentence"]
    assert after.startswith("It would be refused: ")
    assert '"rack"' in after
    assert any("submitted anew" in note for note in told["notes"])
    assert [key["key"] for key in told["fragmentation"]["after"]["keys"]] == ["zone"]


def test_another_label_behind_a_key_changes_what_a_domain_is(ask, pool):
    five = group(pool, 5, name="five")
    told = ask(topology_keys=[{"key": "rack", "label": ZONE.label}])
    assert changes(told) == {five: ("never", "now", "fits")}


def test_moved_to_another_pool_its_nodes_keys_and_platforms_count(ask, pool):
    other = PoolFactory(name="large", levels=[RACK], node_selector={"example.com/pool": "large"})
    for number in range(5):
        labels = {RACK.label: "r1", "example.com/pool": "large"}
        NodeFactory(cluster=other.backend.cluster, name=f"l{number}", labels=labels)
    five, zoned = group(pool, 5, name="five"), group(pool, 1, name="z", requirements=(Requirement("zone"),))
    told = ask(move_to="large")
    assert changes(told) == {five: ("never", "now", "fits"), zoned: ("now", "refused", "impossible")}


def test_on_another_backend_its_scheduler_and_its_nodes_count(ask, pool):
    cluster = ClusterFactory()
    BackendFactory(name="native", cluster=cluster, scheduler_type="kubernetes", scheduler_version="1.37")
    nodes(cluster, {"r1": 5})
    five = group(pool, 5, name="five")
    both = (*IN_A_RACK, Requirement("zone", "z", required=False, wait_seconds=60))
    wish = group(pool, 1, name="wish", requirements=both)
    told = ask(backend="native")
    assert changes(told) == {five: ("never", "now", "fits"), wish: ("now", "refused", "impossible")}
    assert told["scheduler"] == "kubernetes"


def test_where_no_node_was_ever_seen_there_is_no_verdict_and_it_says_why(ask, pool):
    BackendFactory(name="new", cluster=ClusterFactory(completeness={}))
    two = group(pool, 2, name="two")
    told = ask(backend="new")
    assert changes(told) == {two: ("now", "unknown", "same")}
    assert (
        told["groups"][0]["after"]["sentence"]
        == "No verdict: the nodes of the pool's cluster have not been listed yet."
    )


def test_every_wrong_name_is_told_at_once(ask, pool):
    told = ask(
        400,
        drain=[{"rack": "r7"}, {"row": "1"}],
        drain_nodes=["nobody"],
        add_nodes=[{"like": "nobody"}, {"count": 2}, {"allocatable": {"cpu": "much"}}],
        topology_keys=[KEYS["rack"], KEYS["rack"]],
        backend="none",
        without=["nothing-1"],
    )
    assert {(detail["path"], detail["code"]) for detail in told["details"]} == {
        ("drain[0]", "unknown_domain"),
        ("drain[1]", "unknown_key"),
        ("drain_nodes[0]", "unknown_node"),
        ("add_nodes[0].like", "unknown_node"),
        ("add_nodes[1].allocatable", "required"),
        ("add_nodes[2].allocatable.cpu", "invalid_amount"),
        ("topology_keys[1].key", "duplicate_key"),
        ("topology_keys[1].label", "duplicate_label"),
        ("backend", "unknown"),
        ("without[0]", "unknown_workflow"),
    }
    assert told["details"][0]["path"] == "add_nodes[0].like"
    allowed = {detail["path"]: detail.get("allowed") for detail in told["details"]}
    assert allowed["drain[0]"] == ["r1", "r2"]


def test_the_shape_of_the_document_is_read_strictly(api, pool):
    document = {"drian": [], "add_nodes": [{"count": 0, "cuont": 1}], "drain": ["r1"], "topology_keys": [1]}
    assert_error_shape(api.post("/api/pool/train/what-if", document, format="json"), 400)
    assert_error_shape(api.post("/api/pool/train/what-if", [1], format="json"), 400)


def test_nothing_is_written(ask, pool):
    group(pool, 4, name="four")
    with CaptureQueriesContext(connection) as queries:
        ask(drain=[{"rack": "r1"}], add_nodes=[{"like": "r1-0"}], topology_keys=[KEYS["rack"]])
    assert [sql for sql in writing(queries) if "web_ratebucket" not in sql] == []  # requests are counted


def test_more_groups_cost_no_more_queries_and_those_over_the_bound_are_counted(ask, pool, monkeypatch):
    def queries():
        with CaptureQueriesContext(connection) as seen:
            told = ask()
        # rows that count requests are removed, and made anew, once a slow machine has let them run empty
        return told, sum("web_ratebucket" not in query["sql"] for query in seen)

    names = [group(pool, 1, name="one")]
    ask()  # the first of a user makes rows that count requests
    _, few = queries()
    names += [group(pool, 1, name=f"more{number}") for number in range(3)]
    told, many = queries()
    assert (many, len(told["groups"])) == (few, 4)

    monkeypatch.setattr(waiting_groups, "MOST_GROUPS", 2)
    told, _ = queries()
    assert (list(changes(told)), told["waiting"], told["left_out"]) == (names[:2], 4, 2)
    monkeypatch.setattr(comparison, "SECONDS", -1.0)
    assert queries()[0]["left_out"] == 4


def test_a_keeper_of_the_pool_who_may_not_list_its_work_reads_no_names(as_user, pool, settings):
    settings.DEFAULT_ROLES = []
    keeper = as_user("kim")
    Role.objects.create(name="keeper", policies=[{"actions": ["config:*"], "resources": ["pool/train"]}])
    RoleAssignment.objects.create(user=User.objects.get(username="kim"), role="keeper")
    night = group(pool, 1, name="night", on=["r1-0"])
    four = group(pool, 4, name="four")

    answer = keeper.post("/api/pool/train/what-if", {"drain_nodes": ["r1-0"]}, format="json")

    text = answer.content.decode()
    assert answer.json()["groups"][0]["workflow"] is None
    assert answer.json()["displaced"] == []
    assert night not in text
    assert four not in text
    refused = keeper.post("/api/pool/train/what-if", {"without": [night]}, format="json")
    assert_error_shape(refused, 403)


def test_the_holder_of_a_shared_node_is_told_to_those_alone_who_may_list_that_pool(as_user, pool, settings):
    settings.DEFAULT_ROLES = []
    keeper = as_user("kim")
    policies = [{"actions": ["config:Read", "workflow:List"], "resources": ["pool/train"]}]
    Role.objects.create(name="keeper", policies=policies)
    RoleAssignment.objects.create(user=User.objects.get(username="kim"), role="keeper")
    secret = group(PoolFactory(name="secret", backend=pool.backend), 1, name="merger", on=["r1-0"])
    ours = group(pool, 1, name="ours", on=["r1-1"])
    four = group(pool, 4, name="four")

    answer = keeper.post("/api/pool/train/what-if", {"drain_nodes": ["r1-0"]}, format="json")

    assert answer.json()["displaced"] == []
    assert answer.json()["groups"][0]["workflow"] == four
    assert f'held by "{ours}" and "another workflow"' in answer.json()["groups"][0]["before"]["sentence"]
    assert secret not in answer.content.decode()
    guessed = keeper.post("/api/pool/train/what-if", {"without": [secret]}, format="json")
    assert_error_shape(guessed, 400)
    assert guessed.json()["details"][0]["code"] == "unknown_workflow"


def test_added_nodes_may_carry_more_labels_than_a_query_can_read(ask, pool):
    group(pool, 5, name="five")
    labels = {f"example.com/l{number}": "x" for number in range(2000)} | {ZONE.label: "a", RACK.label: "r1"}
    told = ask(add_nodes=[{"like": "r1-0", "labels": labels}])
    assert told["summary"]["fits"] == 1
