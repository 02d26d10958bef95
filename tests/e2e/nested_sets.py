"""Gangs of two sets within one zone, and what a test looks at of them."""

from tests.e2e.conftest import RACK, workflow

ZONE = "osmo.local/pool"
KEYS = [{"key": "zone", "label": ZONE}, {"key": "rack", "label": RACK}]
PARENTS = {
    "Workload": "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/workloads",
    "CompositePodGroup": "/apis/scheduling.k8s.io/v1alpha3/namespaces/{}/compositepodgroups",
}
PREFERRED = (
    "left: {gpu: 4, topology: [{key: rack, group: left, requirementType: preferred}]}\n"
    "    right: {gpu: 4, topology: [{key: rack, group: right, requirementType: preferred}]}"
)
TWO_RACKS = (
    "left: {gpu: 4, topology: [{key: zone, group: all}, {key: rack, group: left}]}\n"
    "    right: {gpu: 4, topology: [{key: zone, group: all}, {key: rack, group: right}]}"
)


TWO_CLIQUES = (
    "left: {gpu: 4, topology: [{key: zone, group: all}, {key: clique, group: left}]}\n"
    "    right: {gpu: 4, topology: [{key: zone, group: all}, {key: clique, group: right}]}"
)


def parents(world, name):
    """What stands above the workflow's pod groups: (kind, name, path)."""
    (group,) = world.service.workflow(name)["groups"]
    label = f"osmo.nvidia.com/task-group={group['uuid']}"
    return [
        (kind, obj["metadata"]["name"], f"{path.format(world.namespace)}/{obj['metadata']['name']}")
        for kind, path in PARENTS.items()
        for obj in world.api.list(path.format(world.namespace), query={"labelSelector": label})[0]
    ]


def submit(world, pool, *, right, resources=TWO_RACKS, **query):
    """Two tasks in one rack and some in another, all in one zone unless the resources say otherwise."""
    lines = workflow(("g", ["a", "b", *right]), resources=resources).splitlines()
    placed = {"a": "left", "b": "left"} | dict.fromkeys(right, "right")
    for task, rack in placed.items():
        at = next(at for at, line in enumerate(lines) if f"name: {task}," in line)
        lines[at] = lines[at].replace("resource: one", f"resource: {rack}")
    return world.submit(pool, "\n".join(lines), **query)


def by_task(pods):
    return {pod["metadata"]["labels"]["osmo.task_name"]: pod for pod in pods}


def racks(world, name, label=RACK):
    world.view.load_nodes()
    pods = by_task(world.bound_pods(name))
    return {task: world.view.domain(pod["spec"]["nodeName"], label) for task, pod in pods.items()}


def start_pair_in_a_rack(world, pool):
    """Run a gang of two tasks that require one rack, and look at where they stand; returns its name."""
    text = workflow(("g", ["a", "b"]), resources="one: {gpu: 4, topology: [{key: rack}]}")
    name = world.submit(pool, text)
    world.wait_group(name, "g", "RUNNING")
    assert len(set(racks(world, name).values())) == 1
    return name


def of_kind(world, kind):
    """The objects of a kind in the namespace; pod groups go when their controller lets them."""
    return [entry for entry in world.view.leftovers(world.namespace) if entry.startswith(f"{kind} ")]


def end(world, name):
    """Cancel the workflow; nothing of it may be left, its pods' claims of devices included."""
    claims = {
        status["resourceClaimName"]
        for pod in world.pods(name)
        for status in pod["status"].get("resourceClaimStatuses", ())
    }
    world.service.cancel(name)
    assert_gone(world, name, claims)


def assert_gone(world, name, claims=frozenset()):
    """Wait for the workflow's release, after which nothing of it may be left."""
    world.wait_released(name)
    assert world.left(name) == []
    assert parents(world, name) == []
    path = f"/apis/resource.k8s.io/v1/namespaces/{world.namespace}/resourceclaims"
    assert not claims & {claim["metadata"]["name"] for claim in world.api.list(path)[0]}
