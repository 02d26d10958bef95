"""Pod templates against a real API server: its own merge keys, and a pod it really takes."""

import json
from dataclasses import replace
from uuid import UUID

import kubernetes.config

from cluster.kinds import POD
from pools.pod_templates.merge import MERGE_KEYS
from pools.pod_templates.rules import template_faults
from tests.builders.placements import GROUP
from workflows.manifests.group import Renderer, render_group
from workflows.values.observation import ENDED_ANNOTATION
from workflows.values.placement import FrozenTemplate, GroupValues, StartBarrier, TaskPlacement, TaskTry

TEMPLATE = {
    "metadata": {"annotations": {"example.com/task": "{{WF_TASK_NAME}}"}},
    "spec": {
        "terminationGracePeriodSeconds": 7,
        "automountServiceAccountToken": False,
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "{{USER_MEMORY}}"}}],
        "initContainers": [{"name": "log", "image": "log", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "{{USER_CONTAINER_NAME}}",
                "env": [{"name": "CPUS", "value": "{{USER_CPU}}"}],
                "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                "resources": {"limits": {"cpu": "{{USER_CPU}}", "nvidia.com/gpu": "{{USER_GPU}}"}},
            }
        ],
    },
}


def test_the_api_server_takes_the_pod_with_the_template_in_it(real, namespace):
    assert template_faults(TEMPLATE) == []
    frozen = FrozenTemplate(pod=TEMPLATE, variables={"USER_MEMORY": "1Gi"})
    task = TaskTry(
        task_uuid=UUID(int=1),
        name="Task_1",
        retry_id=0,
        placement=TaskPlacement(image="ubuntu", command=("sleep",), cpu=2),
    )
    placement = replace(
        GROUP,
        terms=replace(GROUP.terms, namespace=namespace),
        nvlink=False,
        priority_class="",
        templates={"": frozen},
        labels={},
    )
    values = GroupValues(uuid=UUID(int=9), name="g", generation=0, placement=placement, tasks=(task,))
    pod = render_group(values).pods["Task_1"]
    pod["spec"].pop("priorityClassName", None)
    made = real.create(POD, pod, dry_run=True)
    assert made["metadata"]["annotations"]["example.com/task"] == "Task_1"
    spec = made["spec"]
    assert spec["terminationGracePeriodSeconds"] == 7
    assert spec["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]
    assert [container["name"] for container in spec["initContainers"]] == ["log"]
    [container] = spec["containers"]
    assert {"name": "CPUS", "value": "2"} in container["env"]
    assert container["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    assert container["resources"]["limits"] == {"cpu": "2"}


def test_the_api_server_takes_a_pod_with_a_start_barrier_as_it_is(real, namespace):
    tasks = [
        TaskTry(
            task_uuid=UUID(int=number),
            name=f"task-{number}",
            retry_id=0,
            placement=TaskPlacement(image="ubuntu", command=("sleep",), cpu=2, memory="1Gi"),
        )
        for number in (1, 2)
    ]
    barrier = StartBarrier(image="example.com/osmo:1", command=("wait",), limit=60.0)
    placement = replace(
        GROUP,
        terms=replace(GROUP.terms, namespace=namespace),
        nvlink=False,
        priority_class="",
        templates={"": FrozenTemplate(pod=TEMPLATE)},
        start_barrier=barrier,
        labels={},
    )
    values = GroupValues(uuid=UUID(int=9), name="g", generation=0, placement=placement, tasks=tuple(tasks))
    pod = Renderer(values).pod(tasks[0], ended={"task-2"})
    pod["spec"].pop("priorityClassName", None)
    made = real.create(POD, pod, dry_run=True)
    assert [container["name"] for container in made["spec"]["initContainers"]] == [
        "log",
        "osmo-start-barrier",
    ]
    sent, kept = pod["spec"]["initContainers"][-1], made["spec"]["initContainers"][-1]
    assert sent.items() <= kept.items()
    assert made["spec"]["volumes"][-1] == pod["spec"]["volumes"][-1]
    assert made["metadata"]["annotations"][ENDED_ANNOTATION] == f"{2:032x}"


def test_the_keys_of_lists_are_those_the_api_server_names(kubeconfig):
    client = kubernetes.config.new_client_from_config(str(kubeconfig))
    key_of = client.configuration.get_api_key_with_prefix
    token = {"authorization": key_of("authorization") or key_of("BearerToken")}
    answer = client.call_api("GET", f"{client.configuration.host}/openapi/v3/api/v1", token)
    definitions = json.loads(answer.read())["components"]["schemas"]

    def fields(kind):
        return definitions[f"io.k8s.api.core.v1.{kind}"]["properties"]

    def key(field):
        keys = field.get("x-kubernetes-list-map-keys") or []
        return field.get("x-kubernetes-patch-merge-key") or (keys[0] if len(keys) == 1 else None)

    served = {("spec", name): key(field) for name, field in fields("PodSpec").items()}
    for kind in ("containers", "initContainers"):
        served |= {("spec", kind, name): key(field) for name, field in fields("Container").items()}
        claims = fields("ResourceRequirements")["claims"]
        served[("spec", kind, "resources", "claims")] = key(claims)
    assert {where: served[where] for where in MERGE_KEYS} == dict(MERGE_KEYS)
    refused = {("spec", "ephemeralContainers"), ("spec", "schedulingGates")}
    atomic = {where for where in served if served[where] and where[-1] != "evictionResponders"}
    assert atomic - refused == set(MERGE_KEYS)
