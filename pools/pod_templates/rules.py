"""The content that a pod template may have: fields of a pod, except those that this service writes.

The service writes fields of a pod to find it, to schedule it and to delete it. A template that named one
would silently be overruled, so it is refused. Also refused: what hides nodes without being counted (a
required node affinity), what belongs to the user (image and command), GPUs beside those that the task asks
for (the channel of a ComputeDomain and the fit of a gang depend on them), and further containers, because a
pod holds its node until its last container ends. A sidecar is an init container that always restarts.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cluster.pod_schema import pod_shape_faults
from pools.documents.reading import MAX_FAULTS, unknown_field
from pools.pod_templates.merge import MERGE_KEYS
from pools.pod_templates.variables import (
    DEFAULTS,
    QUANTITY,
    USER_CONTAINER,
    VARIABLES,
    texts,
    unknown_variables,
)
from pools.values.images import image_fault
from pools.values.selection import label_faults, toleration_faults
from scheduling import names
from scheduling.backends.registry import is_read_annotation, is_read_label
from scheduling.errors import Fault, Path, in_order, more_faults
from scheduling.kubernetes_syntax import GPU

MAX_BYTES = 64 * 1024

_RESERVED = re.compile(
    r"osmo\.|app\.kubernetes\.io/managed-by$|"
    r"([^/]*\.)?(osmo\.nvidia\.com|resource\.nvidia\.com|grove\.io|volcano\.sh|"
    r"scheduling\.k8s\.io|(kueue\.)?x-k8s\.io)/"
)
_SET_BY_SERVICE = "This service sets it on every pod: leave it out."
_EXCLUDED: Mapping[str, str] = {
    "activeDeadlineSeconds": "Write default_exec_timeout and max_exec_timeout on the pool.",
    "ephemeralContainers": "They are made in a running pod only.",
    "hostname": _SET_BY_SERVICE,
    "hostnameOverride": _SET_BY_SERVICE,
    "nodeName": "It would pass by the scheduler: write nodeSelector.",
    "preemptionPolicy": "It follows from the workflow's priority.",
    "priority": "It follows from the workflow's priority.",
    "priorityClassName": "It follows from the workflow's priority.",
    "resources": "Resources of a whole pod are not counted: write them on the containers.",
    "restartPolicy": _SET_BY_SERVICE,
    "schedulerName": "It is the backend's: write scheduler_settings there.",
    "schedulingGates": "A gated pod would hold its whole gang back.",
    "schedulingGroup": _SET_BY_SERVICE,
    "setHostnameAsFQDN": _SET_BY_SERVICE,
    "subdomain": _SET_BY_SERVICE,
    "topologySpreadConstraints": "It is decided against the gang's topology: write topology in the workflow.",
}
_OF_THE_USER = ("args", "command", "image", "workingDir")


def template_faults(template: Any) -> list[Fault]:
    """Find the faults of a template that can be seen from it alone."""
    if not isinstance(template, Mapping):
        return [Fault((), "not_a_mapping", "An object with metadata, spec or both is needed here.")]
    size = len(json.dumps(template, default=str))
    if size > MAX_BYTES:
        message = f"The template has {size} bytes; at most {MAX_BYTES} are accepted."
        return [Fault((), "too_large", message, allowed=(str(MAX_BYTES),))]
    misfits = pod_shape_faults(template)
    if misfits:
        shape = [
            _shape_fault(misfit.path, misfit.message, misfit.allowed, misfit.unknown)
            for misfit in misfits[:MAX_FAULTS]
        ]
        others = len(misfits) - len(shape)
        return in_order([*shape, more_faults(others, path=())] if others else shape)
    faults = [
        *_metadata_faults(template),
        *_spec_faults(template.get("spec", {})),
        *_merge_key_faults(template),
        *_text_faults(template),
    ]
    return in_order(faults)


def _shape_fault(path: Path, message: str, allowed: tuple[str, ...], is_unknown: bool) -> Fault:  # noqa: FBT001 -- a private echo of a value's field
    return unknown_field(path, allowed) if is_unknown else Fault(path, "wrong_type", message, allowed)


def _metadata_faults(template: Mapping[str, Any]) -> Iterator[Fault]:
    metadata = template.get("metadata", {})
    for field in metadata:
        if field not in {"labels", "annotations"}:
            message = (
                "A template gives labels and annotations; this service sets the rest of a pod's metadata."
            )
            yield Fault(("metadata", field), "not_in_template", message, allowed=("annotations", "labels"))
    for field in ("labels", "annotations"):
        for key in metadata.get(field, {}):
            if _RESERVED.match(key) or is_read_label(key) or is_read_annotation(key):
                message = (
                    f'"{key[:100]}" gives orders to a scheduler or to this service, which alone writes it.'
                )
                yield Fault(("metadata", field, key), "reserved", message)
    for field in ("labels", "annotations"):
        # the value of a variable is not known here, and an annotation may say anything
        checked = {
            key: "" if field == "annotations" or "{{" in value else value
            for key, value in metadata.get(field, {}).items()
            if "{{" not in key
        }
        yield from label_faults(checked, path=("metadata", field))


def _spec_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for field, why in _EXCLUDED.items():
        if field in spec:
            yield Fault(("spec", field), "not_in_template", why)
    yield from _claim_faults(spec)
    selector = {key: value for key, value in spec.get("nodeSelector", {}).items() if "{{" not in key + value}
    yield from label_faults(selector, path=("spec", "nodeSelector"))
    if not any("{{" in text for _, text in texts(spec.get("tolerations", []))):
        yield from toleration_faults(spec.get("tolerations", []), path=("spec", "tolerations"))
    node = spec.get("affinity", {}).get("nodeAffinity", {})
    if "requiredDuringSchedulingIgnoredDuringExecution" in node:
        message = (
            "It would hide nodes that are counted as the pool's: write nodeSelector, which is counted. Nodes "
            "that a task excludes are excluded without it."
        )
        path: Path = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        yield Fault(path, "not_in_template", message, allowed=("spec.nodeSelector",))
    yield from _container_faults(spec)
    yield from _image_faults(spec)


def _image_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    """Check the references of images; the value of a variable is not known here."""
    references: list[tuple[Path, Any]] = [
        (("spec", "initContainers", place, "image"), container.get("image"))
        for place, container in enumerate(spec.get("initContainers", []))
    ]
    references += [
        (("spec", "volumes", place, "image", "reference"), (volume.get("image") or {}).get("reference"))
        for place, volume in enumerate(spec.get("volumes", []))
    ]
    for path, reference in references:
        if reference and "{{" not in reference and (message := image_fault(reference)):
            yield Fault(path, "image", message)


def _claim_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for place, claim in enumerate(spec.get("resourceClaims", [])):
        if claim.get("name") == names.CHANNEL_CLAIM:
            message = (
                f'"{names.CHANNEL_CLAIM}" is the claim of a ComputeDomain\'s channel: name it otherwise.'
            )
            yield Fault(("spec", "resourceClaims", place, "name"), "reserved", message)


def _container_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    for place, container in enumerate(spec.get("containers", [])):
        path: Path = ("spec", "containers", place)
        if container.get("name") != USER_CONTAINER:
            message = (
                f'Only the user\'s container is made, "{USER_CONTAINER}". A helper beside it is an entry of '
                "initContainers with restartPolicy: Always, which ends when the task does."
            )
            yield Fault((*path, "name"), "unknown_container", message, allowed=(USER_CONTAINER,))
        for field in _OF_THE_USER:
            if field in container:
                yield Fault((*path, field), "not_in_template", "It is the user's to say.")
        yield from _gpu_faults(container, path, is_user=True)
    for place, container in enumerate(spec.get("initContainers", [])):
        if "{{" in container.get("name", ""):
            message = (
                "Containers before and beside the user's have names of their own, the same in every pod."
            )
            yield Fault(("spec", "initContainers", place, "name"), "not_constant", message)
        if container.get("name") == names.START_BARRIER:
            message = f'"{names.START_BARRIER}" is the container of the start barrier: name it otherwise.'
            yield Fault(("spec", "initContainers", place, "name"), "reserved", message)
        yield from _gpu_faults(container, ("spec", "initContainers", place), is_user=False)
    for place, volume in enumerate(spec.get("volumes", [])):
        if volume.get("name") == names.START_BARRIER:
            message = f'"{names.START_BARRIER}" is the volume of the start barrier: name it otherwise.'
            yield Fault(("spec", "volumes", place, "name"), "reserved", message)


def _gpu_faults(container: Mapping[str, Any], path: Path, *, is_user: bool) -> Iterator[Fault]:
    resources = container.get("resources", {})
    for kind in ("limits", "requests"):
        amount = resources.get(kind, {}).get(GPU)
        if amount is not None and (not is_user or amount != "{{USER_GPU}}"):
            message = (
                "GPUs are those that the task asks for: gangs, quotas and ComputeDomains count these alone."
            )
            yield Fault(
                (*path, "resources", kind, GPU), "not_in_template", message, allowed=("{{USER_GPU}}",)
            )
    for place, claim in enumerate(resources.get("claims", [])):
        if claim.get("name") == names.CHANNEL_CLAIM:
            message = f'"{names.CHANNEL_CLAIM}" is the claim of a ComputeDomain\'s channel.'
            yield Fault((*path, "resources", "claims", place), "reserved", message)


def _merge_key_faults(template: Mapping[str, Any]) -> Iterator[Fault]:
    """Find entries of merged lists that lack their key or repeat one."""
    for where, key in MERGE_KEYS.items():
        for path, entries in _lists(template, where):
            keys: set[str] = set()
            for place, entry in enumerate(entries):
                if key not in entry:
                    message = f"Entries here are told apart by {key}."
                    yield Fault((*path, place, key), "required", message)
                elif str(entry[key]) in keys:
                    message = f'There is an entry "{str(entry[key])[:100]}" above already.'
                    yield Fault((*path, place, key), "twice", message)
                else:
                    keys.add(str(entry[key]))


def _lists(value: Any, where: tuple[str, ...], path: Path = ()) -> Iterator[tuple[Path, list[Any]]]:
    """Every list at a place of the template, through the lists above it."""
    for depth, field in enumerate(where):
        if not isinstance(value, Mapping) or field not in value:
            return
        value, path = value[field], (*path, field)
        if isinstance(value, list) and depth + 1 < len(where):
            for place, entry in enumerate(value):
                yield from _lists(entry, where[depth + 1 :], (*path, place))
            return
    if isinstance(value, list):
        yield path, value


def _text_faults(template: Mapping[str, Any]) -> Iterator[Fault]:
    for path, text in texts(template):
        if "\0" in text:
            yield Fault(path, "nul", "A NUL character is not accepted.")
        for mark in unknown_variables(text):
            message = f"{mark[:63]} is no variable of pod templates; nothing else is evaluated in them."
            yield Fault(path, "unknown_variable", message, allowed=VARIABLES)
        constant = path[:2] in {("spec", "nodeSelector"), ("spec", "tolerations")}
        if constant and "{{" in text and not unknown_variables(text):
            message = "It selects the pool's nodes for all tasks alike, so it is a constant."
            yield Fault(path, "not_constant", message)
    for path, key in _keys(template):
        if "{{" in key or "\0" in key:
            yield Fault(path, "not_constant", "Names of fields are constants.")


def _keys(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield (*path, str(key)), str(key)
            yield from _keys(entry, (*path, str(key)))
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            yield from _keys(entry, (*path, place))


def default_faults(defaults: Mapping[str, Any], *, path: Path) -> Iterator[Fault]:
    """Find the faults of default variables of a pool or a platform."""
    for name, value in defaults.items():
        if name not in DEFAULTS:
            message = f'"{name[:63]}" takes no default; the amounts a task may leave out do, GPUs excepted.'
            yield Fault((*path, name), "unknown_variable", message, allowed=DEFAULTS)
        elif isinstance(value, bool) or not QUANTITY.fullmatch(str(value)):
            message = "An amount as Kubernetes writes it is needed here."
            yield Fault((*path, name), "invalid_amount", message, allowed=("500m", "4", "16Gi"))
