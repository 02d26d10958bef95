"""Merging one pod template over another, as Kubernetes' strategic merge does for pods.

Objects are merged field by field. Lists whose entries have a key are merged by it: entries of the lower
template keep their place, new ones follow. All other lists are replaced, except tolerations, of which each is
kept once: a template that tolerates one more taint must not remove the pool's tolerations. An entry of
``env``, ``volumes`` and ``resourceClaims`` is replaced whole, because it is one of several kinds and two
kinds together are invalid.

A merge is idempotent, and an empty template changes nothing. The keys are those of Kubernetes' OpenAPI
description (``x-kubernetes-patch-merge-key``, ``x-kubernetes-list-map-keys``); a test reads them from an API
server.
"""

from collections.abc import Mapping, Sequence
from typing import Any

PodContent = Mapping[str, Any]
Where = tuple[str, ...]

_OF_CONTAINER: Mapping[str, str] = {
    "env": "name",
    "ports": "containerPort",
    "resources.claims": "name",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
}
MERGE_KEYS: Mapping[Where, str] = {
    ("spec", "containers"): "name",
    ("spec", "hostAliases"): "ip",
    ("spec", "imagePullSecrets"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "resourceClaims"): "name",
    ("spec", "topologySpreadConstraints"): "topologyKey",
    ("spec", "volumes"): "name",
    **{
        ("spec", kind, *field.split(".")): key
        for kind in ("containers", "initContainers")
        for field, key in _OF_CONTAINER.items()
    },
}
"""List of a pod -> the field by which its entries are told apart."""

_UNION = {("spec", "tolerations")}
_ONE_OF = {"env", "volumes", "resourceClaims"}


def overlay(lower: PodContent, upper: PodContent) -> dict[str, Any]:
    """The lower template with the upper over it; neither is changed."""
    return _object(lower, upper, ())


def _object(lower: Mapping[str, Any], upper: Mapping[str, Any], where: Where) -> dict[str, Any]:
    result = dict(lower)
    for field, value in upper.items():
        result[field] = _value(result.get(field), value, (*where, field))
    return result


def _value(lower: Any, upper: Any, where: Where) -> Any:
    if isinstance(lower, Mapping) and isinstance(upper, Mapping):
        return _object(lower, upper, where)
    if isinstance(upper, list):
        below = lower if isinstance(lower, list) else []
        if where in _UNION:
            return _once([*below, *upper])
        if key := MERGE_KEYS.get(where):
            return _by_key(below, upper, key, where)
    return upper


def _once(entries: Sequence[Any]) -> list[Any]:
    return [entry for place, entry in enumerate(entries) if entry not in entries[:place]]


def _by_key(lower: Sequence[Any], upper: Sequence[Any], key: str, where: Where) -> list[Any]:
    entries: dict[Any, Any] = {entry[key]: entry for entry in lower}
    for entry in upper:
        before = entries.get(entry[key])
        if before is None or where[-1] in _ONE_OF:
            entries[entry[key]] = entry
        else:
            entries[entry[key]] = _object(before, entry, where)
    return list(entries.values())
