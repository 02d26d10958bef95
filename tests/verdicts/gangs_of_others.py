"""Gangs that others submit to schedulers, drawn at random in the shapes that their controllers write.

One class for each scheduler: ``prepare`` makes what an administrator makes for a world, ``draw`` a gang on
its nodes, ``release`` lets a scheduler that is not frozen have it, and ``placed`` names the gangs of which as
many pods as each part needs have nodes.
"""

from collections import Counter
from dataclasses import dataclass, field

from localcluster import kueue_queues
from localcluster.kueue_queues import HOSTNAME, KUEUE
from tests.verdicts.worlds import GPUS, LEVELS, MINE

ZONE, RACK = (level.label for level in LEVELS)
NAMESPACE = "others"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NATIVE = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
COMPOSITES = f"/apis/scheduling.k8s.io/v1alpha3/namespaces/{NAMESPACE}/compositepodgroups"
WORKLOADS = f"{KUEUE}/namespaces/{NAMESPACE}/workloads"
KAI = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{NAMESPACE}/podgroups"
TOPOLOGIES, QUEUES = "/apis/kai.scheduler/v1alpha1/topologies", "/apis/scheduling.run.ai/v2/queues"


def own_label(name, label):
    """A level's label on the nodes of one world alone: KAI counts room on all nodes that have its levels."""
    return f"{name}.{label}"


def made(path, kind, name, spec):
    """An object with the collection that it is made in."""
    _, _, group, version, *_ = path.split("/")
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return path, body


