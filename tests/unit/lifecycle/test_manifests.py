"""What a task group becomes in a cluster."""

import base64
import json
from dataclasses import replace
from uuid import UUID

import pytest

from pools.values.recovery import RecoveryPolicy, Response
from scheduling import names
from scheduling.topology.requirements import Requirement
from tests.unit.lifecycle.values import GROUP, group, one_try
from workflows.manifests.file_secrets import MAX_CONTENTS
from workflows.manifests.group import Renderer, render_group
from workflows.values.placement import File, FrozenTemplate

RACK = (Requirement("rack", "r"),)


def pod_of(**changes):
    return render_group(group([one_try("Train_A", 0, **changes)])).pods["Train_A"]


def container_of(**changes):
    (container,) = pod_of(**changes)["spec"]["containers"]
    return container


def variables_of(pod):
    return {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}


def attempt_of(pod):
    """The variables about the attempts of a task's group."""
    names = ("OSMO_ATTEMPT", "OSMO_MAX_ATTEMPTS", "OSMO_LAST_END")
    return {name: variables_of(pod)[name] for name in names}


def own_variables(container):
    """The container's variables without those that every container has."""
    return [entry for entry in container["env"] if not entry["name"].startswith("OSMO_")]


def test_a_pod_runs_the_users_command_and_nothing_else():
    container = container_of(command=("sh", "-c"), args=("echo",), cpu=2, memory="1Gi", storage="2Gi")
    assert (container["name"], container["command"], container["args"]) == ("train-a", ["sh", "-c"], ["echo"])
    want = {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "2Gi", "nvidia.com/gpu": "1"}
    assert container["resources"] == {"requests": want, "limits": want}


