"""A mesh on a real API server: an admission policy puts its container into every pod of a pool."""

import pytest

from tests.e2e.conftest import RACK, workflow

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
IMAGE = "registry.k8s.io/pause:3.9"
PROXY = f'Object.spec.containers{{name: "istio-proxy", image: "{IMAGE}"}}'


@pytest.fixture
def mesh(world):
    """Put the policy over pods that select these nodes, and wait until the API server holds to it."""
    made = []

    def start(pool):
        selected = f"object.spec.?nodeSelector[?'osmo.local/pool'].orValue('') == '{pool}'"
        addition = f'[JSONPatch{{op: "add", path: "/spec/containers/-", value: {PROXY}}}]'
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "pool", "expression": selected}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": addition}}],
        }
        binding = {"policyName": pool}
        for path, kind, content in (
            (POLICIES, "MutatingAdmissionPolicy", spec),
            (BINDINGS, "MutatingAdmissionPolicyBinding", binding),
        ):
            body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "spec": content}
            world.api.create(path, body | {"metadata": {"name": pool}})
            made.append(f"{path}/{pool}")
        world.wait(lambda: try_out(world, pool), lambda names: "istio-proxy" in names)

    yield start
    for path in made:
        world.api.delete(path)


def try_out(world, pool):
    """The containers that a pod of the pool would have."""
    container = {"name": "c", "image": IMAGE}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "mesh-"},
        "spec": {"containers": [container], "nodeSelector": {"osmo.local/pool": pool}},
    }
    path = f"/api/v1/namespaces/{world.namespace}/pods"
    answer = world.api.call("POST", path, body=pod, query={"dryRun": "All"})
    return [container["name"] for container in answer["spec"]["containers"]]


def end(world, pod, task, code):
    """A kubelet's report that the task's own container has ended; the pod runs on."""
    path = f"/api/v1/namespaces/{world.namespace}/pods/{pod['metadata']['name']}/status"
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    statuses = [
        status | ({"ready": False, "state": state} if status["name"] == task else {})
        for status in world.api.get(path)["status"]["containerStatuses"]
    ]
    world.api.patch(path, {"status": {"containerStatuses": statuses}})


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes", "kueue"])
def test_a_task_in_a_meshed_pod_ends_with_its_own_container(world, mesh, queues, scheduler):
    pool = world.make_pool(scheduler=scheduler)
    if scheduler == "kueue":
        queues.make(pool, RACK)
    mesh(pool)
    name = world.submit(pool, workflow(("g", ["a", "b", "c"])))
    world.wait_group(name, "g", "RUNNING")
    pods = {pod["spec"]["containers"][0]["name"]: pod for pod in world.bound_pods(name)}
    assert {len(pod["spec"]["containers"]) for pod in pods.values()} == {2}
    (condition,) = [c for c in world.groups(name)["g"]["conditions"] if c["type"] == "PodsChanged"]
    assert condition["status"] == "True"
    assert f"added containers[istio-proxy] ({IMAGE})" in condition["message"]

    end(world, pods["b"], "b", 0)
    left = world.wait(lambda: world.pods(name), lambda pods: len(pods) == 2)
    assert pods["b"]["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in left}
    tasks = {task["name"]: task["status"] for task in world.groups(name)["g"]["tasks"]}
    assert tasks == {"a": "RUNNING", "b": "COMPLETED", "c": "RUNNING"}
    assert any("istio-proxy" in line and "deleted" in line for line in world.service.events(name))

    end(world, pods["a"], "a", 0)
    world.wait_released(name)
    assert world.left(name) == []
