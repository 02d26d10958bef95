"""Submitting a workflow: what is written, what is answered, and what is only checked."""

import json

import pytest
import yaml
from celery import current_app

from localcluster.directories import CHECKOUT
from pools.models import Backend, ConfigRevision, ServiceConfig
from pools.values.recovery import Response
from scheduling.topology.levels import Level
from tests.api.workflows.specs import alone, gang, task, text
from tests.error_shape import assert_error_shape
from tests.factories import CLIQUE, LEVELS, BackendFactory, NodeFactory, PlatformFactory, PoolFactory
from workflows.api import shapes
from workflows.models import Task, TaskGroup, Workflow
from workflows.services import queue
from workflows.spec import SpecLimits
from workflows.spec.rendering import TemplateText
from workflows.spec.template import is_templated, render
from workflows.submission import submit as submission
from workflows.values.placement import GroupPlacement, TaskPlacement

pytestmark = pytest.mark.django_db


@pytest.fixture
def pool():
    return PoolFactory(name="h100", levels=LEVELS, nvlink=True, node_selector={"pool": "h100"})


@pytest.fixture
def sent(monkeypatch):
    """The messages that left for workers."""
    messages = []
    monkeypatch.setattr(queue, "length", lambda: 0)
    queue.forget()
    monkeypatch.setattr(
        current_app, "send_task", lambda name, args, **options: messages.append((name, *args))
    )
    return messages


@pytest.fixture
def submit(api, pool):
    def post(workflow, query="", **extra):
        file = workflow if isinstance(workflow, str) else text(workflow)
        return api.post(f"/api/pool/h100/workflow{query}", {"file": file, **extra}, format="json")

    return post


def accepted(answer):
    assert answer.status_code == 200, answer.json()
    return answer.json()


def same(key, group="default", kind="required"):
    return {"key": key, "group": group, "requirementType": kind}


def test_a_workflow_is_written_whole(submit, pool, ann):
    reply = accepted(submit(gang(4, topology=[same("clique")]), "?priority=HIGH&label=team%3Dvision"))
    assert set(reply) == set(shapes.SubmissionShape.model_fields) - {"objects", "pool", "pools", "recovery"}
    assert reply["name"] == "train-1"
    assert reply["overview"].endswith("/ui/workflows/train-1")
    assert reply["logs"].endswith("/api/workflow/train-1/logs")
    assert reply["spec"] is None
    (warning,) = reply["warnings"]
    assert "no node of it has been observed" in warning
    workflow = Workflow.objects.get()
    assert (workflow.name, workflow.submitted_by, workflow.priority) == ("train-1", "ann", "HIGH")
    assert workflow.labels == {"team": "vision"}
    group = TaskGroup.objects.get()
    assert group.status == "PROCESSING"
    assert group.next_reconcile_at is not None
    placement = GroupPlacement.from_json(group.placement)
    assert (placement.terms.levels, placement.nvlink, placement.workflow_name) == (LEVELS, True, "train-1")
    assert placement.labels == {"team": "vision"}
    tasks = list(group.tasks.all())
    assert [task.name for task in tasks] == [f"worker-{i}" for i in range(4)]
    assert [task.lead for task in tasks] == [True, False, False, False]
    spec = TaskPlacement.from_json(tasks[1].spec)
    assert (spec.gpu, spec.memory, spec.platform, spec.claims_channel) == (8, "16Gi", "gpu", True)
    assert spec.node_selector == {"pool": "h100"}
    assert tasks[1].pod_name.startswith(tasks[1].task_uuid.hex)


def test_the_applied_constraints_are_answered_and_kept(submit):
    reply = accepted(submit(gang(topology=[same("clique"), same("zone", kind="preferred")])))
    (group,) = reply["constraints"]
    assert [(constraint["key"], constraint["requirementType"]) for constraint in group["constraints"]] == [
        ("clique", "required")
    ]
    assert TaskGroup.objects.get().constraints == group["constraints"]