@dataclass(kw_only=True)
class DrawnGang:
    """A gang of others: its objects with their collections, and how many pods each part needs."""

    name: str
    """Of the object by which the service names it."""

    shape: str
    objects: list = field(default_factory=list)
    least: dict = field(default_factory=dict)

    def add_pods(self, part, count, spec, *, further=0, **metadata):
        """The pods of a part, of which ``further`` are more than it needs."""
        self.least[part] = count
        spec = {**spec, "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
        metadata["labels"] = metadata.get("labels", {}) | {"part": part}
        names = [f"{part}-{number}" for number in range(count + further)]
        self.objects += [(PODS, {"metadata": {**metadata, "name": name}, "spec": spec}) for name in names]


def drawn_spec(chance, world, **more):
    """The spec of a pod as people write it: some state limits alone, some have containers beside the main."""
    amounts = {"nvidia.com/gpu": str(chance.choice([1, 2, GPUS, GPUS])), "memory": "1Gi"}
    amounts["cpu"] = chance.choice(["1", "500m", "24"])
    requests = {"requests": amounts} if chance.random() < 0.7 else {}
    containers = [{"name": "main", "image": "none", "resources": {"limits": amounts, **requests}}]
    small, large = ({"requests": {"cpu": cpu}} for cpu in ("2", "50"))
    containers += [{"name": "side", "image": "none", "resources": small}] * (chance.random() < 0.15)
    spec = {"restartPolicy": "Never", "containers": containers, "nodeSelector": {MINE: world.name}, **more}
    if chance.random() < 0.2:
        spec["initContainers"] = [{"name": "first", "image": "none", "resources": large}]
    if chance.random() < 0.3:
        spec["tolerations"] = [{"key": "fit.test/closed", "operator": "Exists"}]
    return spec


class _PlacesPods:
    """Schedulers that place pods are frozen until a gang is explained."""

    is_frozen = True

    def release(self, api, gang):
        """Nothing: it goes on."""

    def unanswered(self, api, gangs):
        """The names of gangs that a fault of the scheduler keeps waiting, which says nothing of them."""
        return set()

    def placed(self, api, gangs):
        pods, _ = api.list(PODS)
        bound = Counter(pod["metadata"]["labels"]["part"] for pod in pods if pod["spec"].get("nodeName"))
        return {
            gang.name for gang in gangs if all(bound[part] >= count for part, count in gang.least.items())
        }


class OnKubernetes(_PlacesPods):
    """Pod groups of Kubernetes' own scheduler, alone or below a composite."""

    name, collections = "kubernetes", (PODS, NATIVE, COMPOSITES)

    def prepare(self, api, chance, world):
        """Nothing: it reads nodes."""

    def draw(self, chance, world, name):
        gang = DrawnGang(name=f"{name}-0", shape="PodGroup")
        outer, inner, parts, above = "", chance.choice(["", ZONE, RACK, RACK]), 1, {}
        if chance.random() < 0.5:
            gang.shape, parts = "CompositePodGroup", chance.randint(1, 3)
            outer, inner = chance.choice([("", RACK), (ZONE, RACK), (ZONE, ""), (RACK, "")])
            gang.objects.append(
                made(COMPOSITES, "CompositePodGroup", name, _group(outer, minGroupCount=parts))
            )
            above = {"parentCompositePodGroupName": name}
        for part in (f"{name}-{number}" for number in range(parts)):
            count, further = chance.randint(1, 3), chance.choice([0, 0, 0, 1])
            gang.objects.append(made(NATIVE, "PodGroup", part, above | _group(inner, minCount=count)))
            spec = drawn_spec(chance, world, schedulingGroup={"podGroupName": part})
            gang.add_pods(part, count, spec, further=further)
        return gang


def _group(key, **gang):
    reference = {"workloadName": "job", "templateName": "t"}
    topology = {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
    return {"schedulingPolicy": {"gang": gang}, "workloadRef": reference, **topology}


class OnKai(_PlacesPods):
    """PodGroups of KAI, as its podgrouper and Grove write them."""

    name, collections = "kai", (PODS, KAI)

    def prepare(self, api, chance, world):
        levels = [{"nodeLabel": own_label(world.name, level.label)} for level in LEVELS]
        bounds = {name: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for name in ("cpu", "memory", "gpu")}
        api.create(*made(TOPOLOGIES, "Topology", world.name, {"levels": levels}))
        api.create(*made(QUEUES, "Queue", world.name, {"resources": bounds}))

    def draw(self, chance, world, name):
        gang = DrawnGang(name=name, shape=chance.choice(["PyTorchJob", "RayCluster", "PodCliqueSet"]))
        names = [f"s{number}" for number in range(chance.randint(2, 3))]
        parts = {part: chance.randint(1, 3) for part in ([""] if gang.shape == "PyTorchJob" else names)}
        outer = chance.choice(KAI_LEVELS)
        inner = chance.choice(
            [("", ""), (RACK, RACK), ("", RACK)] if gang.shape == "PodCliqueSet" else [("", "")]
        )
        spec = {"queue": world.name, "minMember": sum(parts.values()), **_constraint(world, *outer)}
        subgroups = [
            {"name": part, "minMember": count, **_constraint(world, *inner)} for part, count in parts.items()
        ]
        spec |= {"subGroups": subgroups} if names[0] in parts else {}
        gang.objects.append(made(KAI, "PodGroup", name, spec))
        for part, count in parts.items():
            words = {"annotations": {"pod-group-name": name}}
            words |= {"labels": {"kai.scheduler/subgroup-name": part}} if part else {}
            pod = drawn_spec(chance, world, schedulerName="kai-scheduler")
            gang.add_pods(f"{name}-{part or 'all'}", count, pod, further=chance.choice([0, 0, 0, 1]), **words)
        return gang


KAI_LEVELS = [
    *[("", ""), (RACK, RACK), (RACK, RACK), (ZONE, ZONE), (ZONE, RACK)],
    *[(RACK, ""), (ZONE, ""), ("", RACK), ("", ZONE)],
]
"""The levels that a gang requires and prefers."""


def _constraint(world, required, preferred):
    levels = {"requiredTopologyLevel": required, "preferredTopologyLevel": preferred}
    levels = {name: own_label(world.name, level) for name, level in levels.items() if level}
    return {"topologyConstraint": {"topology": world.name, **levels}} if levels else {}


class OnKueue:
    """Workloads as Kueue's integrations write them, switched off until each is explained.

    Its webhooks would be frozen with it.
    """

    name, collections, is_frozen = "kueue", (WORKLOADS,), False

    def prepare(self, api, chance, world):
        more = {"cpu": "1000", "memory": "10Ti", "pods": "1000"}
        queue = kueue_queues.Queue(
            name=world.name,
            local=world.name,
            namespace=NAMESPACE,
            node_labels={MINE: world.name},
            levels=[level.label for level in LEVELS],
            gpus=chance.choice([6, 1000, 1000, 1000]),
            more=more,
        )
        kueue_queues.apply(api, queue)

    def draw(self, chance, world, name):
        gang = DrawnGang(
            name=name, shape=chance.choice(["PyTorchJob", "JobSet", "LeaderWorkerSet", "RayCluster"])
        )
        count, jobs, request = chance.randint(1, 3), 1, _request(chance)
        sets = {"leader": (1, _request(chance)), "workers": (count, request)}
        if gang.shape == "JobSet":
            jobs = chance.randint(1, 2)
            outer = chance.choice([{"required": ZONE}, {"preferred": ZONE}, {}])
            slices = {"podSetSliceRequiredTopology": RACK, "podSetSliceSize": count}
            sets = {"workers": (count * jobs, outer | slices)}
        elif gang.shape == "LeaderWorkerSet":
            request = chance.choice([{"required": RACK}, {"required": ZONE}, {"preferred": RACK}])
            request = {**request, "podSetGroupName": "one"}
            sets = {"leader": (1, request), "workers": (count, request)}
        elif gang.shape == "RayCluster":
            sets = dict.fromkeys(["head", "small", "large"][: chance.randint(2, 3)], (count, request))
        templates = {part: {"spec": drawn_spec(chance, world)} for part in sets}
        if chance.random() < 0.5:
            templates = dict.fromkeys(sets, templates["workers" if "workers" in sets else "head"])
        pod_sets = [
            {"name": part, "count": count, "template": templates[part]}
            | ({"topologyRequest": asked} if asked else {})
            for part, (count, asked) in sets.items()
        ]
        spec = {"active": False, "queueName": world.name, "podSets": pod_sets}
        gang.objects.append(made(WORKLOADS, "Workload", name, spec))
        return gang

    def release(self, api, gang):
        api.patch(f"{WORKLOADS}/{gang.name}", {"spec": {"active": True}})

    def placed(self, api, gangs):
        found = {item["metadata"]["name"]: item.get("status", {}) for item in api.list(WORKLOADS)[0]}
        return {gang.name for gang in gangs if _is_true(found.get(gang.name, {}), "Admitted")}

    def unanswered(self, api, gangs):
        """Leaders with workers to which Kueue 0.17.0 never answers.

        Seen where a node has less free than the leader needs, probably because Kueue then assigns -1 pods.
        Without ``podSetGroupName`` the same sets are admitted.
        """
        found = {item["metadata"]["name"]: item.get("status", {}) for item in api.list(WORKLOADS)[0]}
        leaders = [gang.name for gang in gangs if gang.shape == "LeaderWorkerSet"]
        return {name for name in leaders if "QuotaReserved" not in str(found.get(name, {}).get("conditions"))}


def _request(chance):
    narrow = [{"required": RACK}, {"required": RACK}, {"required": HOSTNAME}, {"preferred": RACK}]
    return chance.choice([{}, {"required": ZONE}, {"preferred": ZONE}, {"unconstrained": True}, *narrow])


def _is_true(status, kind):
    return any((c["type"], c["status"]) == (kind, "True") for c in status.get("conditions", ()))


ON_SCHEDULERS = (OnKubernetes(), OnKueue(), OnKai())
