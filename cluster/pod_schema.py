"""The schema of a pod, from the kubernetes package.

A pod template is checked before any pod is made of it, so a wrong field is reported to the administrator who
wrote it and not to the users of a pool. The package's models are generated from Kubernetes' own OpenAPI
description; they know fields and types, but not the values that a field accepts, which the API server checks.
Rejected: a schema written by hand, which is outdated with the next release.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes.client import models

FieldPath = tuple[int | str, ...]

_LIST = re.compile(r"[Ll]ist\[(.+)\]")
_MAP = re.compile(r"[Dd]ict(?:\[|\()str, (.+)(?:\]|\))")
_SCALARS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "datetime": (str,),
}
_NOUNS = {"str": "a text", "int": "a whole number", "float": "a number", "bool": "true or false"}
MAX_DEPTH = 24


@dataclass(frozen=True, slots=True)
class Misshapen:
    """A field that does not fit: its path, and the accepted fields or type. ``unknown``: no such field."""

    path: FieldPath
    message: str
    allowed: tuple[str, ...] = ()
    unknown: bool = False


def pod_shape_faults(template: Any) -> list[Misshapen]:
    """Find the fields that do not belong to a pod's metadata and spec."""
    return list(_checked("V1PodTemplateSpec", template, (), amounts=False))


def _checked(kind: str, value: Any, path: FieldPath, *, amounts: bool) -> Iterator[Misshapen]:
    if len(path) > MAX_DEPTH:
        yield Misshapen(path, "It is nested too deeply.")
    elif match := _LIST.fullmatch(kind):
        yield from _list(match[1], value, path)
    elif match := _MAP.fullmatch(kind):
        yield from _map(match[1], value, path, amounts=amounts)
    elif kind in _SCALARS:
        yield from _scalar(kind, value, path, amounts=amounts)
    elif kind != "object" and (model := getattr(models, kind, None)) is not None:
        yield from _object(model, value, path)


def _list(kind: str, value: Any, path: FieldPath) -> Iterator[Misshapen]:
    if not isinstance(value, list):
        yield Misshapen(path, "A list is needed here.")
        return
    for place, entry in enumerate(value):
        yield from _checked(kind, entry, (*path, place), amounts=False)


def _map(kind: str, value: Any, path: FieldPath, *, amounts: bool) -> Iterator[Misshapen]:
    if not isinstance(value, Mapping):
        yield Misshapen(path, "An object is needed here.")
        return
    for key, entry in value.items():
        yield from _checked(kind, entry, (*path, str(key)), amounts=amounts)


def _scalar(kind: str, value: Any, path: FieldPath, *, amounts: bool) -> Iterator[Misshapen]:
    accepted = (*_SCALARS[kind], int, float) if amounts else _SCALARS[kind]
    if isinstance(value, bool) and kind != "bool":
        yield Misshapen(path, f"{_NOUNS.get(kind, 'A text').capitalize()} is needed here, not true or false.")
    elif not isinstance(value, accepted):
        yield Misshapen(path, f"{_NOUNS.get(kind, 'a text').capitalize()} is needed here.")


def _object(model: Any, value: Any, path: FieldPath) -> Iterator[Misshapen]:
    if not isinstance(value, Mapping):
        yield Misshapen(path, "An object is needed here.")
        return
    fields = {model.attribute_map[name]: kind for name, kind in model.openapi_types.items()}
    for key, entry in value.items():
        if key in fields:
            amounts = key in {"limits", "requests", "overhead", "capacity"}
            yield from _checked(fields[key], entry, (*path, key), amounts=amounts)
        else:
            message = f'A pod has no field "{str(key)[:63]}" here.'
            yield Misshapen((*path, str(key)), message, tuple(sorted(fields)), unknown=True)
