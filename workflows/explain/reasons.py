"""Why a task group waits: the kinds of reasons, and a reason as a value that its user can act on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scheduling.sentences import listing

Json = dict[str, Any]

MOST_UPSTREAM = 20


class Why(StrEnum):
    """The kind of a reason; a group has one at a time, the first obstacle on its way."""

    UPSTREAM = "upstream"
    ATTEMPT = "attempt_before"
    NO_PROGRESS = "no_progress"
    CLUSTER = "cluster_unreachable"
    LABELS = "labels"
    DRIFT = "drift"
    NOT_MADE = "not_made"
    MISSING = "missing_object"
    NAMESPACE_QUOTA = "namespace_quota"
    NOT_SERVED = "compute_domain_not_served"
    CLAIM_TEMPLATE = "claim_template"
    CREATING = "creating"
    QUOTA = "quota"
    TOPOLOGY = "topology"
    CAPACITY = "capacity"
    NODES = "nodes_closed"
    POD = "pod_not_placeable"
    CHANNEL = "channel_held"
    CLAIM = "claim"
    PODS = "pods_missing"
    SCHEDULER = "scheduler"
    SILENT = "scheduler_silent"
    DISAGREES = "scheduler_disagrees"
    PATIENCE = "patience"
    IMAGE = "image"
    NVLINK = "nvlink_domain"
    NODE_AWAY = "node_away"
    LOSS = "loss_unexplained"
    BARRIER = "start_barrier"
    STARTING = "starting"
    RETRY = "retry"
    NODE_BUSY = "assigned_node_busy"
    UNKNOWN_SCHEDULER = "unknown_scheduler"
    UNFORESEEN = "unforeseen_error"

    @property
    def help(self) -> str:
        """What helps, as far as the kind says it."""
        return HELP[self]


HELP: Mapping[Why, str] = {
    Why.UPSTREAM: "Nothing to do: it starts by itself.",
    Why.ATTEMPT: "Nothing to do: the next attempt begins by itself.",
    Why.NO_PROGRESS: "An administrator finds out what takes its room each time: the last loss says it.",
    Why.CLUSTER: "An administrator checks the backend; the group continues when the cluster answers.",
    Why.LABELS: "An administrator puts the labels back on the nodes, or corrects the pool's topology keys.",
    Why.DRIFT: "An administrator restores the Topology object, or corrects the pool's topology keys.",
    Why.NOT_SERVED: "An administrator installs or repairs NVIDIA's DRA driver for ComputeDomains.",
    Why.NOT_MADE: "The service tries again; an administrator removes the cause that it names.",
    Why.MISSING: "An administrator creates what is missing, or corrects the pod template that names it; the "
    "group then goes on by itself.",
    Why.NAMESPACE_QUOTA: "Wait until work of the namespace ends, or ask its administrator for more.",
    Why.CLAIM_TEMPLATE: "An administrator checks the ComputeDomain controller of the cluster.",
    Why.CREATING: "Nothing to do.",
    Why.QUOTA: "Wait until work of the pool ends, ask for a larger guarantee, or submit with priority LOW.",
    Why.TOPOLOGY: "Wait for the nearest domain, put fewer tasks in one domain, or prefer the key instead.",
    Why.CAPACITY: "Wait until work ends, ask for less, or use another pool.",
    Why.NODES: "Wait until nodes are open again; an administrator uncordons them or looks after them.",
    Why.POD: "An administrator corrects the pool's pod template, or makes the object that it names.",
    Why.CHANNEL: "Wait until the former ComputeDomain of the node is gone.",
    Why.CLAIM: "Wait until work with NVLink ends; otherwise an administrator checks the resource claims.",
    Why.PODS: "Nothing to do: missing objects are created again.",
    Why.SCHEDULER: "Read the scheduler's message.",
    Why.SILENT: "An administrator checks whether the scheduler runs.",
    Why.DISAGREES: "An administrator looks at the scheduler; a restart of it has helped others.",
    Why.PATIENCE: "Wait: the preference stops being required when its time is over.",
    Why.IMAGE: "Cancel, correct the image's name or its registry's credentials, and submit again.",
    Why.NVLINK: "Nothing to do for a minute; then an administrator looks at NVIDIA's daemon on these nodes.",
    Why.NODE_AWAY: "An administrator repairs or removes the node; if it comes back in time, work goes on.",
    Why.LOSS: "Nothing to do: it is decided within seconds, at most 90.",
    Why.BARRIER: "Nothing to do for a minute; then see why the named tasks or DNS in the pods are not there.",
    Why.STARTING: "Nothing to do while images are pulled; read the workflow's events if it takes long.",
    Why.RETRY: "Wait until a node for the retry is free.",
    Why.NODE_BUSY: "Nothing to do: the group's room is given back and asked for again.",
    Why.UNKNOWN_SCHEDULER: "An administrator installs the scheduler's package again.",
    Why.UNFORESEEN: "It is tried again by itself; an administrator reads the worker's log.",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """An obstacle on a group's way: its kind, a sentence, the evidence as JSON, and what helps.

    Evidence is observations without interpretation, so that neither a page nor a program need read sentences.
    """

    why: Why
    sentence: str
    evidence: Json = field(default_factory=dict)

    own_help: str = ""
    """In place of what its kind says."""

    @property
    def help(self) -> str:
        return self.own_help or self.why.help

    @property
    def columns(self) -> tuple[str, str, Json]:
        """The kind, the sentence and the evidence as they are in the group's row."""
        own = {"help": self.own_help} if self.own_help else {}
        return self.why.value, self.sentence, self.evidence | own


CREATING = Reason(Why.CREATING, "Its objects are being created in the cluster.")


def upstream_reason(upstream: Sequence[str]) -> Reason | None:
    """The reason of a group that starts after upstream groups, in their order; None without any.

    It holds until the group starts, whichever of them have completed.
    """
    if not upstream:
        return None
    number = len(upstream)
    text = (
        f"It starts when group {listing(upstream)} has completed."
        if number == 1
        else f"It starts when all of its {number} upstream groups have completed: {listing(upstream)}."
    )
    return Reason(Why.UPSTREAM, text, {"upstream": list(upstream[:MOST_UPSTREAM])})
