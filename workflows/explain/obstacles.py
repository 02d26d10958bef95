"""Obstacles that are seen in objects and not in what a scheduler says, each as a value with its words.

A scheduler that places each set of a gang by itself says nothing of the set that runs; none says whose
ComputeDomain holds a node's channel, which image is not one, or that a Topology object was changed by
hand. Pure: values in, sentences and evidence (JSON) out. Lists are cut in words and evidence alike, since a
gang may have 10,000 tasks.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scheduling.drift import Drift, TopologyState
from scheduling.sentences import agree, count_of, plain_listing, plural

Json = dict[str, Any]

MOST_NAMED = 3
MOST_EVIDENCE = 20
ANOTHER_WORKFLOW = "another workflow"
"""Whoever it is whose name is not told."""

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
class SplitSet:
    """One set of a gang that became several pod groups: which tasks have a node, and which do not."""

    words: str
    placed: tuple[str, ...]
    waiting: tuple[str, ...]
    nodes: tuple[str, ...]

    @property
    def tasks(self) -> int:
        return len(self.placed) + len(self.waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class OccupiedNode:
    """A node that carries another ComputeDomain's label.

    ``workflow`` is empty for a foreign ComputeDomain and ANOTHER_WORKFLOW for one of another pool.

    ``ended``: its group has ended, or nobody here knows it; ``removing``: its deletion has begun.
    """

    node: str
    domain: str
    workflow: str = ""
    ended: bool
    removing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingContainer:
    """A container on a node that is not started, and what its kubelet says."""

    task: str
    image: str = ""
    reason: str
    message: str = ""

    @property
    def is_image(self) -> bool:
        return self.reason in IMAGE_REASONS


@dataclass(frozen=True, slots=True)
class TopologyDrift:
    """A Topology object that is not what the group's constraints were made for."""

    name: str
    state: TopologyState


def is_split(halves: Sequence[SplitSet]) -> bool:
    """Whether one set has its nodes while another waits."""
    return any(one.placed for one in halves) and any(one.waiting for one in halves)


def split_sentence(halves: Sequence[SplitSet]) -> str:
    """Say which sets of a split gang run and which wait."""
    whole = [one for one in halves if not one.waiting]
    waits = [one for one in halves if one.waiting]
    has = f"{_sets(whole)} {agree(len(whole), 'has its', 'have their')} nodes, while " if whole else ""
    verb = agree(len(waits), "waits", "wait")
    return (
        f"Only part of the group has nodes: {has}{_sets(waits)} still {verb}. This scheduler places each set "
        "of tasks that must be together by itself, not the group as a whole."
    )


def _sets(halves: Sequence[SplitSet]) -> str:
    said = [f"{one.words} ({count_of(one.tasks, 'task')})" for one in halves]
    return plain_listing(said, limit=MOST_NAMED)


def split_evidence(halves: Sequence[SplitSet]) -> list[Json]:
    return [
        {
            "set": one.words,
            "tasks": one.tasks,
            "placed": list(one.placed[:MOST_EVIDENCE]),
            "waiting": list(one.waiting[:MOST_EVIDENCE]),
            "nodes": list(one.nodes[:MOST_EVIDENCE]),
        }
        for one in halves[:MOST_EVIDENCE]
    ]


def occupied_sentence(held: Sequence[OccupiedNode]) -> str:
    """Say whose former ComputeDomain holds which nodes; one sentence for each of the first few."""
    by_domain: dict[tuple[str, str, bool], list[str]] = {}
    for one in held:
        by_domain.setdefault((one.domain, one.workflow, one.removing), []).append(one.node)
    said = [
        f"{_nodes(nodes)} still held by {_whose(*domain)}."
        for domain, nodes in list(by_domain.items())[:MOST_NAMED]
    ]
    if rest := len(by_domain) - MOST_NAMED:
        said += [f"{count_of(rest, 'more ComputeDomain')} hold others."] if rest > 0 else []
    return " ".join(said)


def _nodes(nodes: Sequence[str]) -> str:
    number = len(nodes)
    return f"{plural(number, 'Node')} {plain_listing(nodes, limit=MOST_NAMED)} {agree(number, 'is', 'are')}"


def _whose(domain: str, workflow: str, removing: bool) -> str:  # noqa: FBT001 -- the fields of a key, in order
    if not workflow:
        return f"ComputeDomain {domain}, which this service did not make or has already removed"
    state = "is being removed" if removing else "has not been removed yet"
    whose = workflow if workflow == ANOTHER_WORKFLOW else f"workflow {workflow}"
    return f"ComputeDomain {domain} of {whose}, which has ended; it {state}"


def image_sentence(waits: Sequence[WaitingContainer]) -> str:
    """Say which images cannot be started, of which tasks, and what the node says."""
    by_image: dict[tuple[str, str, str], list[str]] = {}
    for one in waits:
        by_image.setdefault((one.image, one.reason, one.message), []).append(one.task)
    said = []
    for (image, reason, message), tasks in list(by_image.items())[:MOST_NAMED]:
        named = f"Image {image}" if image else "The image"
        whose = f"{plural(len(tasks), 'task')} {plain_listing(tasks, limit=MOST_NAMED)}"
        detail = f" The node says: {message}" if message else ""
        said.append(f"{named} of {whose} {_IMAGE_WORDS.get(reason, _CANNOT)} ({reason}).{detail}")
    return " ".join(_stop(one) for one in said)


_CANNOT = "cannot be pulled"
_IMAGE_WORDS = {
    "InvalidImageName": "is not a valid image name",
    "ErrImageNeverPull": "is not on the node and may not be pulled",
}


def drift_sentence(drift: TopologyDrift) -> str:
    """Say how somebody changed the Topology object, and what that does."""
    if not isinstance(drift.state, Drift):
        return f'Topology "{drift.name}" was removed from the cluster.'
    said = ", ".join(drift.state.found) or "nothing"
    return (
        f'Topology "{drift.name}" was changed in the cluster: it lists {said} where '
        f"{', '.join(drift.state.expected)} is expected. Only nodes that carry all of its labels can be used."
    )


def drift_evidence(drift: TopologyDrift) -> Json:
    state = drift.state
    if isinstance(state, Drift):
        return {"topology": drift.name, "expected": list(state.expected), "found": list(state.found)}
    return {"topology": drift.name, "found": None}


def evidence_of(values: Sequence[OccupiedNode | WaitingContainer]) -> list[Json]:
    return [asdict(one) for one in values[:MOST_EVIDENCE]]


def _stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
