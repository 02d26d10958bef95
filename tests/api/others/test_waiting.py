"""Gangs that others submitted are explained to those who may read their names, and counted for the rest."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from pools.models import Backend, Node, ObservedResource
from scheduling.queues.queue_state import QueueState
from tests.builders.completeness import note_lists
from tests.builders.gangs_of_others import REFUSED, follow, observe_gang, pod_group, waiting_pod
from tests.builders.nodes import racked_pool
from tests.builders.observed_queues import observe_queues
from tests.factories import RACK, ZONE, BackendFactory, foreign_usage
from web.models import Role
from workflows.feasibility.others import judged
from workflows.models import ObservedGang

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    """Two racks of two nodes of eight GPUs, on a cluster whose gangs of others are followed."""
    made = racked_pool(2, 2, backend=BackendFactory(name="east"))
    follow(made.backend)
    ObservedResource.objects.create(
        cluster_id=made.backend.cluster_id,
        resource="topologies.kai.scheduler",
        name="racks",
        uid="racks",
        reading={"labels": [ZONE.label, RACK.label]},
        seen_at=timezone.now(),
    )
    return made


def caller(*statements):
    """A client of a user with these actions, each on a resource."""
    user = User.objects.create_user(f"user-{User.objects.count()}")
    if statements:
        policies = [{"actions": [action], "resources": [resource]} for action, resource in statements]
        Role.objects.create(name="told", policies=policies)
        user.role_assignments.create(role="told")
    client = APIClient()
    client.force_authenticate(user)
    return client


@pytest.fixture
def explainer():
    return caller(("cluster:Explain", "backend/east"), ("pool:List", "pool/*"))


def waiting(client, **query):
    return client.get("/api/cluster/east/waiting", query)


def test_all_that_wait_are_listed_with_their_verdicts_the_oldest_first(pool, explainer):
    hour_ago = timezone.now() - timedelta(hours=1)
    observe_gang(pool.backend, pod_group(name="fits", members=2, required=RACK.label), [waiting_pod()] * 2)
    observe_gang(
        pool.backend,
        pod_group(name="large", members=3, required=RACK.label),
        [waiting_pod()] * 3,
        since=hour_ago,
    )
    reply = waiting(explainer).json()
    assert [(entry["name"], entry["verdict"]) for entry in reply["groups"]] == [
        ("large", "never"),
        ("fits", "now"),
    ]
    large = reply["groups"][0]
    assert "the largest" in large["sentence"]
    assert (large["owner_kind"], large["owner_name"], large["queue"]) == ("PyTorchJob", "train", "research")
    assert (large["tasks"], large["gpus"], large["kind"]) == (3, 24, "PodGroup")
    assert (reply["count"], reply["problem"], reply["names_shown"]) == (2, "", True)


def test_one_of_them_is_explained_with_its_nearest_domains(pool, explainer):
    observe_gang(pool.backend, pod_group(members=3, required=RACK.label), [waiting_pod()] * 3)
    reply = explainer.get("/api/cluster/east/group/research/pg-train").json()
    (entry,) = [entry for entry in reply["feasibility"]["sets"] if entry["label"] == RACK.label]
    assert [domain["missing"] for domain in entry["nearest"]] == [1, 1]
    assert reply["feasibility"]["proven"]


def test_it_says_in_which_namespaces_the_pods_are_that_hold_its_rack(pool, explainer):
    cluster = pool.backend.cluster
    for node in Node.objects.all():
        foreign_usage(cluster, node.name, gpu=8, namespace="serving")
    observe_gang(pool.backend, pod_group(members=2, required=RACK.label), [waiting_pod()] * 2)
    reply = explainer.get("/api/cluster/east/group/research/pg-train").json()
    assert 'held by other tenants\' pods in namespace "serving"' in reply["sentence"]
    nearest = reply["feasibility"]["sets"][-1]["nearest"][0]
    assert [(holder["nodes"], holder["namespaces"]) for holder in nearest["holders"]] == [(2, ["serving"])]


def test_what_could_be_preempted_for_it_is_said_where_its_queue_and_priority_are_known(pool, explainer):
    observe_queues(pool, research=(-1, 0))
    for node in Node.objects.all():
        foreign_usage(pool.backend.cluster, node.name, gpu=8, namespace="ml", evictable=["research", 50])
    pods = [waiting_pod(priority=100, priority_class="train")] * 2
    observe_gang(pool.backend, pod_group(members=2, priorityClassName="train"), pods)
    observe_gang(pool.backend, pod_group(name="pg-low", priorityClassName="low"), pods)
    reply = explainer.get("/api/cluster/east/group/research/pg-train").json()
    preemption = reply["feasibility"]["preemption"]
    assert (preemption["answer"], preemption["others"], preemption["namespaces"]) == ("helps", 4, ["ml"])
    assert '4 pods of others in namespace "ml"' in reply["sentence"]
    reply = explainer.get("/api/cluster/east/group/research/pg-low").json()
    assert reply["feasibility"]["preemption"]["answer"] == "unknown"


def test_a_gang_of_which_something_is_not_read_is_never_called_impossible(pool, explainer):
    pods = [waiting_pod(unread=("pod affinity",))] * 3
    observe_gang(pool.backend, pod_group(members=3, required=RACK.label), pods)
    reply = explainer.get("/api/cluster/east/group/research/pg-train").json()
    assert (reply["verdict"], reply["feasibility"]["proven"]) == ("not_now", False)
    assert "pod affinity" in " ".join(entry["message"] for entry in reply["not_examined"])


@pytest.mark.parametrize(("held", "codes"), [("True", []), ("Unknown", ["topology"])])
def test_composites_are_examined_where_the_scheduler_is_known_to_hold_them(explainer, held, codes):
    conditions = [{"type": "CompositesHeld", "status": held}]
    versions = {"scheduler_type": "kubernetes", "scheduler_version": "1.37", "conditions": conditions}
    backend = racked_pool(2, 2, backend=BackendFactory(name="east", **versions)).backend
    follow(backend)
    root, group = (
        {
            "metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {"schedulingPolicy": {"gang": gang}},
        }
        for name, gang in (("root", {"minGroupCount": 1}), ("group", {"minCount": 2}))
    )
    group["spec"]["parentCompositePodGroupName"] = "root"
    observe_gang(backend, group, [waiting_pod()] * 2, above=[root])
    reply = explainer.get("/api/cluster/east/group/ns/group").json()
    assert ([entry["code"] for entry in reply["not_examined"]], reply["verdict"]) == (codes, "now")


def test_a_row_that_cannot_be_read_has_no_verdict(pool, explainer):
    row = observe_gang(pool.backend, pod_group(), [waiting_pod()] * 2)
    ObservedGang.objects.filter(pk=row.pk).update(content={"pods": 7})
    (entry,) = waiting(explainer).json()["groups"]
    assert entry["verdict"] == "unknown"
    assert entry["sentence"].startswith("No verdict: ")


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("resaerch", 'Queue "resaerch" does not exist'),
        ("above", 'Queue "above" has queues below it'),
        ("orphan", 'Queue "gone", above queue "orphan", does not exist'),
        ("", "names no queue"),
    ],
)
def test_a_queue_that_places_nothing_is_said_and_no_gang_in_it_fits_now(pool, explainer, queue, words):
    observe_queues(pool, above=(-1, 0), own=(-1, 0), orphan=(-1, 0))
    orphan = QueueState(name="orphan", parent="gone")
    ObservedResource.objects.filter(name="orphan").update(reading=orphan.to_json())
    observe_gang(pool.backend, pod_group(queue=queue), [waiting_pod()] * 2)
    (entry,) = waiting(explainer).json()["groups"]
    assert words in entry["sentence"]
    assert entry["verdict"] == "not_now"
    reply = explainer.get("/api/cluster/east/group/research/pg-train").json()
    assert reply["feasibility"]["sentence"].startswith("But for that, it fits now: ")


def test_a_queue_is_not_missed_where_queues_are_not_known(pool, explainer):
    observe_gang(pool.backend, pod_group(), [waiting_pod()] * 2)
    assert waiting(explainer).json()["groups"][0]["verdict"] == "now"


def test_gangs_for_which_there_is_no_time_are_listed_and_explained_by_name(pool, explainer, monkeypatch):
    observe_gang(pool.backend, pod_group(), [waiting_pod()] * 2)
    with monkeypatch.context() as late:
        late.setattr(judged, "MOST_SECONDS", 0)
        (entry,) = waiting(explainer).json()["groups"]
    assert (entry["name"], entry["verdict"]) == ("pg-train", "unknown")
    assert "by its name" in entry["sentence"]
    assert explainer.get("/api/cluster/east/group/research/pg-train").json()["verdict"] == "now"


def test_who_may_read_names_needs_no_pool(pool):
    observe_gang(pool.backend, pod_group(), [waiting_pod()] * 2)
    client = caller(("cluster:Explain", "backend/east"))
    assert [entry["name"] for entry in waiting(client).json()["groups"]] == ["pg-train"]
    assert client.get("/api/cluster/west/waiting").status_code == 404


def test_everybody_else_who_sees_a_pool_reads_how_many_wait(pool):
    observe_gang(pool.backend, pod_group(), [waiting_pod()] * 2)
    reply = waiting(caller(("pool:List", f"pool/{pool.name}"))).json()
    assert (reply["count"], reply["groups"], reply["names_shown"]) == (1, [], False)


def test_to_callers_without_a_pool_of_it_there_is_no_such_backend(pool):
    assert waiting(caller(("pool:List", "pool/another"))).status_code == 404


def test_names_need_the_action_on_this_backend(pool):
    observe_gang(pool.backend, pod_group(), [waiting_pod()] * 2)
    client = caller(("cluster:Explain", "backend/west"), ("pool:List", "pool/*"))
    answer = client.get("/api/cluster/east/group/research/pg-train")
    assert answer.status_code == 403
    assert "cluster:Explain" in answer.json()["message"]


def test_a_misspelled_gang_is_answered_with_the_one_that_was_meant(pool, explainer):
    observe_gang(pool.backend, pod_group(), [waiting_pod()] * 2)
    answer = explainer.get("/api/cluster/east/group/research/pg-trian")
    assert answer.status_code == 404
    assert 'research/pg-train"' in answer.json()["message"]


def test_a_backend_that_follows_nobody_says_so(pool, explainer):
    observe_gang(pool.backend, pod_group(), [waiting_pod()] * 2)
    Backend.objects.update(follow_others=False)
    reply = waiting(explainer).json()
    assert (reply["count"], reply["groups"]) == (0, [])
    assert "follow_others" in reply["problem"]


def test_a_refused_right_is_said(pool, explainer):
    note_lists(REFUSED)
    assert waiting(explainer).json()["problem"] == "They are not followed: podgroups is forbidden"


def test_a_scheduler_that_is_followed_is_not_blamed_for_another_s_refusal(pool):
    BackendFactory(name="west", cluster=pool.backend.cluster, scheduler_type="kueue", follow_others=True)
    note_lists(REFUSED)
    client = caller(("cluster:Explain", "backend/*"), ("pool:List", "pool/*"))
    problems = [client.get(f"/api/cluster/{name}/waiting").json()["problem"] for name in ("west", "east")]
    assert problems == ["", "They are not followed: podgroups is forbidden"]


def test_queries_do_not_depend_on_how_many_wait(pool, explainer, django_assert_max_num_queries):
    for number in range(10):
        observe_gang(pool.backend, pod_group(name=f"gang-{number}"), [waiting_pod()] * 2)
    with django_assert_max_num_queries(20):
        assert len(waiting(explainer, limit=10).json()["groups"]) == 10
