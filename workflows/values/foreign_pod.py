"""A pod of others, or a template of pods to come, reduced to what decides on its node. Pure.

Environment, commands, images and annotations are left behind. Whatever decides on a node and is not read is
named, so that nothing is claimed to be impossible because of it. Others wrote all of it: a value of a wrong
type is passed over, and nothing here raises.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from scheduling.foreign.gang import PodKept
from scheduling.foreign.written import MOST, entries, last_message, mapping, owner_of, printable, text
from scheduling.topology.levels import HOSTNAME_LABEL
from workflows.values.pod_usage import requests_of

MOST_POD_BYTES = 8192
"""Of the JSON of a pod; of a larger one only its requests are kept, and the rest is named as not read."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_VOLUMES_ANYWHERE = frozenset(
    {
        *("configMap", "downwardAPI", "emptyDir", "gitRepo", "hostPath", "image", "nfs", "projected"),
        "secret",
    }
)
"""Volumes that any node can have."""

_SHARES = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
"""Annotations of KAI by which a pod has a part of a GPU."""

_TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")


def see_pod_terms(pod: Mapping[str, Any]) -> PodKept:
    """Reduce a pod, or a template with ``metadata`` and ``spec``."""
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    selector = dict(_texts(spec.get("nodeSelector")))
    excluded, is_read = _node_affinity(spec, selector)
    unread = [*([] if is_read else ["node affinity"]), *_unread(metadata, spec)]
    kind, name = map(printable, owner_of(metadata))
    terms = PodKept(
        scheduler=printable(text(spec.get("schedulerName"))),
        priority=priority if type(priority := spec.get("priority")) is int else None,
        priority_class=printable(text(spec.get("priorityClassName"))),
        requests={resource: min(amount, MOST) for resource, amount in requests_of(spec).items()},
        selector=selector,
        tolerations=tuple(_toleration(entry) for entry in entries(spec.get("tolerations"))),
        excluded=excluded,
        unread=tuple(unread),
        gates=len(entries(spec.get("schedulingGates"))),
        report=last_message(mapping(pod.get("status")), "conditions", "PodScheduled"),
        owner=(kind, name),
    )
    if len(json.dumps(terms.to_json())) <= MOST_POD_BYTES:
        return terms
    return replace(terms, selector={}, tolerations=(), excluded=(), unread=(*unread, "a very large pod"))


def _texts(value: object) -> Iterator[tuple[str, str]]:
    return ((key, label) for key, label in mapping(value).items() if isinstance(label, str))


def _node_affinity(spec: Mapping[str, Any], selector: dict[str, str]) -> tuple[tuple[str, ...], bool]:
    """Add what is equal to a selector to it; returns the excluded nodes, and whether that was all of it."""
    required = mapping(mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get(_REQUIRED))
    terms = required.get("nodeSelectorTerms")
    if not terms:
        return (), not required
    if terms != entries(terms) or len(terms) != 1:
        return (), False
    (term,) = terms
    expressions = entries(term.get("matchExpressions"))
    excluded: list[str] = []
    is_read = bool(expressions) and not term.get("matchFields")  # an empty one matches no node
    for expression in expressions:
        key, operator = text(expression.get("key")), expression.get("operator")
        values = expression.get("values")
        values = [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
        if operator == "In" and len(values) == 1 and selector.get(key, values[0]) == values[0]:
            selector[key] = values[0]
        elif operator == "NotIn" and key == HOSTNAME_LABEL:
            excluded += values
        else:
            is_read = False
    return tuple(excluded), is_read


def _unread(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    """What else decides on the pod's node."""
    affinity = mapping(spec.get("affinity"))
    if any(mapping(affinity.get(kind)).get(_REQUIRED) for kind in ("podAffinity", "podAntiAffinity")):
        yield "pod affinity"
    spread = entries(spec.get("topologySpreadConstraints"))
    if any(constraint.get("whenUnsatisfiable") != "ScheduleAnyway" for constraint in spread):
        yield "spread constraints"
    kinds = {kind for volume in entries(spec.get("volumes")) for kind in volume if kind != "name"}
    for kind in sorted(kinds - _VOLUMES_ANYWHERE)[:8]:
        yield f"volumes ({printable(kind)})"
    if spec.get("resourceClaims"):
        yield "claims"
    containers = [*entries(spec.get("containers")), *entries(spec.get("initContainers"))]
    if any(port.get("hostPort") for container in containers for port in entries(container.get("ports"))):
        yield "host ports"
    if spec.get("nodeName"):
        yield "node name"
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    if any(name in annotations for name in _SHARES) or any(
        str(name).startswith("runai/gpu-fraction") for name in labels
    ):
        yield "a share of a GPU"


def _toleration(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name in _TOLERATION if isinstance(value := entry.get(name), str | int)}
