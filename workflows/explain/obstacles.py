"""Obstacles that objects show and the scheduler does not mention, each as a value with its sentence.

A scheduler that places each set of a gang by itself does not report the set that runs. No scheduler says
which ComputeDomain holds a node's channel, which image does not exist, or that a Topology object was changed
by hand. Pure: values in, sentences and evidence (JSON) out. Lists are cut in both, since a gang may have
10,000 tasks.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from scheduling.sentences import agree, count_of, plain_listing, plural
from scheduling.topology.drift import Drift, TopologyState
from web.times import naive_utc
from workflows.explain.reasons import Json, Reason, Why
from workflows.feasibility.verdict.sentences import ANOTHER_WORKFLOW
from workflows.lifecycle.domain_health import DomainHealth

MOST_NAMED = 3
MOST_EVIDENCE = 20
MOST_MESSAGE = 300
_PREPARING = "Failed to prepare dynamic resources: "

IMAGE_REASONS = frozenset(
    {
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OccupiedNode:
    """A node that carries another ComputeDomain's label.

    ``workflow`` is empty for a foreign ComputeDomain and ANOTHER_WORKFLOW for one of another pool.
    ``ended``: its group has ended or is unknown here; ``removing``: its deletion has begun.
    """

    node: str
    domain: str
    workflow: str = ""
    ended: bool
    removing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingContainer:
    """A container on a node that has not started, and its kubelet's reason."""

    task: str
    image: str = ""
    reason: str
    message: str = ""

    @property
    def is_image(self) -> bool:
        return self.reason in IMAGE_REASONS


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpreparedClaim:
    """A task on a node whose kubelet cannot prepare its claims, and the kubelet's last message of it."""

    task: str
    node: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyNode:
    """A node that a task's pod cannot be bound to, although the group's scheduler assigned it.

    ``message`` is from the scheduler that binds, ``users`` says who uses the node as far as is known.
    ``until`` is when the group's room is given back.
    """

    task: str
    node: str
    message: str
    users: str
    until: datetime

    @property
    def verdict(self) -> str:
        """Why the group's room is given back."""
        message = f" The scheduler that binds reports: {self.message.rstrip('.')}." if self.message else ""
        text = f"Its pod cannot be bound to node {self.node}, which its group's scheduler had assigned."
        return f"{text} {self.users}{message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BarrierWait:
    """Tasks whose start barrier is at work, of how many live ones, and live tasks without an address."""

    tasks: tuple[str, ...]
    live: int
    without_address: tuple[str, ...]

    @property
    def reason(self) -> Reason:
        """Who waits at the start barrier, and for whom as far as the pods show."""
        number, lacking = len(self.tasks), self.without_address
        peers = (
            f"Without an address yet: {plain_listing(lacking, limit=MOST_NAMED)}."
            if lacking
            else "All pods have addresses, which their DNS does not show yet."
        )
        return Reason(
            Why.BARRIER,
            f"{number} of {count_of(self.live, 'task')} {agree(number, 'waits', 'wait')} at the start "
            f"barrier for the addresses of {agree(number, 'its', 'their')} peers: "
            f"{plain_listing(self.tasks, limit=MOST_NAMED)}. {peers}",
            {
                "start_barrier": {
                    "waiting": list(self.tasks[:MOST_EVIDENCE]),
                    "without_address": list(lacking[:MOST_EVIDENCE]),
                }
            },
        )


@dataclass(frozen=True, slots=True)
class TopologyDrift:
    """A Topology object that differs from the one the group's constraints were made for."""

    name: str
    state: TopologyState

    @property
    def sentence(self) -> str:
        """How somebody changed the Topology object, and the consequence."""
        if not isinstance(self.state, Drift):
            return f'Topology "{self.name}" was removed from the cluster.'
        labels = ", ".join(self.state.observed) or "nothing"
        return (
            f'Topology "{self.name}" was changed in the cluster: it lists {labels} where '
            f"{', '.join(self.state.expected)} is expected. Only nodes that carry all of its labels can be "
            "used."
        )

    @property
    def evidence(self) -> Json:
        if isinstance(self.state, Drift):
            expected, observed = list(self.state.expected), list(self.state.observed)
            return {"topology": self.name, "expected": expected, "found": observed}
        return {"topology": self.name, "found": None}


def unprepared_sentence(claims: Sequence[UnpreparedClaim]) -> str:
    """Say in the kubelets' own words why claims are not prepared; the first stands for all."""
    if not claims:
        return ""
    first = claims[0]
    message = first.message.removeprefix(_PREPARING).strip().rstrip(".")
    if len(message) > MOST_MESSAGE:
        message = f"{message[:MOST_MESSAGE]}..."
    more = f" The same holds for {count_of(len(claims) - 1, 'more task')}." if len(claims) > 1 else ""
    return f"The kubelet of {first.node} cannot prepare the claims of task {first.task}: {message}.{more}"