def test_a_pod_has_no_owner_no_token_and_is_never_restarted():
    pod = pod_of()
    assert "ownerReferences" not in pod["metadata"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["restartPolicy"] == "Never"


def test_labels_of_ours_go_over_the_users_and_orders_to_schedulers_are_left_out(settings):
    settings.ENV = settings.ENV.model_copy(update={"pod_label_domains": ["sim.osmo.local"]})
    labels = {
        "team": "a b",
        "kai.scheduler/queue": "other",
        names.GROUP_LABEL: "forged",
        "osmo.pool": "forged",
        "sim.osmo.local/run-for": "20s",
    }
    pod = render_group(group([one_try("a", 0)], labels=labels)).pods["a"]
    pod_labels = pod["metadata"]["labels"]
    assert (pod_labels["team"], pod_labels["sim.osmo.local/run-for"]) == ("a_b", "20s")
    assert (pod_labels[names.GROUP_LABEL], pod_labels["osmo.pool"]) == (GROUP.hex, "h100")
    assert pod_labels["kai.scheduler/queue"] == "osmo-pool-osmo-h100"
    assert pod_labels["osmo.submitted_by"] == "ann_example.com"


def test_everything_of_a_group_says_whose_it_is():
    tasks = [one_try("a", 0, files=(File(path="/x", contents="x"),), claims_channel=True), one_try("b", 1)]
    objects = render_group(group(tasks, nvlink=True)).in_order()
    kinds = [obj["kind"] for obj in objects]
    assert kinds == ["Secret", "ComputeDomain", "PodGroup", "Service", "Pod", "Pod"]
    for obj in objects:
        assert obj["metadata"]["labels"][names.GROUP_LABEL] == GROUP.hex
        assert obj["metadata"]["labels"][names.INSTALLATION_LABEL] == UUID(int=1).hex
        assert obj["metadata"]["namespace"] == "osmo"


def test_only_tasks_that_claim_a_channel_get_one():
    objects = render_group(group([one_try("a", 0, claims_channel=True), one_try("b", 1, gpu=0)], nvlink=True))
    claiming, other = objects.pods["a"]["spec"], objects.pods["b"]["spec"]
    template = objects.compute_domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    assert claiming["resourceClaims"] == [{"name": "channel", "resourceClaimTemplateName": template}]
    assert claiming["containers"][0]["resources"]["claims"] == [{"name": "channel"}]
    assert "resourceClaims" not in other
    assert "claims" not in other["containers"][0].get("resources", {})


def test_a_group_without_nvlink_has_no_compute_domain():
    assert render_group(group([one_try("a", 0)])).compute_domain is None


def test_host_names_stay_the_same_over_retries_and_resolve_in_the_group_service():
    first = Renderer(group([one_try("a", 0), one_try("b", 1, args=("{{host:a}}", "{{host:x}}"))]))
    again = Renderer(group([one_try("a", 0, retry_id=3), one_try("b", 1)]))
    pods = render_group(first.values).pods
    retried = again.pod(again.values.tasks[0])
    host = pods["a"]["spec"]["hostname"]
    service = first.service()["metadata"]["name"]
    assert retried["spec"]["hostname"] == host
    assert retried["metadata"]["name"] != pods["a"]["metadata"]["name"]
    assert pods["a"]["spec"]["subdomain"] == service
    assert pods["b"]["spec"]["containers"][0]["args"] == [f"{host}.{service}.osmo.svc", "{{host:x}}"]


def test_tokens_of_the_workflow_are_filled_in_wherever_texts_stand():
    container = container_of(
        command=("{{workflow_id}}",), environment={"ID": "{{uuid}}"}, args=("{{output}}", "{{ workflow_id }}")
    )
    assert container["command"] == ["train-1"]
    assert own_variables(container) == [{"name": "ID", "value": UUID(int=2).hex}]
    assert container["args"] == ["{{output}}", "train-1"]


def test_a_file_is_kept_once_however_many_tasks_have_it():
    shared = File(path="/a", contents="id={{workflow_id}}")
    raw = File(path="/b", contents=base64.b64encode(b"\x00\x01").decode(), base64=True)
    tasks = [one_try(f"t{n}", n, files=(shared, raw)) for n in range(50)]
    objects = render_group(group(tasks))
    (secret,) = objects.secrets
    assert sorted(base64.b64decode(v) for v in secret["data"].values()) == [b"\x00\x01", b"id=train-1"]
    mounts = objects.pods["t7"]["spec"]["containers"][0]["volumeMounts"]
    assert [m["mountPath"] for m in mounts] == ["/a", "/b"]
    assert all(base64.b64decode(secret["data"][m["subPath"]]) for m in mounts)


def test_secrets_stay_below_a_mebibyte():
    files = [File(path="/f", contents=str(n) * 300_000) for n in range(5)]
    objects = render_group(group([one_try(f"t{n}", n, files=(file,)) for n, file in enumerate(files)]))
    assert len(objects.secrets) == 3
    assert all(len(json.dumps(secret)) < 2**20 for secret in objects.secrets)
    assert MAX_CONTENTS < 2**20


def test_a_retry_finds_its_files_where_the_first_try_did():
    files = [File(path="/f", contents=str(n) * 300_000) for n in range(5)]
    tasks = [one_try(f"t{n}", n, files=(file,)) for n, file in enumerate(files)]
    first = render_group(group(tasks)).pods["t4"]
    renderer = Renderer(group(tasks))
    again = renderer.pod(one_try("t4", 4, retry_id=1, files=(files[4],)))
    assert again["spec"] == first["spec"]


def test_credentials_are_mounted_or_read_from_existing_secrets():
    pod = pod_of(credentials={"s3": "/keys", "hub": {"TOKEN": "token"}})
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["volumes"] == [{"name": "v0", "secret": {"secretName": "s3"}}]
    assert container["volumeMounts"] == [{"name": "v0", "mountPath": "/keys", "readOnly": True}]
    ref = {"secretKeyRef": {"name": "hub", "key": "token"}}
    assert own_variables(container) == [{"name": "TOKEN", "valueFrom": ref}]


def test_every_container_knows_its_attempt():
    policy = RecoveryPolicy(preempted=Response.REQUEUE, failed=Response.REQUEUE, most=4)
    values = group([one_try("a", 0), one_try("b", 1, environment={"OSMO_LAST_END": "mine"})], recovery=policy)
    pods = render_group(replace(values, attempt_number=3, last_end="node_lost")).pods
    assert attempt_of(pods["a"]) == {
        "OSMO_ATTEMPT": "3",
        "OSMO_MAX_ATTEMPTS": "5",
        "OSMO_LAST_END": "node_lost",
    }
    assert variables_of(pods["b"])["OSMO_LAST_END"] == "mine"


@pytest.mark.parametrize(
    ("policy", "actions", "most"),
    [
        (RecoveryPolicy(), {}, "1"),
        (RecoveryPolicy(preempted=Response.REQUEUE), {}, "1"),
        (RecoveryPolicy(node_lost=Response.REQUEUE), {}, "4"),
        (RecoveryPolicy(most=2), {"RESTART_GROUP": "75"}, "3"),
    ],
)
def test_attempts_are_counted_that_end_by_failure_or_a_lost_node(policy, actions, most):
    pods = render_group(group([one_try("a", 0, exit_actions=actions)], recovery=policy)).pods
    first = {"OSMO_ATTEMPT": "1", "OSMO_MAX_ATTEMPTS": most, "OSMO_LAST_END": ""}
    assert attempt_of(pods["a"]) == first


def test_a_task_gets_its_time_to_save_over_the_template_of_its_platform():
    template = {"": FrozenTemplate(pod={"spec": {"terminationGracePeriodSeconds": 7}})}
    pods = render_group(group([one_try("a", 0, grace_period=120), one_try("b", 1)], templates=template)).pods
    assert pods["a"]["spec"]["terminationGracePeriodSeconds"] == 120
    assert pods["b"]["spec"]["terminationGracePeriodSeconds"] == 7
    assert "terminationGracePeriodSeconds" not in pod_of()["spec"]


def test_nodes_are_chosen_by_selector_tolerations_and_exclusion():
    spec = pod_of(
        node_selector={"pool": "h100"},
        tolerations=({"key": "gpu", "operator": "Exists"},),
        nodes_excluded=("n1", "n2"),
    )["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = terms["nodeSelectorTerms"]
    assert spec["nodeSelector"] == {"pool": "h100"}
    assert spec["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert term["matchExpressions"] == [
        {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1", "n2"]}
    ]


def test_privileges_and_mounts_reach_the_container():
    pod = pod_of(privileged=True, host_network=True, volume_mounts=("/data", "/a:/b"))
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"] == {"privileged": True}
    assert pod["spec"]["hostNetwork"] is True
    assert [m["mountPath"] for m in container["volumeMounts"]] == ["/data", "/b"]
    assert [v["hostPath"]["path"] for v in pod["spec"]["volumes"]] == ["/data", "/a"]


def test_rendering_twice_gives_the_same():
    values = group([one_try(f"t{n}", n, requirements=RACK) for n in range(4)], nvlink=True)
    assert render_group(values) == render_group(values)


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes", "default"])
def test_every_scheduler_gets_pods_it_takes(scheduler):
    values = group(
        [one_try(f"t{n}", n) for n in range(2)],
        scheduler_type=scheduler,
        scheduler_name="some-scheduler",
        priority_class="osmo-low",
        levels=(),
    )
    for pod in render_group(values).pods.values():
        assert pod["spec"]["schedulerName"] == "some-scheduler"


def test_tasks_of_a_new_attempt_join_a_pod_group_of_their_own_and_the_old_one_keeps_its_name():
    tasks = [one_try(f"t{n}", n, requirements=RACK) for n in range(4)]
    common = {"scheduler_type": "kubernetes", "queue": ""}
    before = render_group(group(tasks, **common))
    after = render_group(
        group(
            [one_try("t0", 0, retry_id=1, generation=1, requirements=RACK), *tasks[1:]],
            earlier=(tasks[0],),
            **common,
        )
    )
    old = {g["metadata"]["name"] for g in before.pod_groups}
    new = [g for g in after.pod_groups if g["metadata"]["name"] not in old]
    assert {g["metadata"]["name"] for g in after.pod_groups} > old
    assert [g["spec"]["schedulingPolicy"]["gang"]["minCount"] for g in new] == [1]
    assert after.pods["t3"] == before.pods["t3"]


def test_ten_thousand_tasks_render_with_shared_parts():
    values = group([one_try(f"t{n}", n, requirements=RACK) for n in range(10_000)], nvlink=True)
    assert len(render_group(values).pods) == 10_000
