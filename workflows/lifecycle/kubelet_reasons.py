"""Reasons of failed pods that a kubelet wrote by itself, and what each means.

A pod that a kubelet *refused* never ran: it does not fit on its node, or the node lacks a feature. A pod that
its node *ended* was running. Neither end is the program's. Everything else (``DeadlineExceeded``, ``Evicted``
for use of more storage than was requested) is.

Read from ``pkg/kubelet`` of Kubernetes 1.34 to 1.37; each row names its file there. Reasons of newer
kubelets are known by the words before a refusal's message. A node's eviction, preemption for critical pods
and shutdown also set ``DisruptionTarget``, which is read before the reason. Pure.
"""

from collections.abc import Mapping
from enum import StrEnum


class NodeEnd(StrEnum):
    """How a node ended a pod by itself."""

    REFUSED = "refused_by_node"
    ENDED = "ended_by_node"


_PREDICATES = "lifecycle/predicate.go"
_FEATURES = "lifecycle/handlers.go"
_SHUTDOWN = "nodeshutdown/nodeshutdown_manager.go"

SOURCES: Mapping[str, tuple[NodeEnd, str]] = {
    "AppArmor": (NodeEnd.REFUSED, _FEATURES),
    "EmptyPodSharedPoolError": (NodeEnd.REFUSED, "cm/admission/errors.go"),
    "Infeasible": (NodeEnd.REFUSED, "allocation/handlers.go"),
    "InitContainerRestartPolicyForbidden": (NodeEnd.REFUSED, _PREDICATES),
    "InvalidNodeInfo": (NodeEnd.REFUSED, _PREDICATES),
    "NodeAffinity": (NodeEnd.REFUSED, _PREDICATES),
    "NodeName": (NodeEnd.REFUSED, _PREDICATES),
    "NodePorts": (NodeEnd.REFUSED, _PREDICATES),
    "NodeShutdown": (NodeEnd.REFUSED, _SHUTDOWN),
    "PodFeatureUnsupported": (NodeEnd.REFUSED, _FEATURES),
    "PodLevelResourcesNotSupported": (NodeEnd.REFUSED, _FEATURES),
    "PodOSNotSupported": (NodeEnd.REFUSED, _PREDICATES),
    "PodOSSelectorNodeLabelDoesNotMatch": (NodeEnd.REFUSED, _PREDICATES),
    "SMTAlignmentError": (NodeEnd.REFUSED, "cm/cpumanager/policy_static.go"),
    "SupplementalGroupsPolicyNotSupported": (NodeEnd.REFUSED, _PREDICATES),
    "SysctlForbidden": (NodeEnd.REFUSED, "sysctl/allowlist.go"),
    "TaintToleration": (NodeEnd.REFUSED, _PREDICATES),
    "TopologyAffinityError": (NodeEnd.REFUSED, "cm/topologymanager/topology_manager.go"),
    "UnexpectedAdmissionError": (NodeEnd.REFUSED, _PREDICATES),
    "UnexpectedPredicateFailureType": (NodeEnd.REFUSED, _PREDICATES),
    "UnknownReason": (NodeEnd.REFUSED, _PREDICATES),
    "VolumeAttachmentLimitExceeded": (NodeEnd.REFUSED, "volumemanager/volume_manager.go"),
    "Preempting": (NodeEnd.ENDED, "preemption/preemption.go"),
    "Terminated": (NodeEnd.ENDED, _SHUTDOWN),
}
"""By reason of a pod; the files are below ``pkg/kubelet``."""

OUT_OF = "OutOf"
"""How the reasons for lack of a resource begin (``lifecycle/predicate.go``): ``OutOfnvidia.com/gpu``."""

REFUSAL = "Pod was rejected: "
"""What the message of each refusal begins with (``rejectPod`` in ``kubelet.go``), whatever its reason."""

EVICTED = "Evicted"
UNDER_PRESSURE = "The node had condition"
"""A refusal for pressure on a node; its reason is that of evictions (``eviction/helpers.go``)."""


def node_end(reason: str, message: str) -> NodeEnd | None:
    """How a pod's node ended it; None where the pod's own containers did, or nothing is known."""
    if message.startswith(REFUSAL) or reason.startswith(OUT_OF):
        return NodeEnd.REFUSED
    if reason == EVICTED and message.startswith(UNDER_PRESSURE):
        return NodeEnd.REFUSED
    end, _ = SOURCES.get(reason, (None, ""))
    return end