def busy_reason(nodes: Sequence[BusyNode], occupied: Sequence[OccupiedNode]) -> Reason:
    """The assigned node that a task cannot get, who uses it, and what follows; the first stands for all."""
    first = nodes[0]
    message = f" ({first.message.rstrip('.')})" if first.message else ""
    more = f" The same holds for {count_of(len(nodes) - 1, 'more task')}." if len(nodes) > 1 else ""
    channels = f" {occupied_sentence(occupied)}" if occupied else ""
    return Reason(
        Why.NODE_BUSY,
        f"Task {first.task} cannot be bound to node {first.node}, which the group's scheduler assigned to "
        f"it{message}. {first.users}{more} At {min(node.until for node in nodes):%H:%M:%S} UTC the group's "
        f"room is given back and asked for again, unless all its tasks have their nodes.{channels}",
        {
            "assigned_nodes": [
                {"task": node.task, "node": node.node, "said": node.message, "users": node.users}
                for node in nodes[:MOST_EVIDENCE]
            ]
        },
    )


def occupied_sentence(nodes: Sequence[OccupiedNode]) -> str:
    """Say which former ComputeDomain still holds which nodes; one sentence for each of the first few."""
    by_domain: dict[tuple[str, str, bool], list[str]] = {}
    for node in nodes:
        by_domain.setdefault((node.domain, node.workflow, node.removing), []).append(node.node)
    sentences = [
        f"{_nodes(names)} still held by {_domain(*domain)}."
        for domain, names in list(by_domain.items())[:MOST_NAMED]
    ]
    if (others := len(by_domain) - MOST_NAMED) > 0:
        sentences.append(f"{count_of(others, 'more ComputeDomain')} {agree(others, 'holds', 'hold')} others.")
    return " ".join(sentences)


def held_sentence(nodes: Sequence[OccupiedNode]) -> str:
    """Say on which nodes no room is asked for: by name where their domain has ended, else their number."""
    former = [node for node in nodes if node.ended]
    sentences = [occupied_sentence(former)]
    if number := len(nodes) - len(former):
        whose = agree(number, "its", "their")
        verb = agree(number, "is", "are")
        sentences.append(
            f"{count_of(number, 'node')} {verb} left out, because other work holds {whose} NVLink channel."
        )
    return " ".join(filter(None, sentences))


def _nodes(nodes: Sequence[str]) -> str:
    number = len(nodes)
    return f"{plural(number, 'Node')} {plain_listing(nodes, limit=MOST_NAMED)} {agree(number, 'is', 'are')}"


def _domain(domain: str, workflow: str, removing: bool) -> str:  # noqa: FBT001 -- the fields of a key, in order
    if not workflow:
        return f"ComputeDomain {domain}, which this service did not create or has already removed"
    state = "is being removed" if removing else "has not been removed yet"
    owner = workflow if workflow == ANOTHER_WORKFLOW else f"workflow {workflow}"
    return f"ComputeDomain {domain} of {owner}, which has ended; it {state}"


def image_reason(containers: Sequence[WaitingContainer]) -> Reason | None:
    """The images that cannot be started, for which tasks, and the node's message; None if all can."""
    at_fault = [container for container in containers if container.is_image]
    by_image: dict[tuple[str, str, str], list[str]] = {}
    for container in at_fault:
        key = (container.image, container.reason, container.message)
        by_image.setdefault(key, []).append(container.task)
    sentences = []
    for (image, reason, message), tasks in list(by_image.items())[:MOST_NAMED]:
        name = f"Image {image}" if image else "The image"
        users = f"{plural(len(tasks), 'task')} {plain_listing(tasks, limit=MOST_NAMED)}"
        detail = f" The node says: {message}" if message else ""
        text = f"{name} of {users} {_IMAGE_FAULTS.get(reason, _CANNOT)} ({reason}).{detail}"
        sentences.append(text if text.endswith((".", "!", "?")) else f"{text}.")
    evidence = {"containers": evidence_of(at_fault)}
    return Reason(Why.IMAGE, " ".join(sentences), evidence) if at_fault else None


_CANNOT = "cannot be pulled"
_IMAGE_FAULTS = {
    "InvalidImageName": "is not a valid image name",
    "ErrImageNeverPull": "is not on the node and may not be pulled",
}


def evidence_of(values: Sequence[OccupiedNode | UnpreparedClaim | WaitingContainer]) -> list[Json]:
    return [asdict(value) for value in values[:MOST_EVIDENCE]]


def domain_evidence(domain: DomainHealth) -> Json:
    unready = domain.unready[:MOST_EVIDENCE]
    since = {
        node: naive_utc(domain.since[node], precision="seconds") for node in unready if node in domain.since
    }
    return {"nvlink_domain": {"nodes": domain.expected, "unready": list(unready), "since": since}}
