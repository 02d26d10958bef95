"""What Kubernetes' own rules ask beyond resources: before any node is looked at, and of each node.

*Before any node* (``before_nodes``): a volume claim that does not exist, a ConfigMap that does not, a pod
larger than any node. KAI reports all that fail at once, each on a line of its own. *Of a node*
(``Neighbours``): host ports, and required affinity and anti-affinity to other pods, those of pods that are
there included; a pod that is being deleted still counts.

Not played: claims that exist but are not bound, node affinity of volumes, preferred terms, namespace
selectors, and the ConfigMap ``kube-root-ca.crt``, whose publisher does not run on the local cluster.
Source: KAI ``plugins/predicates/predicates.go``, ``k8s_internal/predicates/config_maps.go`` and
``maxNodeResources.go``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from localcluster.standins.kai.messages import human
from localcluster.standins.kai.values import GPU, NODE_POOL, Node, Pod, PodTerm, Snapshot

ENDED = ("succeeded", "failed")
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
OTHERS_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"
PORTS = "node(s) didn't have free ports for the requested pod ports"

_NAMES = ((GPU, "GPU", ""), ("cpu", "CPU", " cores"), ("memory", "memory", " GB"))


def before_nodes(pod: Pod, snapshot: Snapshot, largest: Mapping[str, int]) -> str | None:
    """Why no node is looked at for the pod, or None; ``largest`` is the most that any one node has."""
    missing = [name for name in pod.config_maps if (pod.namespace, name) not in snapshot.config_maps]
    errors = {
        "VolumeBinding": _volumes(pod, snapshot),
        "ConfigMap": f"Missing required configmaps: [{' '.join(missing)}]" if missing else None,
        "MaxNodePoolResources": _too_large(pod, largest),
    }
    lines = "".join(f"{name}: {error}.\n" for name, error in errors.items() if error)
    head = f"Scheduling conditions were not met for pod {pod.namespace}/{pod.name}:\n"
    return f"{head}{lines}" if lines else None


def largest_of(nodes: Iterable[Node]) -> dict[str, int]:
    """The most that one node has of each resource."""
    largest: dict[str, int] = {}
    for node in nodes:
        for resource, amount in node.allocatable.items():
            largest[resource] = max(largest.get(resource, 0), amount)
    return largest


def _volumes(pod: Pod, snapshot: Snapshot) -> str | None:
    for name in pod.volume_claims:
        deleting = snapshot.volume_claims.get((pod.namespace, name))
        if deleting is None:
            return f'persistentvolumeclaim "{name}" not found'
        if deleting:
            return f'persistentvolumeclaim "{name}" is being deleted'
    return None


def _too_large(pod: Pod, largest: Mapping[str, int]) -> str | None:
    requests = dict(pod.shape.requests)
    others = [(name, name, "") for name in requests if name not in ("pods", *(n for n, _, _ in _NAMES))]
    for resource, word, unit in (*_NAMES, *others):
        most = largest.get(resource, 0)
        if requests.get(resource, 0) <= most:
            continue
        asks = f"The pod {pod.namespace}/{pod.name} requires {_detailed(requests)}. "
        if not most:
            return f"{asks}No node in the {NODE_POOL} node-pool has {word} resources"
        top = f"in the {NODE_POOL} node-pool is topped at {human(resource, most)}{unit}"
        return f"{asks}Max {word} resources available in a single node {top}"
    return None


def _detailed(requests: Mapping[str, int]) -> str:
    gpu, cpu, memory = (human(resource, requests.get(resource, 0)) for resource, _, _ in _NAMES)
    counted = {name for name, _, _ in _NAMES}
    rest = "".join(
        f", {name}: {human(name, amount)}" for name, amount in sorted(requests.items()) if name not in counted
    )
    return f"GPU: {gpu}, CPU: {cpu} (cores), memory: {memory} (GB){rest}"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pods on nodes during one cycle: what was there before it, and what was placed in it."""

    nodes: Mapping[str, Node]
    before: Sequence[tuple[Pod, str]]

    @classmethod
    def of(cls, nodes: Mapping[str, Node], pods: Iterable[Pod]) -> "Neighbours":
        placed = ((pod, pod.node) for pod in pods if pod.node in nodes and pod.state not in ENDED)
        return cls(nodes, tuple((pod, node) for pod, node in placed if node is not None))

    @property
    def shy(self) -> bool:
        """Whether any pod there keeps others off by anti-affinity."""
        return any(keeps_off(pod) for pod, _ in self.before)

    def refusal(self, pod: Pod, node: str, placed: Iterable[tuple[Pod, str]]) -> str | None:
        """Why the pods there, with those ``placed`` in this cycle, keep this one off a node, or None."""
        everybody = [*self.before, *placed]
        if not pod.shape.ports and not pod.shape.terms:
            return self._repelled(pod, node, everybody)
        ports = {port for other, name in everybody if name == node for port in other.shape.ports}
        if ports & set(pod.shape.ports):
            return PORTS
        for term in (term for term in pod.shape.terms if not term.anti):
            if not self._attracted(pod, node, term, everybody):
                return AFFINITY
        for term in (term for term in pod.shape.terms if term.anti):
            if any(self._near(node, name, term) and _selects(term, pod, o) for o, name in everybody):
                return ANTI_AFFINITY
        return self._repelled(pod, node, everybody)

    def _repelled(self, pod: Pod, node: str, everybody: Sequence[tuple[Pod, str]]) -> str | None:
        for other, name in everybody:
            for term in other.shape.terms:
                if term.anti and self._near(node, name, term) and _selects(term, other, pod):
                    return OTHERS_ANTI_AFFINITY
        return None

    def _attracted(self, pod: Pod, node: str, term: PodTerm, everybody: Sequence[tuple[Pod, str]]) -> bool:
        """Whether a pod of the term stands in the node's domain; the first of its kind may go anywhere."""
        if term.topology_key not in self.nodes[node].labels:
            return False
        kin = [name for other, name in everybody if _selects(term, pod, other)]
        if not kin:
            return _selects(term, pod, pod)
        return any(self._near(node, name, term) for name in kin)

    def _near(self, node: str, other: str, term: PodTerm) -> bool:
        domain = self.nodes[node].labels.get(term.topology_key)
        return domain is not None and domain == self.nodes[other].labels.get(term.topology_key)


def keeps_off(pod: Pod) -> bool:
    """Whether a pod has a term of anti-affinity."""
    return any(term.anti for term in pod.shape.terms)


def _selects(term: PodTerm, owner: Pod, other: Pod) -> bool:
    if other.namespace not in (term.namespaces or (owner.namespace,)):
        return False
    labels = dict(other.labels)
    return bool(term.selector) and all(match.holds(labels) for match in term.selector)
