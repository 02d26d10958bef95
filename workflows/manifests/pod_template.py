"""A pod with its platform's template laid over it.

The template goes over the user's fields, and the service's own fields go over the template: the service finds
the pod by its labels, the scheduler's name and fields make it a member of its gang, and its name, hostname
and restart policy make it a task. A template that sets one of these fields is refused when it is saved; they
are set again here, so that a template saved by another release cannot take a pod out of our control.

Templates are checked when they are saved, so no template fails here.
"""

from collections.abc import Collection, Mapping
from typing import Any

from pools.pod_templates.merge import overlay
from pools.pod_templates.variables import TaskValues, fill, values_of
from scheduling import names
from scheduling.backends.base import Manifest
from scheduling.kubernetes_syntax import GPU
from workflows.values.placement import FrozenTemplate

FIXED_FIELDS = (
    "hostname",
    "nodeName",
    "nodeSelector",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "restartPolicy",
    "schedulingGates",
    "schedulingGroup",
    "subdomain",
    "tolerations",
)
"""Fields of a pod's spec that no template may change, besides those of its scheduler."""

_USERS = ("image", "command", "args")


def apply_template(
    pod: Manifest,
    template: FrozenTemplate,
    *,
    task: TaskValues,
    labels: Mapping[str, str],
    fixed: Collection[str],
) -> Manifest:
    """Lay the template over the pod; it changes neither ``labels`` nor the ``fixed`` fields of the spec."""
    upper = fill(template.pod, values_of(task, defaults=template.variables))
    merged = overlay(pod, {part: upper[part] for part in ("metadata", "spec") if part in upper})
    before = pod["metadata"]
    metadata = {
        **before,
        "labels": {**merged["metadata"].get("labels", {}), **labels},
        "annotations": {**merged["metadata"].get("annotations", {}), **before.get("annotations", {})},
    }
    if not metadata["annotations"]:
        del metadata["annotations"]
    return {**pod, "metadata": metadata, "spec": _spec(pod["spec"], merged["spec"], fixed)}


def _spec(before: Manifest, merged: Manifest, fixed: Collection[str]) -> Manifest:
    spec = dict(merged)
    for field in (*FIXED_FIELDS, *fixed):
        spec.pop(field, None)
        if field in before:
            spec[field] = before[field]
    spec["containers"] = [_users_container(before["containers"][0], merged["containers"][0])]
    if claims := _with_channel(before.get("resourceClaims", []), spec.get("resourceClaims", [])):
        spec["resourceClaims"] = claims
    if excluded := before.get("affinity", {}).get("nodeAffinity"):
        affinity = spec.get("affinity", {})
        spec["affinity"] = {**affinity, "nodeAffinity": {**affinity.get("nodeAffinity", {}), **excluded}}
    return spec


def _users_container(before: Manifest, merged: Manifest) -> Manifest:
    container = {**merged, "name": before["name"], **{key: before[key] for key in _USERS if key in before}}
    resources = dict(container.get("resources", {}))
    own_resources = before.get("resources", {})
    for kind in ("requests", "limits"):
        amounts = {key: value for key, value in resources.get(kind, {}).items() if key != GPU}
        if GPU in own_resources.get(kind, {}):
            amounts[GPU] = own_resources[kind][GPU]
        resources[kind] = amounts
    if claims := _with_channel(own_resources.get("claims", []), resources.get("claims", [])):
        resources["claims"] = claims
    resources = {kind: value for kind, value in resources.items() if value}
    container.pop("resources", None)
    return {**container, "resources": resources} if resources else container


def _with_channel(own: list[Any], merged: list[Any]) -> list[Any]:
    """The merged claims, with the service's claim of the channel."""
    others = [claim for claim in merged if claim.get("name") != names.CHANNEL_CLAIM]
    return [*own, *(claim for claim in others if claim not in own)]
