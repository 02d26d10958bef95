"""A pod with its platform's template laid over it.

The order is the pod as the user's words make it, the templates, and what is this service's to say: by its
labels the pod is found again, by its scheduler's name and parts it is one of its gang, and by its name,
hostname and restart policy it is a task. Templates that name any of it are refused when they are saved;
here it is said once more, so that a template saved by another release cannot take a pod away from us.

Checked when it is saved, so nothing here fails: a template is laid over as it is.
"""

from collections.abc import Collection, Mapping
from typing import Any

from pools.pod_templates.merge import overlay
from pools.pod_templates.variables import TaskValues, fill, values_of
from scheduling import names
from scheduling.backends.base import Manifest
from workflows.values.placement import FrozenTemplate

SAID_HERE = (
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
"""Fields of a pod's spec that no template changes, besides those of its scheduler."""

GPU = "nvidia.com/gpu"
_USERS = ("image", "command", "args")


def templated(
    pod: Manifest,
    template: FrozenTemplate,
    *,
    asked: TaskValues,
    ours: Mapping[str, str],
    said: Collection[str],
) -> Manifest:
    """The pod with the template over it. ``ours`` are labels, ``said`` fields of the spec, that stay."""
    upper = fill(template.pod, values_of(asked, defaults=template.variables))
    merged = overlay(pod, {part: upper[part] for part in ("metadata", "spec") if part in upper})
    before = pod["metadata"]
    metadata = {
        **before,
        "labels": {**merged["metadata"].get("labels", {}), **ours},
        "annotations": {**merged["metadata"].get("annotations", {}), **before.get("annotations", {})},
    }
    if not metadata["annotations"]:
        del metadata["annotations"]
    return {**pod, "metadata": metadata, "spec": _spec(pod["spec"], merged["spec"], said)}


def _spec(before: Manifest, merged: Manifest, said: Collection[str]) -> Manifest:
    spec = dict(merged)
    for field in (*SAID_HERE, *said):
        spec.pop(field, None)
        if field in before:
            spec[field] = before[field]
    spec["containers"] = [_users_container(before["containers"][0], merged["containers"][0])]
    if claims := _with_ours(before.get("resourceClaims", []), spec.get("resourceClaims", [])):
        spec["resourceClaims"] = claims
    if excluded := before.get("affinity", {}).get("nodeAffinity"):
        affinity = spec.get("affinity", {})
        spec["affinity"] = {**affinity, "nodeAffinity": {**affinity.get("nodeAffinity", {}), **excluded}}
    return spec


def _users_container(before: Manifest, merged: Manifest) -> Manifest:
    container = {**merged, "name": before["name"], **{key: before[key] for key in _USERS if key in before}}
    resources = dict(container.get("resources", {}))
    held = before.get("resources", {})
    for kind in ("requests", "limits"):
        amounts = {key: value for key, value in resources.get(kind, {}).items() if key != GPU}
        if GPU in held.get(kind, {}):
            amounts[GPU] = held[kind][GPU]
        resources[kind] = amounts
    if claims := _with_ours(held.get("claims", []), resources.get("claims", [])):
        resources["claims"] = claims
    resources = {kind: value for kind, value in resources.items() if value}
    container.pop("resources", None)
    return {**container, "resources": resources} if resources else container


def _with_ours(ours: list[Any], merged: list[Any]) -> list[Any]:
    """The merged claims, with the channel's as it is made here."""
    others = [claim for claim in merged if claim.get("name") != names.CHANNEL_CLAIM]
    return [*ours, *(claim for claim in others if claim not in ours)]
