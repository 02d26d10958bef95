"""Pod groups together with their pods: what is ready, what is stale, what is left to place.

Groups and pods are joined by *bare name*: KAI's index ignores namespaces, so of two groups with one name the
last listed gets the pods of both ("Names are unique in the cluster"). A pod whose sub-group label fits no
leaf is dropped ("Pods outside the tree").
A pod without annotation becomes a group of one in the queue its label ``kai.scheduler/queue`` names. So does
one with ownerReferences whatever its annotation says: KAI's podgrouper overwrites that, unless the pod asks
to be skipped and the version knows how to.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from localcluster.standins.kai import tree
from localcluster.standins.kai.tree import DEFAULT, Inner, Leaf
from localcluster.standins.kai.values import Pod, PodGroup, Snapshot, Version
from localcluster.standins.kai.versions import VERSIONS

PREEMPTIBLE_BELOW = 100
DEFAULT_QUEUE = "default-queue"


@dataclass(slots=True)
class Job:
    """One pod group in one cycle; ``placed`` fills up while the cycle runs."""

    group: PodGroup
    tree: Inner
    priority: int
    pods: dict[str, list[Pod]]
    """Pods by leaf, oldest first."""
    dropped: list[Pod] = field(default_factory=list)
    placed: set[str] = field(default_factory=set)
    """Uids given a node in this cycle, bound or pipelined."""

    @property
    def name(self) -> str:
        return f"{self.group.namespace}/{self.group.name}"

    @property
    def preemptible(self) -> bool:
        if self.group.preemptibility:
            return self.group.preemptibility == "preemptible"
        return self.priority < PREEMPTIBLE_BELOW

    def all_pods(self) -> list[Pod]:
        """Every pod that belongs to a leaf."""
        return [pod for pods in self.pods.values() for pod in pods]

    def active(self, leaf: Leaf) -> int:
        """Pods of a leaf that hold a node, those placed in this cycle included."""
        return sum(pod.state == "active" or pod.uid in self.placed for pod in self.pods[leaf.name])

    def pending(self, leaf: Leaf) -> list[Pod]:
        """Pods of a leaf that still want a node; gated ones do not."""
        return [pod for pod in self.pods[leaf.name] if pod.state == "pending" and pod.uid not in self.placed]

    @property
    def has_minimum(self) -> bool:
        """Whether every leaf has its minimum on nodes."""
        return all(self.active(leaf) >= leaf.min_member for leaf in self.tree.leaves())

    def any_active(self) -> bool:
        """Whether any pod of the group holds a node."""
        return any(pod.state == "active" or pod.uid in self.placed for pod in self.all_pods())

    def unready(self) -> list[tuple[Leaf, int, int]]:
        """Leaves with too few live pods, each with how many exist and how many of those are gated."""
        short: list[tuple[Leaf, int, int]] = []
        for leaf in self.tree.leaves():
            alive = [pod for pod in self.pods[leaf.name] if pod.state in ("gated", "pending", "active")]
            gated = sum(pod.state == "gated" for pod in alive)
            if len(alive) - gated < leaf.min_member:
                short.append((leaf, len(alive), gated))
        return short

    def to_place(self) -> dict[str, list[Pod]]:
        """The next pods to place together: first every leaf's minimum, then one more pod at a time."""
        gang: dict[str, list[Pod]] = {}
        for leaf in self.tree.leaves():
            missing = leaf.min_member - self.active(leaf)
            if missing > 0:
                gang[leaf.name] = self.pending(leaf)[:missing]
        if any(gang.values()):
            return gang
        for leaf in self.tree.leaves():
            if extra := self.pending(leaf)[:1]:
                return {leaf.name: extra}
        return {}

    def stale(self, *, forgets_finished: bool) -> list[tuple[Leaf, int]]:
        """Leaves below their minimum while the gang runs; none once a pod has succeeded.

        A pod that is being deleted counts until it is gone. A version that forgets finished pods does not
        know that one has succeeded.
        """
        pods = self.all_pods()
        succeeded = not forgets_finished and any(pod.state == "succeeded" for pod in pods)
        if succeeded or not any(pod.state == "active" for pod in pods):
            return []
        counted = ("active", "releasing", "stuck")
        counts = [
            (leaf, sum(p.state in counted for p in self.pods[leaf.name])) for leaf in self.tree.leaves()
        ]
        return [(leaf, count) for leaf, count in counts if count < leaf.min_member]


def jobs_of(snapshot: Snapshot, *, version: Version) -> list[Job]:
    """Join groups and pods; pods that name a group which does not exist are left out silently."""
    ordered = sorted(snapshot.groups, key=lambda group: (group.namespace, group.name))
    by_name = {group.name: _job(group, snapshot, version=version) for group in ordered}
    singles: list[Job] = []
    for pod in sorted(snapshot.pods, key=lambda pod: (pod.created, pod.namespace, pod.name)):
        if not pod.is_kai:
            continue
        regrouped = pod.owned and not (pod.skips_grouper and VERSIONS[version].skips_podgrouper)
        if pod.group is None or regrouped:
            singles.append(_single(pod, snapshot, version=version))
        elif job := by_name.get(pod.group):
            _attach(job, pod)
    return [*by_name.values(), *singles]


def _job(group: PodGroup, snapshot: Snapshot, *, version: Version) -> Job:
    root = tree.tree_of(group, version=version)
    priority = snapshot.priorities.get(group.priority_class, snapshot.default_priority)
    return Job(group, root, priority, {leaf.name: [] for leaf in root.leaves()})


def _attach(job: Job, pod: Pod) -> None:
    leaf = pod.subgroup or DEFAULT
    if leaf in job.pods:
        job.pods[leaf].append(pod)
    else:
        job.dropped.append(pod)


def _single(pod: Pod, snapshot: Snapshot, *, version: Version) -> Job:
    group = PodGroup(
        namespace=pod.namespace,
        name=f"pg-{pod.name}-{pod.uid}",
        uid="",
        created=pod.created,
        queue=pod.queue_label or DEFAULT_QUEUE,
        min_member=1,
        real=False,
    )
    job = _job(group, snapshot, version=version)
    job.pods[DEFAULT].append(pod)
    return job


def by_priority(jobs: Iterable[Job]) -> list[Job]:
    """Order as KAI does within a queue: priority, groups below their minimum, age, name (plugins/elastic)."""
    return sorted(jobs, key=lambda job: (-job.priority, job.has_minimum, job.group.created, job.name))
