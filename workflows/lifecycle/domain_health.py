"""The health of a group's ComputeDomain: on which nodes of its pods NVIDIA's daemon is ready.

It is counted from the nodes of pods that hold a claim, never from the domain's own status, which is Ready
before any node has joined (ComputeDomain v1beta1: ``status.nodes`` with name, cliqueID and status). Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pools.conditions import Condition
from scheduling.sentences import agree, count_of, plain_listing

NVLINK_READY = "NVLinkReady"
READY = "Ready"
MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node that a ComputeDomain lists; ``clique`` is empty if it reports none."""

    name: str
    clique: str
    is_ready: bool


@dataclass(frozen=True, slots=True)
class DomainHealth:
    """``expected`` counts the nodes of pods with claims; ``unready`` names those that are not ready."""

    expected: int
    unready: tuple[str, ...]

    @property
    def sentence(self) -> str:
        ready = self.expected - len(self.unready)
        nodes, verb = count_of(self.expected, "node"), agree(ready, "is", "are")
        text = f"{ready} of {nodes} of its NVLink domain {verb} ready"
        if not self.unready:
            return f"{text}."
        return f"{text}. Not ready: {plain_listing(self.unready, limit=MOST_NAMED)}."

    @property
    def condition(self) -> Condition:
        return Condition(
            type=NVLINK_READY,
            status="False" if self.unready else "True",
            reason="NodesNotReady" if self.unready else "AllNodesReady",
            message=self.sentence,
        )


def domain_nodes(status: object) -> tuple[DomainNode, ...]:
    """The nodes that a domain's status lists; what is malformed is left out, because a cluster wrote it."""
    entries = status.get("nodes") if isinstance(status, Mapping) else None
    rows = entries if isinstance(entries, list) else []
    return tuple(
        DomainNode(row["name"], str(row.get("cliqueID") or ""), row.get("status") == READY)
        for row in rows
        if isinstance(row, Mapping) and isinstance(row.get("name"), str)
    )


def health_of(nodes: Sequence[DomainNode], pod_nodes: Collection[str]) -> DomainHealth:
    """The health of a domain whose pods with claims are on ``pod_nodes``."""
    ready = {node.name for node in nodes if node.is_ready}
    expected = set(pod_nodes)
    return DomainHealth(len(expected), tuple(sorted(expected - ready)))
