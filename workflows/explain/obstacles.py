"""Obstacles that objects show and the scheduler does not mention, each as a value with its sentence.

A scheduler that places each set of a gang by itself does not report the set that runs. No scheduler says
which ComputeDomain holds a node's channel, which image does not exist, or that a Topology object was changed
by hand. Pure: values in, sentences and evidence (JSON) out. Lists are cut in both, since a gang may have
10,000 tasks.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from scheduling.sentences import agree, count_of, plain_listing, plural
from scheduling.topology.drift import Drift, TopologyState
from workflows.feasibility.verdict.sentences import ANOTHER_WORKFLOW

Json = dict[str, Any]

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


@dataclass(frozen=True, slots=True)
class TopologyDrift:
    """A Topology object that differs from the one the group's constraints were made for."""

    name: str
    state: TopologyState


def unprepared_sentence(claims: Sequence[UnpreparedClaim]) -> str:
    """Say in the kubelets' own words why claims are not prepared; the first stands for all."""
    first = claims[0]
    message = first.message.removeprefix(_PREPARING).strip().rstrip(".")
    if len(message) > MOST_MESSAGE:
        message = f"{message[:MOST_MESSAGE]}..."
    more = f" The same holds for {count_of(len(claims) - 1, 'more task')}." if len(claims) > 1 else ""
    return f"The kubelet of {first.node} cannot prepare the claims of task {first.task}: {message}.{more}"


def busy_sentence(nodes: Sequence[BusyNode]) -> str:
    """Say which assigned node a task cannot get, who uses it, and what follows; the first stands for all."""
    first = nodes[0]
    message = f" ({first.message.rstrip('.')})" if first.message else ""
    more = f" The same holds for {count_of(len(nodes) - 1, 'more task')}." if len(nodes) > 1 else ""
    return (
        f"Task {first.task} cannot be bound to node {first.node}, which the group's scheduler assigned to "
        f"it{message}. {first.users}{more} At {min(node.until for node in nodes):%H:%M:%S} UTC the group's "
        "room is given back and asked for again, unless all its tasks have their nodes."
    )


def busy_evidence(nodes: Sequence[BusyNode]) -> list[Json]:
    return [
        {"task": node.task, "node": node.node, "said": node.message, "users": node.users}
        for node in nodes[:MOST_EVIDENCE]
    ]


def barrier_sentence(wait: BarrierWait) -> str:
    """Say who waits at the start barrier, and for whom as far as the pods show."""
    number, lacking = len(wait.tasks), wait.without_address
    verb = agree(number, "waits", "wait")
    text = (
        f"{number} of {count_of(wait.live, 'task')} {verb} at the start barrier for the addresses of "
        f"{agree(number, 'its', 'their')} peers: "
        f"{plain_listing(wait.tasks, limit=MOST_NAMED)}."
    )
    if not lacking:
        return f"{text} All pods have addresses, which their DNS does not show yet."
    return f"{text} Without an address yet: {plain_listing(lacking, limit=MOST_NAMED)}."


def barrier_evidence(wait: BarrierWait) -> Json:
    return {
        "waiting": list(wait.tasks[:MOST_EVIDENCE]),
        "without_address": list(wait.without_address[:MOST_EVIDENCE]),
    }


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
    sentences = [occupied_sentence(former)] if former else []
    if number := len(nodes) - len(former):
        whose = agree(number, "its", "their")
        verb = agree(number, "is", "are")
        sentences.append(
            f"{count_of(number, 'node')} {verb} left out, because other work holds {whose} NVLink channel."
        )
    return " ".join(sentences)


def _nodes(nodes: Sequence[str]) -> str:
    number = len(nodes)
    return f"{plural(number, 'Node')} {plain_listing(nodes, limit=MOST_NAMED)} {agree(number, 'is', 'are')}"


def _domain(domain: str, workflow: str, removing: bool) -> str:  # noqa: FBT001 -- the fields of a key, in order
    if not workflow:
        return f"ComputeDomain {domain}, which this service did not create or has already removed"
    state = "is being removed" if removing else "has not been removed yet"
    owner = workflow if workflow == ANOTHER_WORKFLOW else f"workflow {workflow}"
    return f"ComputeDomain {domain} of {owner}, which has ended; it {state}"


def image_sentence(containers: Sequence[WaitingContainer]) -> str:
    """Say which images cannot be started, for which tasks, and the node's message."""
    by_image: dict[tuple[str, str, str], list[str]] = {}
    for container in containers:
        key = (container.image, container.reason, container.message)
        by_image.setdefault(key, []).append(container.task)
    sentences = []
    for (image, reason, message), tasks in list(by_image.items())[:MOST_NAMED]:
        name = f"Image {image}" if image else "The image"
        users = f"{plural(len(tasks), 'task')} {plain_listing(tasks, limit=MOST_NAMED)}"
        detail = f" The node says: {message}" if message else ""
        text = f"{name} of {users} {_IMAGE_FAULTS.get(reason, _CANNOT)} ({reason}).{detail}"
        sentences.append(text if text.endswith((".", "!", "?")) else f"{text}.")
    return " ".join(sentences)


_CANNOT = "cannot be pulled"
_IMAGE_FAULTS = {
    "InvalidImageName": "is not a valid image name",
    "ErrImageNeverPull": "is not on the node and may not be pulled",
}


def drift_sentence(drift: TopologyDrift) -> str:
    """Say how somebody changed the Topology object, and the consequence."""
    if not isinstance(drift.state, Drift):
        return f'Topology "{drift.name}" was removed from the cluster.'
    labels = ", ".join(drift.state.observed) or "nothing"
    return (
        f'Topology "{drift.name}" was changed in the cluster: it lists {labels} where '
        f"{', '.join(drift.state.expected)} is expected. Only nodes that carry all of its labels can be used."
    )


def drift_evidence(drift: TopologyDrift) -> Json:
    state = drift.state
    if isinstance(state, Drift):
        return {"topology": drift.name, "expected": list(state.expected), "found": list(state.observed)}
    return {"topology": drift.name, "found": None}


def evidence_of(values: Sequence[OccupiedNode | UnpreparedClaim | WaitingContainer]) -> list[Json]:
    return [asdict(value) for value in values[:MOST_EVIDENCE]]
