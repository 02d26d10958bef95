"""Choosing the pool of a workflow, and a document that names its own: ``POST /api/workflow``."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from pools.models import Backend
from tests.api.workflows.specs import gang, text
from tests.builders.observed_queues import observe_queues
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
from web.models import Profile, Role, RoleAssignment
from workflows.models import Event, TaskGroup, Workflow
from workflows.spec import parsing

pytestmark = pytest.mark.django_db
RACKED = [{"key": "rack", "group": "r"}]
PREFERRED = [{"key": "rack", "group": "r", "requirementType": "preferred"}]


@pytest.fixture
def pool_of():
    """Make a pool with a cluster of its own; a rack for each number of nodes, with eight GPUs each."""

    def make(name, *racks, gpus=8, **fields):
        cluster = ClusterFactory()
        backend = BackendFactory(name=f"of-{name}", cluster=cluster, **fields.pop("backend", {}))
        pool = PoolFactory(name=name, backend=backend, levels=[ZONE, RACK], **fields)
        for rack, nodes in enumerate(racks):
            for number in range(nodes):
                NodeFactory(
                    cluster=cluster,
                    name=f"{name}-{rack}-{number}",
                    labels={ZONE.label: "a", RACK.label: f"r{rack}"},
                    allocatable={"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus), "pods": "110"},
                )
        return pool

    return make


def hold(pool, *nodes, hours=None, gpus=8):
    """Occupy nodes, until so many hours from now if it is known."""
    workflow = WorkflowFactory(pool=pool, base_name="night", exec_timeout=3600 * (hours or 1))
    started = timezone.now() if hours else None
    group = TaskGroupFactory(pool=pool, workflow=workflow, pods=0, status="RUNNING", start_time=started)
    for node in nodes:
        TaskFactory(group=group, node_name=node, placement__gpu=gpus)


def post(api, query="", tasks=3, *, topology=RACKED, gpu=8, headers=None, **fields):
    body = {"file": text(gang(tasks, gpu=gpu, topology=topology, **fields))}
    return api.post(f"/api/workflow{query}", body, format="json", headers=headers or {})


def accepted(answer):
    assert answer.status_code == 200, answer.json()
    return answer.json()


def refused(answer, status):
    return assert_error_shape(answer, status)


def verdicts(reply):
    return [(entry["pool"], entry["verdict"]) for entry in reply["pools"]]


def test_the_pool_where_it_fits_now_is_taken_and_every_verdict_is_listed(api, pool_of):
    pool_of("small", 2)
    hold(pool_of("busy", 3), "busy-0-0")
    pool_of("free", 3)
    pool_of("closed", 3, enable_maintenance=True)

    reply = accepted(post(api, "?pools=small,busy,free,closed"))

    assert reply["pool"] == "free"
    assert verdicts(reply) == [
        ("free", "now"),
        ("busy", "not_now"),
        ("small", "never"),
        ("closed", "unknown"),
    ]
    assert [entry["accepts"] for entry in reply["pools"]] == [True, True, True, False]
    assert [entry["chosen"] for entry in reply["pools"]] == [True, False, False, False]
    assert "takes workflows of its administrators alone" in reply["pools"][3]["sentence"]
    assert reply["feasibility"][0]["sentence"] == reply["pools"][0]["sentence"]
    workflow = Workflow.objects.get(name=reply["name"])
    assert workflow.pool_name == "free"
    event = Event.objects.get(workflow=workflow, reason="PoolChosen")
    assert event.message == "Pool free was chosen of 4. Its verdict: now."  # readers may not know the others


def test_preferences_that_are_met_count_before_free_nodes_that_are_broken_up(api, pool_of):
    hold(pool_of("apart", 1, 1, 1), "apart-0-0", "apart-1-0", "apart-2-0", gpus=4)
    pool_of("together", 2)

    reply = accepted(post(api, "?pools=apart,together", topology=PREFERRED, gpu=4))

    outcomes = [(e["pool"], e["preferences_met"], e["broken_nodes"]) for e in reply["pools"]]
    assert outcomes == [("together", True, 1), ("apart", False, 0)]


def test_of_equal_outcomes_the_one_that_breaks_up_fewest_free_nodes_is_taken(api, pool_of):
    pool_of("whole", 2)
    hold(pool_of("begun", 2), "begun-0-0", gpus=4)

    reply = accepted(post(api, "?pools=whole,begun", tasks=1, gpu=4))

    assert [(e["pool"], e["broken_nodes"]) for e in reply["pools"]] == [("begun", 0), ("whole", 1)]


def test_where_it_fits_nowhere_now_the_earliest_end_of_what_is_in_the_way_decides(api, pool_of):
    hold(pool_of("unknown", 3), "unknown-0-0")
    hold(pool_of("late", 3), "late-0-0", hours=9)
    hold(pool_of("early", 3), "early-0-0", hours=2)

    reply = accepted(post(api, "?pools=unknown,late,early"))

    assert [entry["pool"] for entry in reply["pools"]] == ["early", "late", "unknown"]
    assert reply["pools"][2]["free_at"] is None
    assert reply["pools"][0]["free_at"] < reply["pools"][1]["free_at"]


def test_pools_whose_nodes_are_unknown_come_before_those_where_it_never_fits(api, pool_of):
    pool_of("small", 2)
    pool_of("new")
    assert verdicts(accepted(post(api, "?pools=small,new"))) == [("new", "unknown"), ("small", "never")]


def test_of_pools_that_are_alike_the_first_is_taken(api, pool_of):
    pool_of("a", 3)
    pool_of("b", 3)
    assert accepted(post(api, "?pools=b,a"))["pool"] == "b"
    assert accepted(post(api, "?pools=a&pools=b"))["pool"] == "a"


def test_any_is_every_pool_that_the_caller_may_submit_to(as_user, pool_of):
    bea = as_user("bea")
    pool_of("secret", 3)
    pool_of("mine", 3)
    pool_of("other", 2)
    grant("bea", "pool/mine", "pool/other")

    reply = accepted(post(bea, "?pools=any"))

    assert verdicts(reply) == [("mine", "now"), ("other", "never")]


def grant(user, *resources, actions=("workflow:Create",)):
    role = Role.objects.create(
        name=f"only-{user}", policies=[{"actions": list(actions), "resources": list(resources)}]
    )
    RoleAssignment.objects.create(user=User.objects.get(username=user), role=role.name)


def test_a_pool_that_the_caller_may_not_use_is_spoken_of_as_one_that_does_not_exist(as_user, pool_of):
    bea = as_user("bea")
    pool_of("secret", 3)
    pool_of("mine", 3)
    grant("bea", "pool/mine")

    hidden = refused(post(bea, "?pools=mine,secret"), 404)["message"]
    absent = refused(post(bea, "?pools=mine,nosuch"), 404)["message"]

    assert hidden.replace("secret", "nosuch") == absent
    assert absent == 'There is no pool "nosuch" to which you may submit. You may submit to mine.'
    both = refused(post(bea, "?pools=nosuch,none"), 404)["message"]
    assert both.startswith('There are no pools "nosuch" and "none" to which you may submit.')
    named = refused(post(bea, pool="secret"), 404)["message"]
    assert named == hidden
    assert not Workflow.objects.exists()


def test_a_user_who_may_submit_nowhere_is_refused(as_user, pool_of):
    bea = as_user("bea")
    pool_of("a", 3)
    grant("bea", "pool/a", actions=("workflow:List",))
    refused(post(bea, "?pools=a"), 403)


def test_where_no_pool_accepts_each_says_why(api, pool_of):
    pool_of("a", 3)
    pool_of("b", 3, enable_maintenance=True)
    unknown = [{"key": "rak"}]

    body = refused(post(api, "?pools=a,b", topology=unknown), 409)

    assert body["message"].startswith('None of 2 pools accepts the workflow. Pool "a": line ')
    assert 'Pool "b": Pool "b" is in maintenance' in body["message"]
    (fault,) = body["details"]
    assert (fault["code"], fault["message"][:10]) == ("unknown_key", 'Pool "a": ')
    assert refused(post(api, "?pools=a", topology=unknown), 400)["details"][0]["line"]


@pytest.mark.parametrize(
    ("pools", "what"),
    [
        ("a,,b", "missing between the commas"),
        ("any,a", "written alone"),
        (",".join(f"p{n}" for n in range(17)), "at most 16"),
    ],
)
def test_a_list_of_pools_that_cannot_be_meant_is_refused(api, pools, what):
    (fault,) = refused(post(api, f"?pools={pools}"), 400)["details"]
    assert fault["path"] == "pools"
    assert what in fault["message"]


def test_of_more_pools_than_can_be_compared_those_with_most_free_gpus_are(api, pool_of):
    backend = BackendFactory(name="empty", cluster=ClusterFactory())
    for number in range(200):
        PoolFactory(name=f"p{number:03}", backend=backend, levels=[ZONE, RACK])
    pool_of("zz-some", 2)
    pool_of("zz-room", 3)
    reply = accepted(post(api, "?pools=any", tasks=3))
    assert (reply["pool"], len(reply["pools"])) == ("zz-room", 16)
    assert "Of 202 pools 16 were tried: those with the most free GPUs." in reply["warnings"]


def test_pools_that_do_not_accept_it_leave_their_place_to_others(api, pool_of):
    """A pool without the key is no candidate, however many GPUs are free in it."""
    backend = BackendFactory(name="keyless", cluster=ClusterFactory())
    for number in range(20):
        PoolFactory(name=f"p{number:02}", backend=backend, levels=[])
    pool_of("zz-room", 3)
    reply = accepted(post(api, "?pools=any", tasks=3))
    assert (reply["pool"], len(reply["pools"])) == ("zz-room", 21)


def test_a_dry_run_and_a_feasibility_check_choose_and_write_nothing(api, pool_of):
    pool_of("small", 2)
    pool_of("free", 3)
    dry = accepted(post(api, "?pools=small,free&dry_run=True"))
    assert dry["pool"] == "free"
    assert [entry["kind"] for entry in dry["objects"]].count("Pod") == 3
    for query in ("feasibility=only", "validation_only=True"):
        assert verdicts(accepted(post(api, f"?pools=small,free&{query}"))) == [
            ("free", "now"),
            ("small", "never"),
        ]
    assert not Workflow.objects.exists()


def test_a_repeated_request_gets_the_first_choice_although_pools_have_changed(api, pool_of):
    free = pool_of("free", 3)
    pool_of("later", 3)
    key = {"Idempotency-Key": "k1"}
    first = accepted(post(api, "?pools=any", headers=key))
    hold(free, "free-0-0")
    pool_of("a-new-one", 3)
    assert accepted(post(api, "?pools=any", headers=key)) == first
    assert Workflow.objects.count() == 1 + 1  # and the one that holds a node
    refused(post(api, "?pools=free", headers=key), 409)


def test_a_workflow_is_submitted_again_and_restarted_where_it_was_or_chosen_anew(api, pool_of):
    free = pool_of("free", 3)
    pool_of("later", 3)
    name = accepted(post(api, "?pools=free,later"))["name"]
    hold(free, "free-0-0")
    again = accepted(api.post(f"/api/workflow?pools=free,later&workflow_id={name}"))
    assert again["pool"] == "later"
    Workflow.objects.filter(name=name).update(status="FAILED")
    restarted = accepted(api.post(f"/api/pool/free/workflow/{name}/restart"))
    assert Workflow.objects.get(name=restarted["name"]).pool_name == "free"
    assert restarted.get("pool") is None


def test_a_template_is_rendered_once_for_all_pools(api, pool_of, monkeypatch):
    pool_of("small", 2)
    pool_of("free", 3)
    calls = []
    render = parsing.render
    monkeypatch.setattr(parsing, "render", lambda *a, **k: calls.append(1) or render(*a, **k))
    template = text(gang(3, topology=RACKED)).replace("name: train", "name: {{ word }}")
    body = {"file": template + "default-values: {word: chosen}\n"}
    reply = accepted(api.post("/api/workflow?pools=small,free", body, format="json"))
    assert (reply["name"], reply["pool"], calls) == ("chosen-1", "free", [1])


def test_auto_is_decided_in_each_pool(api, pool_of):
    pool_of("small", 2, 1)
    pool_of("large", 3)
    auto = [{**RACKED[0], "requirementType": "auto"}]
    reply = accepted(post(api, "?pools=small,large", topology=auto))
    assert [(e["pool"], e["preferences_met"]) for e in reply["pools"]] == [("large", True), ("small", False)]
    assert reply["constraints"][0]["constraints"][0]["requirementType"] == "required"


def test_a_document_names_its_pool(api, pool_of):
    pool_of("a", 3)
    pool_of("b", 2)
    reply = accepted(post(api, tasks=2, pool="b"))
    assert (reply["pool"], verdicts(reply), reply["warnings"]) == ("b", [("b", "now")], [])
    reply = accepted(post(api, "?pools=a", tasks=2, pool="b"))
    assert reply["pool"] == "a"
    assert 'The document names pool "b", but the request decides on pool "a"' in reply["warnings"][0]


def test_a_document_names_its_backend(api, pool_of):
    pool_of("a", 3)
    pool_of("b", 3)
    of_b = Backend.objects.get(name="of-b")
    PoolFactory(name="b2", backend=of_b, levels=[ZONE, RACK], node_selector={"no": "node"})
    reply = accepted(post(api, backend="of-b"))
    assert verdicts(reply) == [("b", "now"), ("b2", "unknown")]
    (fault,) = refused(post(api, backend="of-b", pool="a"), 400)["details"]
    assert (fault["path"], fault["code"]) == ("workflow.backend", "backend_of_pool")
    (fault,) = refused(post(api, backend="nosuch"), 400)["details"]
    assert (fault["code"], fault["line"] > 1) == ("unknown_backend", True)


def test_without_any_name_the_default_pool_of_the_profile_is_taken(api, ann, pool_of):
    pool_of("a", 3)
    (fault,) = refused(post(api), 400)["details"]
    assert fault["code"] == "no_pool"
    assert fault["message"].endswith("You may submit to a.")
    Profile.objects.create(user=ann, pool="a")
    assert accepted(post(api))["pool"] == "a"


def test_a_pool_whose_scheduler_may_reclaim_room_goes_before_one_that_is_full(api, pool_of):
    full, guaranteed = pool_of("full", 3), pool_of("guaranteed", 3)
    hold(full, "full-0-0", hours=1)
    hold(guaranteed, "guaranteed-0-0")
    Workflow.objects.filter(pool_name="guaranteed").update(priority="LOW")
    for group in TaskGroup.objects.filter(workflow__pool_name="guaranteed"):
        group.placement |= {"queue": "other"}
        group.save()
    observe_queues(guaranteed, guarantee=24, own=(-1, 0))
    reply = accepted(post(api, "?pools=full,guaranteed"))
    assert verdicts(reply) == [("guaranteed", "not_now"), ("full", "not_now")]
