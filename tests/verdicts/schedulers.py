"""How a gang is put before a real scheduler, and what becomes of it; one class for each scheduler.

``create`` makes the objects that the service would make, ``said`` is whether the scheduler has said something
of the gang, ``places`` the node of each of its tasks, None without them, ``remove`` takes a gang away.
"""

from localcluster import kueue_queues
from localcluster.kueue_queues import KUEUE
from scheduling.backends.kueue import Kueue
from tests.verdicts.worlds import LEVELS, MINE, rendered
from workflows.manifests.group import Renderer

PODS = "/api/v1/namespaces/{}/pods"
NATIVE = {
    "PodGroup": "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups",
    "Workload": "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/workloads",
    "CompositePodGroup": "/apis/scheduling.k8s.io/v1alpha3/namespaces/{}/compositepodgroups",
}


class NativeScheduler:
    """The scheduler of Kubernetes itself."""

    name, version = "kubernetes", "1.37 (CompositePodGroup)"
    shapes = (
        "free", "one zone", "one rack", "mixed", "a rack each", "a rack each and free tasks",
        "racks in one zone",
    )  # fmt: skip
    has_channels = False
    """Free channels are the devices of a driver, which no node has here."""

    def __init__(self, api, namespace):
        self.api, self._namespace = api, namespace
        self._pods, self._groups = {}, {}

    def prepare(self, world):
        """Nothing: it reads nodes."""

    def create(self, world, group):
        objects = rendered(group)
        for made in (*objects.parents, *objects.pod_groups):
            path = f"/apis/{made['apiVersion']}/namespaces/{self._namespace}/{_plural(made)}"
            self.api.create(path, made)
        for pod in objects.pods.values():
            self.api.create(PODS.format(self._namespace), pod)

    def look(self):
        """Read everything once."""
        items, _ = self.api.list(PODS.format(self._namespace))
        self._pods = {pod["metadata"]["name"]: pod for pod in items}
        items, _ = self.api.list(NATIVE["PodGroup"].format(self._namespace))
        self._groups = {item["metadata"]["name"]: item for item in items}

    def said(self, group):
        names = [made["metadata"]["name"] for made in rendered(group).pod_groups]
        return all("PodGroupInitiallyScheduled" in self._conditions(name) for name in names)

    def places(self, world, group):
        found = {
            task: self._pods.get(pod["metadata"]["name"], {}).get("spec", {}).get("nodeName")
            for task, pod in rendered(group).pods.items()
        }
        return found if all(found.values()) else None

    def bound(self, group):
        return sum(
            bool(self._pods.get(pod["metadata"]["name"], {}).get("spec", {}).get("nodeName"))
            for pod in rendered(group).pods.values()
        )

    def words(self, group):
        names = [made["metadata"]["name"] for made in rendered(group).pod_groups]
        return {name: self._conditions(name).get("PodGroupInitiallyScheduled") for name in names}

    def remove(self, group):
        objects = rendered(group)
        for pod in objects.pods.values():
            self.api.delete(
                f"{PODS.format(self._namespace)}/{pod['metadata']['name']}", body={"gracePeriodSeconds": 0}
            )
        for made in (*objects.pod_groups, *objects.parents):
            path = f"/apis/{made['apiVersion']}/namespaces/{self._namespace}/{_plural(made)}"
            self.api.delete(f"{path}/{made['metadata']['name']}")

    def _conditions(self, name):
        found = self._groups.get(name, {}).get("status", {}).get("conditions") or []
        return {condition["type"]: (condition["status"], condition.get("message")) for condition in found}


def _plural(made):
    return f"{made['kind'].lower()}s"


class KueueScheduler:
    """Kueue: its decision alone, without pods, which its admission names the nodes of."""

    name, version = "kueue", "0.17"
    shapes = (
        "free", "one zone", "one rack", "a rack each", "a rack each and free tasks", "equal slices",
        "preferred rack",
    )  # fmt: skip
    has_channels = True
    """It counts none; a gang that claims them leaves out the nodes of which others hold the channel."""

    def __init__(self, api, namespace):
        self.api, self._namespace = api, namespace
        self._path = f"{KUEUE}/namespaces/{namespace}/workloads"
        self._workloads = {}

    def prepare(self, world):
        queue = kueue_queues.Queue(
            name=world.name,
            local=world.name,
            namespace=self._namespace,
            node_labels={MINE: world.name},
            levels=[level.label for level in LEVELS],
            more={"cpu": "1000", "memory": "10Ti", "pods": "1000"},
        )
        return kueue_queues.apply(self.api, queue)

    def create(self, world, group):
        (workload,) = self._renderer(world, group).pod_groups()
        self.api.create(self._path, workload)

    def look(self):
        items, _ = self.api.list(self._path)
        self._workloads = {item["metadata"]["name"]: item for item in items}

    def said(self, group):
        return bool(self._of(group).get("status", {}).get("conditions"))

    def places(self, world, group):
        workload = self._of(group)
        if not Kueue().admission(workload).admitted:
            return None
        renderer = self._renderer(world, group)
        (request,) = renderer.requests.values()
        return dict(Kueue().nodes(request, workload, domains=_domains(world)))

    def bound(self, group):
        return int(Kueue().admission(self._of(group)).admitted)

    def words(self, group):
        return {
            condition["type"]: (condition["status"], condition.get("message"))
            for condition in self._of(group).get("status", {}).get("conditions", ())
        }

    def remove(self, group):
        self.api.delete(f"{self._path}/{rendered(group).pod_groups[0]['metadata']['name']}")

    def _of(self, group):
        return self._workloads.get(rendered(group).pod_groups[0]["metadata"]["name"], {})

    def _renderer(self, world, group):
        """A gang that claims channels leaves out the nodes whose channel is held, as the service does."""
        claims = any(task.placement.claims_channel for task in group.tasks)
        return Renderer(group.avoiding(world.without_channels()) if claims else group)


def _domains(world):
    labels = [level.label for level in LEVELS]
    return {
        machine.node.name: tuple(machine.node.labels[label] for label in labels)
        for machine in world.machines
        if all(label in machine.node.labels for label in labels)
    }