def test_workers_are_told_after_the_commit_only(submit, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        accepted(submit(alone()))
        assert sent == []
    group = TaskGroup.objects.get()
    assert sent == [("workflows.tasks.reconcile_task_group", str(group.pk))]


def test_a_broker_that_does_not_answer_loses_nothing(
    submit, settings, monkeypatch, django_capture_on_commit_callbacks
):
    def refuse(*args, **options):
        raise ConnectionError("broker")

    monkeypatch.setattr(queue, "length", lambda: 0)
    queue.forget()
    monkeypatch.setattr(current_app, "send_task", refuse)
    with django_capture_on_commit_callbacks(execute=True):
        accepted(submit(alone()))
    assert TaskGroup.objects.get().next_reconcile_at is not None


def test_groups_wait_for_those_they_take_input_from(submit, sent, django_capture_on_commit_callbacks):
    workflow = {
        "name": "train",
        "tasks": [
            task("eval", inputs=[{"task": "fit"}]),
            task("fit", inputs=[{"task": "prep"}]),
            task("prep"),
        ],
    }
    with django_capture_on_commit_callbacks(execute=True):
        accepted(submit(workflow))
    groups = {group.name: group for group in TaskGroup.objects.all()}
    assert {name: group.status for name, group in groups.items()} == {
        "eval-group": "WAITING",
        "fit-group": "WAITING",
        "prep-group": "PROCESSING",
    }
    assert [group.name for group in groups["eval-group"].upstream.all()] == ["fit-group"]
    assert [group.name for group in groups["prep-group"].downstream.all()] == ["fit-group"]
    assert groups["eval-group"].waiting_reason == 'It starts when group "fit-group" has completed.'
    assert len(sent) == 1


def test_numbers_count_per_name(submit):
    names = [accepted(submit({**alone(), "name": name}))["name"] for name in ("a", "a", "a-1", "a")]
    assert names == ["a-1", "a-2", "a-1-1", "a-3"]


def test_a_value_of_the_environment_keeps_its_equals_signs(submit):
    accepted(submit(alone(environment={"A": "1", "B": "2"}), "?env_vars=A%3Db%3Dc&env_vars=C%3D"))
    assert TaskPlacement.from_json(Task.objects.get().spec).environment == {"A": "b=c", "B": "2", "C": ""}


def test_a_dry_run_shows_whole_objects_and_writes_nothing(submit):
    reply = accepted(submit(gang(2, topology=[same("clique")]), "?dry_run=True"))
    kinds = [manifest["kind"] for manifest in reply["objects"]]
    assert {"ComputeDomain", "Topology", "PodGroup", "Service", "Pod"} == set(kinds)
    assert kinds.count("Pod") == 2
    assert all(manifest["metadata"]["name"] for manifest in reply["objects"])
    assert reply["spec"].startswith("version: 2")
    assert reply["logs"] is None
    assert set(reply) == set(shapes.SubmissionShape.model_fields) - {"pool", "pools"}
    assert not Workflow.objects.exists()


def test_a_dry_run_shows_the_recovery_in_force(submit, pool):
    pool.recovery = {"preempted": "requeue", "max": 2}
    pool.save()
    recovery = {"failed": "task", "replace_patience": 90}
    workflow = gang(2, recovery={"failed": "requeue", "max": 7})
    workflow["groups"][0] |= {"recovery": recovery}
    (shown,) = accepted(submit(workflow, "?dry_run=True"))["recovery"]
    assert shown == {
        "group": "workers",
        "preempted": "requeue",
        "node_lost": "requeue",
        "failed": "task",
        "unexplained": None,
        "max": 7,
        "max_preemptions": None,
        "replace_patience": "90s",
        "avoid_nodes": 0,
        "backoff": {"first": "30s", "limit": "600s"},
    }


def test_recovery_is_frozen_and_shown_with_the_group(submit, pool, api):
    reply = accepted(submit(alone(recovery={"failed": "requeue"})))
    frozen = GroupPlacement.from_json(TaskGroup.objects.get().placement)
    assert (frozen.recovery.failed, frozen.attempts) == (Response.REQUEUE, True)
    (group,) = api.get(f"/api/workflow/{reply['name']}").json()["groups"]
    assert group["recovery"]["failed"] == "requeue"


def test_recovery_and_time_to_save_stay_within_what_the_pool_allows(submit, pool):
    pool.max_recoveries, pool.max_grace_period_seconds = 2, 60
    pool.save()
    workflow = alone(terminationGracePeriodSeconds=61, recovery={"backoff": {"first": "1h"}})
    reply = submit({**workflow, "recovery": {"max": 3}})
    assert_error_shape(reply, 400)
    assert [(d["path"], d["code"]) for d in reply.json()["details"]] == [
        ("workflow.tasks[0].terminationGracePeriodSeconds", "over_maximum"),
        ("workflow.tasks[0].recovery.backoff.first", "over_maximum"),
        ("workflow.recovery.max", "over_maximum"),
    ]
    assert all(detail["line"] for detail in reply.json()["details"])


def test_a_pause_of_more_than_a_day_is_refused_where_it_stands(submit):
    reply = submit({**alone(), "recovery": {"backoff": {"first": "1h", "limit": "100d"}}})
    assert_error_shape(reply, 400)
    (fault,) = reply.json()["details"]
    assert (fault["path"], fault["code"]) == ("workflow.recovery.backoff.limit", "over_maximum")
    assert (fault["allowed"], bool(fault["line"])) == (["1d"], True)


def test_a_dry_run_finds_what_a_submission_would(submit):
    assert_error_shape(submit(gang(topology=[same("rak")]), "?dry_run=True"), 400, code="unknown_key")


def test_a_dry_run_takes_files_that_the_client_has_yet_to_read(submit):
    workflow = alone(files=[{"path": "/etc/a", "localpath": "a.txt"}])
    accepted(submit(workflow, "?dry_run=True"))
    assert_error_shape(submit(workflow), 400, code="localpath")


def test_validation_answers_in_the_words_of_the_client_and_writes_nothing(submit):
    reply = accepted(submit(alone(), "?validation_only=True&dry_run=False"))
    assert (reply["logs"], reply["spec"]) == ("Workflow validation succeeded.", None)
    assert not Workflow.objects.exists()


def test_a_template_is_rendered_and_kept(submit):
    template = text(alone()).replace("example.com/train:1", "{{ image }}")
    reply = accepted(submit(template, set_variables=["image=busybox"]))
    workflow = Workflow.objects.get(name=reply["name"])
    assert TaskPlacement.from_json(Task.objects.get().spec).image == "busybox"
    assert "{{ image }}" in workflow.template_spec
    assert "busybox" in workflow.spec


def test_the_template_that_the_client_rendered_is_kept(submit):
    accepted(submit(alone(), set_variables=["x=1"], uploaded_templated_spec="the {{ original }}"))
    assert Workflow.objects.get().template_spec == "the {{ original }}"


def test_a_frozen_spec_does_not_follow_the_pool(submit, pool):
    accepted(submit(alone()))
    pool.topology_keys.all().delete()
    pool.delete()
    assert GroupPlacement.from_json(TaskGroup.objects.get().placement).terms.levels == LEVELS


def test_timeouts_are_the_users_within_the_pools(submit, pool):
    pool.default_queue_timeout, pool.max_exec_timeout = "1h", "2h"
    pool.save()
    reply = accepted(submit({**alone(), "timeout": {"exec_timeout": "8h"}}))
    workflow = Workflow.objects.get()
    assert (workflow.exec_timeout, workflow.queue_timeout) == (7200.0, 3600.0)
    assert "exec_timeout is cut from 28800 to 7200 seconds" in reply["warnings"][0]


def test_a_platform_adds_to_its_pool(submit, pool):
    pool.tolerations = [{"key": "gpu", "operator": "Exists"}]
    pool.save()
    PlatformFactory(
        pool=pool,
        name="big",
        node_selector={"size": "big"},
        tolerations=[{"key": "big", "operator": "Exists"}],
        default_mounts=["/shared"],
        allowed_mounts=["/data"],
        privileged_allowed=True,
        host_network_allowed=True,
    )
    workflow = alone(resource="r", privileged=True, hostNetwork=True, volumeMounts=["/data/x:/x"]) | {
        "resources": {"r": {"platform": "big"}}
    }
    accepted(submit(workflow))
    spec = TaskPlacement.from_json(Task.objects.get().spec)
    assert spec.node_selector == {"pool": "h100", "size": "big"}
    assert [toleration["key"] for toleration in spec.tolerations] == ["gpu", "big"]
    assert spec.volume_mounts == ("/shared", "/data/./x:/x")
    assert (spec.privileged, spec.host_network) == (True, True)


def test_a_group_may_do_without_a_compute_domain(submit):
    workflow = gang(2)
    workflow["groups"][0]["nvlink"] = False
    reply = accepted(submit(workflow, "?dry_run=True"))
    assert "ComputeDomain" not in {manifest["kind"] for manifest in reply["objects"]}


def objects_by_kind(reply):
    kinds = {}
    for manifest in reply["objects"]:
        kinds.setdefault(manifest["kind"], []).append(manifest)
    return kinds


def claiming_pods(reply):
    """The tasks whose pods claim a channel."""
    pods = objects_by_kind(reply)["Pod"]
    return {pod["spec"]["containers"][0]["name"] for pod in pods if "resourceClaims" in pod["spec"]}


@pytest.fixture
def two_platforms(pool):
    PlatformFactory(pool=pool, name="gb200")
    PlatformFactory(pool=pool, name="h100", nvlink=False)
    return {"gb200": {"gpu": 4, "platform": "gb200"}, "h100": {"gpu": 8, "platform": "h100"}}


def mixed(resources, **words):
    """One group with two tasks on GB200 and one on H100; ``words`` are the ``nvlink`` of tasks."""
    tasks = [
        task(name, resource=resource, **({"nvlink": words[name]} if name in words else {}))
        for name, resource in {"a": "gb200", "b": "gb200", "c": "h100"}.items()
    ]
    tasks[0]["lead"] = True
    return {"name": "train", "resources": resources, "groups": [{"name": "g", "tasks": tasks}]}


def test_tasks_on_a_platform_without_nvlink_claim_no_channel(submit, two_platforms):
    reply = accepted(submit(mixed(two_platforms), "?dry_run=True"))
    assert claiming_pods(reply) == {"a", "b"}


def test_a_task_that_leaves_its_peer_alone_makes_no_claim_useful(submit, two_platforms):
    reply = accepted(submit(mixed(two_platforms, a=False), "?dry_run=True"))
    assert claiming_pods(reply) == set()


def test_a_claim_on_a_platform_without_nvlink_is_refused_by_its_name(submit, two_platforms):
    reply = submit(mixed(two_platforms, c=True))
    assert reply.status_code == 400
    (fault,) = reply.json()["details"]
    assert (fault["code"], fault["path"]) == ("nvlink_not_on_platform", "workflow.groups[0].tasks[2].nvlink")
    assert '"h100"' in fault["message"]
    assert not Workflow.objects.exists()


def test_a_lone_task_claims_a_channel_only_if_it_says_so(submit):
    assert claiming_pods(accepted(submit(gang(1, gpu=4), "?dry_run=True"))) == set()
    workflow = gang(1, gpu=4)
    workflow["groups"][0]["tasks"][0]["nvlink"] = True
    assert len(claiming_pods(accepted(submit(workflow, "?dry_run=True")))) == 1


def test_a_bare_task_speaks_for_its_group(submit):
    workflow = alone(nvlink=False)
    assert "ComputeDomain" not in objects_by_kind(accepted(submit(workflow, "?dry_run=True")))


def test_a_pool_may_make_compute_domains_for_claiming_groups_alone(submit, pool):
    pool.compute_domains = "claiming_groups"
    pool.save()
    assert "ComputeDomain" not in objects_by_kind(accepted(submit(gang(1, gpu=4), "?dry_run=True")))
    assert "ComputeDomain" in objects_by_kind(accepted(submit(gang(2, gpu=4), "?dry_run=True")))


def test_a_compute_domain_counts_its_nodes_where_daemons_have_no_dns_names(submit, pool):
    def nodes(workflow):
        reply = accepted(submit(workflow, "?dry_run=True"))
        (domain,) = objects_by_kind(reply)["ComputeDomain"]
        return domain["spec"]["numNodes"]

    assert nodes(gang(3, gpu=4)) == 0
    pool.backend.imex_dns_names = False
    pool.backend.save()
    workflow = gang(3, gpu=4)
    workflow["groups"][0]["tasks"][2]["nvlink"] = False
    assert nodes(workflow) == 2
    accepted(submit(workflow))
    group = TaskGroup.objects.get()
    assert GroupPlacement.from_json(group.placement).domain_nodes == 2


def test_claims_that_a_scheduler_without_channels_could_put_on_one_node_ask_for_more_room(submit, pool, api):
    """Nodes of the pool have eight GPUs: two claims of two GPUs each would fit on one."""
    pool.backend.scheduler_type, pool.backend.scheduler_version = "kueue", "0.15"
    pool.backend.save()
    NodeFactory(cluster=pool.backend.cluster, name="n1", labels={"pool": "h100"}, offers_channel=True)
    reply = accepted(submit(gang(2, gpu=2)))
    (warning,) = [text for text in reply["warnings"] if "counts no NVLink channels" in text]
    assert "ask its queue for 5 GPUs each" in warning
    assert "6 GPUs of the queue's quota more" in warning
    (workload,) = objects_by_kind(accepted(submit(gang(2, gpu=2), "?dry_run=True")))["Workload"]
    (pod_set,) = workload["spec"]["podSets"]
    (container,) = pod_set["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["nvidia.com/gpu"] == "5"
    group = TaskGroup.objects.get()
    assert GroupPlacement.from_json(group.placement).claim_gpus == {"gpu": 5}


def test_room_beside_a_task_that_is_listed_with_claims_is_counted(submit, pool):
    """Kueue reads one template for tasks alike, whether they claim or not."""
    pool.backend.scheduler_type, pool.backend.scheduler_version = "kueue", "0.15"
    pool.backend.save()
    NodeFactory(cluster=pool.backend.cluster, name="n1", labels={"pool": "h100"}, offers_channel=True)
    workflow = gang(3, gpu=2)
    workflow["groups"][0]["tasks"][2]["nvlink"] = False
    reply = accepted(submit(workflow))
    (warning,) = [text for text in reply["warnings"] if "counts no NVLink channels" in text]
    assert "9 GPUs of the queue's quota more" in warning


def test_room_beside_claims_counts_against_the_pools_maximum(submit, pool):
    """Two claims of two GPUs on nodes of eight take ten of the quota."""
    pool.backend.scheduler_type, pool.backend.scheduler_version = "kueue", "0.15"
    pool.backend.save()
    pool.resources = {"gpu": {"maximum": 8}}
    pool.save()
    NodeFactory(cluster=pool.backend.cluster, name="n1", labels={"pool": "h100"}, offers_channel=True)
    reply = accepted(submit(gang(2, gpu=2)))
    (warning,) = [text for text in reply["warnings"] if "its pool may use at most" in text]
    assert "asks for 10 GPUs at once, but its pool may use at most 8" in warning


@pytest.mark.parametrize("scheduler", ["kai", "kueue"])
def test_claims_that_share_no_node_ask_for_their_own_gpus(submit, pool, scheduler):
    gpus = 2 if scheduler == "kai" else 8
    pool.backend.scheduler_type, pool.backend.scheduler_version = scheduler, "0.15"
    pool.backend.save()
    NodeFactory(cluster=pool.backend.cluster, name="n1", labels={"pool": "h100"}, offers_channel=True)
    reply = accepted(submit(gang(2, gpu=gpus)))
    assert [text for text in reply["warnings"] if "counts no NVLink channels" in text] == []
    group = TaskGroup.objects.get()
    assert GroupPlacement.from_json(group.placement).claim_gpus == {}


def test_the_claiming_tasks_and_their_reason_are_shown_with_the_group(submit, api, two_platforms):
    name = accepted(submit(mixed(two_platforms)))["name"]
    (group,) = api.get(f"/api/workflow/{name}").json()["groups"]
    claims = {row["claim"]: (row["is_made"], row["tasks"]) for row in group["compute_domain"]["claims"]}
    assert claims == {"several": (True, 2), "platform_false": (False, 1)}


WARNINGS = {
    "nvlink without a clique": (gang(2), "a ComputeDomain alone does not bring them together"),
    "half a node": (gang(2, gpu=4, topology=[same("clique")]), "8 GPUs of these nodes are left"),
    "no claim": (alone(), "its ComputeDomain stays unused"),
    "more than a node": (gang(1, gpu=16), "no known node"),
    "bare tasks": (
        {
            "name": "train",
            "resources": {"r": {"gpu": 8, "topology": [same("rack")]}},
            "tasks": [task("a", resource="r"), task("b", resource="r")],
        },
        "the requirement does not hold between them",
    ),
    "two groups of one zone": (
        {
            "name": "train",
            "resources": {"r": {"gpu": 8, "topology": [same("zone", "all")]}},
            "groups": [
                {"name": "g1", "tasks": [task("a", resource="r", lead=True)]},
                {"name": "g2", "tasks": [task("b", resource="r", lead=True)]},
            ],
        },
        "To place them together, write one task group:\nversion: 2\n",
    ),
    "topology of the workflow": (
        {**alone(), "topology": [same("zone", kind="preferred")]},
        "each task group is placed by itself",
    ),
    "another pool": (
        {**alone(), "pool": "a100"},
        'names pool "a100", but the request decides on pool "h100"',
    ),
    "another backend": ({**alone(), "backend": "x"}, 'names backend "x", but pool "h100" is on backend "'),
    "data": (alone(outputs=[{"url": "s3://bucket/x"}]), "not carried out"),
    "nodes without a label": (
        gang(1, topology=[same("rack", kind="preferred")]),
        "1 of the pool's 3 nodes lacks",
    ),
}


@pytest.mark.parametrize(("workflow", "want"), WARNINGS.values(), ids=WARNINGS)
def test_an_accepted_field_that_may_surprise_has_a_notice(submit, pool, workflow, want):
    labels = {"pool": "h100"} | {level.label: "1" for level in LEVELS}
    for _ in range(2):
        NodeFactory(cluster=pool.backend.cluster, labels=labels)
    NodeFactory(cluster=pool.backend.cluster, labels={**labels, LEVELS[1].label: "1"} | {"pool": "h100"})
    bare = NodeFactory(cluster=pool.backend.cluster, labels={"pool": "h100"})
    bare.delete() if "lacks" not in want else pool.backend.cluster.nodes.exclude(pk=bare.pk).first().delete()
    reply = accepted(submit(workflow))
    assert any(want in warning for warning in reply["warnings"]), reply["warnings"]
    assert Workflow.objects.get().warnings == reply["warnings"]


def test_a_document_may_name_the_pool_and_backend_of_its_request(submit, pool):
    workflow = {**alone(), "pool": "h100", "backend": pool.backend.name}
    assert not any("names" in warning for warning in accepted(submit(workflow))["warnings"])


def test_nodes_without_a_label_are_named(submit, pool):
    labels = {"pool": "h100"} | {level.label: "1" for level in LEVELS}
    NodeFactory(cluster=pool.backend.cluster, labels=labels)
    NodeFactory(cluster=pool.backend.cluster, labels={"pool": "h100"}, name="lonely")
    warnings = accepted(submit(gang(2, topology=[same("clique")])))["warnings"]
    (warning,) = [text for text in warnings if "lacks label nvidia.com/gpu.clique" in text]
    assert "1 of the pool's 2 nodes" in warning
    assert warning.endswith("lonely.")


@pytest.mark.parametrize(("retries", "warned"), [(0, 1), (1, 0)])
def test_exit_codes_that_try_no_task_again_are_a_warning(submit, pool, retries, warned):
    content = {"max_retry_per_task": retries}
    ServiceConfig.objects.create(config_type=ConfigRevision.Type.WORKFLOW, content=content, revision=1)
    workflow = gang(2)
    workflow["groups"][0]["tasks"][1]["exitActions"] = {"RESCHEDULE": "75"}
    warnings = accepted(submit(workflow))["warnings"]
    notices = [text for text in warnings if 'Exit codes of "worker-1" say RESCHEDULE' in text]
    assert len(notices) == warned


def test_a_level_that_no_node_carries_is_a_warning(submit, pool):
    NodeFactory(cluster=pool.backend.cluster, labels={"pool": "h100"})
    warnings = accepted(submit(gang(1, topology=[same("rack")])))["warnings"]
    lost = "labels topology.kubernetes.io/zone, example.com/rack of topology keys"
    assert any(f"None of the pool's 1 node carries {lost}" in warning for warning in warnings)


def test_a_backend_that_does_not_answer_accepts_with_a_warning(submit, pool):
    pool.backend.conditions = []
    pool.backend.save()
    reply = accepted(submit(gang(1)))
    assert any("does not answer" in warning for warning in reply["warnings"])


def test_more_gpus_than_the_pool_may_use_is_a_warning(submit, pool):
    pool.resources = {"gpu": {"guarantee": 8, "maximum": 8, "weight": 1}}
    pool.save()
    reply = accepted(submit(gang(2, topology=[same("clique")])))
    assert any("asks for 16 GPUs at once" in warning for warning in reply["warnings"])


ODD_GROUPS = ["Rack One", "a-b", "ÄÖ 東京", "x" * 200, "UPPER", "a_b.c/d"]


@pytest.mark.parametrize("name", ODD_GROUPS)
def test_any_printable_group_name_is_accepted(submit, name):
    reply = accepted(submit(gang(2, topology=[same("rack", name)])))
    assert reply["constraints"][0]["constraints"][0]["set"] == [{"key": "rack", "group": name}]


def test_names_that_would_collide_when_joined_are_two_sets(submit):
    workflow = {
        "name": "train",
        "resources": {
            "r1": {"gpu": 8, "topology": [same("zone", "a"), same("rack", "b-c")]},
            "r2": {"gpu": 8, "topology": [same("zone", "a-b"), same("rack", "c")]},
        },
        "groups": [
            {
                "name": "g",
                "tasks": [
                    task("t0", resource="r1", lead=True),
                    task("t1", resource="r1"),
                    task("t2", resource="r2"),
                    task("t3", resource="r2"),
                ],
            }
        ],
    }
    reply = accepted(submit(workflow, "?dry_run=True"))
    (group,) = (manifest for manifest in reply["objects"] if manifest["kind"] == "PodGroup")
    assert len({entry["name"] for entry in group["spec"]["subGroups"]}) == 2


def test_a_thousand_tasks_are_accepted_in_a_fixed_number_of_queries(submit, django_assert_max_num_queries):
    with django_assert_max_num_queries(40):
        accepted(submit(gang(1000, topology=[same("clique")])))
    assert Task.objects.count() == 1000


def test_a_repeat_with_the_same_key_is_answered_again_and_makes_nothing(api, pool):
    body = json.dumps({"file": text(alone())})

    def post():
        return api.post(
            "/api/pool/h100/workflow",
            body,
            content_type="application/json",
            headers={"Idempotency-Key": "k1"},
        )

    assert accepted(post()) == accepted(post())
    assert Workflow.objects.count() == 1


def test_a_key_used_for_something_else_is_a_conflict(api, pool):
    def post(workflow, key="k1"):
        return api.post(
            "/api/pool/h100/workflow",
            {"file": text(workflow)},
            format="json",
            headers={"Idempotency-Key": key},
        )

    accepted(post(alone()))
    assert_error_shape(post({**alone(), "name": "other"}), 409)
    assert_error_shape(post(alone(), key="a b"), 400, code="invalid_idempotency_key")
    assert Workflow.objects.count() == 1


def test_a_key_counts_per_user(as_user, pool):
    for name in ("bob", "eve"):
        answer = as_user(name).post(
            "/api/pool/h100/workflow",
            {"file": text(alone())},
            format="json",
            headers={"Idempotency-Key": "k"},
        )
        accepted(answer)
    assert Workflow.objects.count() == 2


def test_a_refused_submission_does_not_use_up_its_key(api, pool):
    def post(workflow):
        return api.post(
            "/api/pool/h100/workflow",
            {"file": text(workflow)},
            format="json",
            headers={"Idempotency-Key": "k"},
        )

    assert_error_shape(post({"name": "train", "tasks": []}), 400)
    accepted(post(alone()))


def test_a_pool_in_maintenance_takes_workflows_of_staff_only(submit, as_user, pool):
    pool.enable_maintenance = True
    pool.save()
    assert_error_shape(submit(alone()), 409)
    staff = as_user("root", is_staff=True)
    accepted(staff.post("/api/pool/h100/workflow", {"file": text(alone())}, format="json"))


def refused_preference(api):
    """A preference with a time of its own, which Kubernetes' scheduler does not know."""
    backend = BackendFactory(
        scheduler_type="kubernetes", scheduler_name="default-scheduler", scheduler_version="1.37"
    )
    PoolFactory(name="plain", backend=backend, levels=(CLIQUE, Level("host", "kubernetes.io/hostname")))
    workflow = gang(4, topology=[{**same("clique", kind="preferred"), "waitSeconds": 60}])
    answer = api.post("/api/pool/plain/workflow", {"file": text(workflow)}, format="json")
    return assert_error_shape(answer, 400, code="unsupported_capability")["details"][0]["message"]


def test_a_missing_capability_is_named_with_the_pools_that_have_it(api, pool):
    message = refused_preference(api)
    assert "topology.relax_pending" in message
    assert message.endswith('Pools that have it: "h100".')


def test_that_no_other_pool_has_a_capability_is_said_once_all_are_known(api, pool):
    Backend.objects.filter(pk=pool.backend_id).update(scheduler_type="default", scheduler_version="1.37")
    assert refused_preference(api).endswith("No other pool you may use has it.")


def test_of_a_pool_whose_scheduler_was_never_reached_nothing_is_said_for_certain(api, pool):
    Backend.objects.filter(pk=pool.backend_id).update(scheduler_type="kueue", scheduler_version="")
    assert refused_preference(api).endswith('Whether it is there in "h100" is not known yet.')


def test_a_pool_that_refuses_is_not_named_among_those_that_would_not(api, pool, monkeypatch):
    """Its cluster may be probed between the check and the list."""
    check = submission.admit

    def probed_meanwhile(*args, **more):
        checked = check(*args, **more)
        Backend.objects.update(scheduler_type="kai", scheduler_version="0.17")
        return checked

    monkeypatch.setattr(submission, "admit", probed_meanwhile)
    assert refused_preference(api).endswith('Pools that have it: "h100".')


def test_more_pod_sets_than_the_cluster_s_kueue_takes_are_refused_with_its_version(api, pool):
    """Which pools take them is no matter of a capability, so nothing is said of other pools."""
    backend = BackendFactory(
        scheduler_type="kueue", scheduler_name="default-scheduler", scheduler_version="0.17"
    )
    PoolFactory(name="queued", backend=backend, levels=(CLIQUE,))
    workflow = gang(10)
    workers, (resource,) = workflow["groups"][0]["tasks"], workflow["resources"].values()
    for number, worker in enumerate(workers):
        worker["resource"] = f"r{max(number, 1)}"  # equal sets would be slices
    workflow["resources"] = {
        worker["resource"]: {**resource, "topology": [same("clique", group=worker["name"])]}
        for worker in workers
    }
    answer = api.post("/api/pool/queued/workflow", {"file": text(workflow)}, format="json")
    message = assert_error_shape(answer, 400, code="unsupported_capability")["details"][0]["message"]
    assert "a Workload of Kueue 0.17 has at most 8; Kueue 0.18 or later takes it" in message
    assert "pool you may use" not in message


def rendered(written):
    return render(TemplateText(text=written, variables=(), string_variables=(), limits=SpecLimits())).text


@pytest.mark.parametrize(
    "example", sorted((CHECKOUT / "examples").glob("*.yaml")), ids=lambda path: path.stem
)
def test_the_examples_are_accepted_by_pools_with_their_keys(api, example):
    written = example.read_text()
    workflow = yaml.safe_load(rendered(written) if is_templated(written) else written)["workflow"]
    asking = [*workflow["resources"].values(), *workflow["groups"]]
    keys = {entry["key"] for resource in asking for entry in resource.get("topology", ())}
    tasks = [task for group in workflow["groups"] for task in group["tasks"]]
    keys |= {task["segment"]["key"] for task in tasks if "segment" in task}
    order = ("zone", "spine", "rack", "clique")
    levels = tuple(Level(key, f"example.com/{key}") for key in order if key in keys)
    PoolFactory(name="demo", levels=levels)
    reply = accepted(api.post("/api/pool/demo/workflow", {"file": written}, format="json"))
    assert TaskGroup.objects.count() == len(workflow["groups"])
    assert {
        constraint["key"] for group in reply["constraints"] for constraint in group["constraints"]
    } == keys


def test_a_label_in_a_reserved_place_stays_off_the_pods_and_the_reply_says_so(submit):
    labels = {"team": "vision", "kai.scheduler/queue": "theirs"}
    reply = accepted(submit(gang(2, labels=labels), "?dry_run=true"))
    (warning,) = [sentence for sentence in reply["warnings"] if "reserved" in sentence]
    assert '"kai.scheduler/queue"' in warning
    assert "team" not in warning
    pods = [manifest for manifest in reply["objects"] if manifest["kind"] == "Pod"]
    assert {pod["metadata"]["labels"]["kai.scheduler/queue"] for pod in pods} != {"theirs"}
    assert {pod["metadata"]["labels"]["team"] for pod in pods} == {"vision"}


def test_a_backend_without_its_scheduler_is_told_of_in_the_reply(submit, pool):
    backend = pool.backend
    lost = {"type": "SchedulerServed", "status": "False", "reason": "NotInstalled", "message": "no KAI"}
    others = [condition for condition in backend.conditions if condition["type"] != "SchedulerServed"]
    backend.conditions = [*others, lost]
    backend.save(update_fields=["conditions"])
    warnings = accepted(submit(gang(2)))["warnings"]
    assert any("does not serve what its scheduler" in warning for warning in warnings)
