"""What a group becomes whose scheduler admits it before it has pods."""

from dataclasses import replace

import pytest

from pools.values.recovery import Loss
from scheduling.backends.base import RoomCause, RoomLoss
from scheduling.topology.requirements import Requirement
from tests.unit.lifecycle.values import group, manifests, one_try
from tests.unit.scheduling import crds
from workflows.lifecycle.pod_status import read_without_room
from workflows.manifests.group import Renderer, render_group
from workflows.reconcile.objects.plan import DesiredGroup, plan_create
from workflows.reconcile.view.group_reader import LiveGroup, LiveObject
from workflows.values.placement import FrozenTemplate

RACK = (Requirement("rack", "r"),)
KUEUE = {"scheduler_type": "kueue", "scheduler_name": "default-scheduler", "queue": "train"}
WORKLOADS = crds.definition("local-kueue", "workloads", "kueue.x-k8s.io")


def gang(**changes):
    tasks = [one_try(name, number, requirements=RACK, **changes) for number, name in enumerate("abc")]
    return group(tasks, **KUEUE)


def there(*names):
    return {name: LiveObject(name, f"uid-{name}", deleting=False) for name in names}


def test_the_workload_asks_for_the_pods_of_the_group_and_the_api_keeps_all_of_it():
    (workload,) = render_group(gang(cpu=2, node_selector={"pool": "p"})).pod_groups
    assert crds.served(WORKLOADS, workload) == workload
    (pod_set,) = workload["spec"]["podSets"]
    assert (pod_set["count"], pod_set["topologyRequest"]) == (3, {"required": "topo/rack"})
    spec = pod_set["template"]["spec"]
    assert spec["nodeSelector"] == {"pool": "p"}
    want = {"cpu": "2", "nvidia.com/gpu": "1"}
    assert spec["containers"][0]["resources"] == {"requests": want, "limits": want}
    assert workload["spec"]["queueName"] == "train"


def test_the_workload_has_no_claims_which_quotas_would_count():
    tasks = [one_try("a", 0, claims_channel=True), one_try("b", 1, claims_channel=True)]
    (workload,) = render_group(group(tasks, nvlink=True, **KUEUE)).pod_groups
    spec = workload["spec"]["podSets"][0]["template"]["spec"]
    assert "resourceClaims" not in spec
    assert "claims" not in spec["containers"][0]["resources"]


def test_the_workload_asks_for_what_a_template_adds():
    sidecar = {"name": "proxy", "image": "proxy", "resources": {"requests": {"cpu": "1"}}}
    template = FrozenTemplate(pod={"spec": {"containers": [sidecar]}})
    tasks = [one_try("a", 0, platform="gpu")]
    values = group(tasks, templates={"gpu": template}, **KUEUE)
    pod = render_group(values).pods["a"]["spec"]["containers"]
    asked = render_group(values).pod_groups[0]["spec"]["podSets"][0]["template"]["spec"]["containers"]
    amounts = [container.get("resources", {}).get("requests") for container in pod]
    assert [container.get("resources", {}).get("requests") for container in asked] == amounts


def test_a_pod_is_made_for_its_node_and_says_that_it_is_kueues():
    renderer = Renderer(gang().assigned({"a": "n-1", "b": "n-2", "c": "n-3"}))
    pods = [renderer.pod(task) for task in renderer.values.tasks]
    nodes = [pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in pods]
    assert nodes == ["n-1", "n-2", "n-3"]
    for pod in pods:
        annotations = pod["metadata"]["annotations"]
        assert annotations["kueue.x-k8s.io/podset-required-topology"] == "topo/rack"
        (workload,) = renderer.pod_groups()
        assert annotations["kueue.x-k8s.io/workload"] == workload["metadata"]["name"]


def test_assigned_nodes_do_not_change_the_workload():
    values = gang()
    assert Renderer(values.assigned({"a": "n-1"})).pod_groups() == Renderer(values).pod_groups()


def test_a_later_attempt_has_a_workload_of_its_own():
    values = gang()
    later = replace(values, tasks=tuple(replace(task, generation=1) for task in values.tasks))
    names = {render_group(v).pod_groups[0]["metadata"]["name"] for v in (values, later)}
    assert len(names) == 2


def desired(*, awaits_room):
    objects = render_group(gang())
    return DesiredGroup(
        namespace=objects.service["metadata"]["namespace"],
        secrets=(),
        compute_domain=None,
        topologies=(),
        pod_groups=objects.pod_groups,
        service=objects.service,
        pods=manifests([] if awaits_room else objects.pods.values()),
        replaced={},
        present_pods=frozenset(pod["metadata"]["name"] for pod in objects.pods.values()),
        awaits_room=awaits_room,
    )


@pytest.mark.parametrize("awaits_room", [True, False])
def test_pods_wait_for_room(awaits_room):
    plan = plan_create(desired(awaits_room=awaits_room), LiveGroup())
    kinds = [step.kind.name for step in plan.steps]
    assert kinds == ["Workload", "Service", *([] if awaits_room else ["Pod"])]
    assert plan.wait == ("room" if awaits_room else "")


def test_a_pod_without_room_is_preempted():
    room = RoomLoss(RoomCause.PREEMPTED, "Preempted: to accommodate another workload")
    reading = read_without_room(room)
    assert (reading.status, reading.code, reading.loss) == ("FAILED_PREEMPTED", 3006, Loss.PREEMPTED)
    assert "to accommodate another workload" in reading.message
