"""Words for writing OpenAPI schemas of CustomResourceDefinitions shortly.

Each function returns a fresh plain dict; keyword arguments become further OpenAPI keys, with ``_``
for the ``-`` of Kubernetes' extensions left to the caller (``**{"x-kubernetes-...": ...}``).
"""

from collections.abc import Sequence
from typing import Any

Schema = dict[str, Any]


def text(**more: Any) -> Schema:
    return {"type": "string", **more}


def one_of(*values: str, **more: Any) -> Schema:
    return text(enum=list(values), **more)


def time() -> Schema:
    return text(format="date-time")


def integer(**more: Any) -> Schema:
    return {"type": "integer", **more}


def int32(**more: Any) -> Schema:
    return integer(format="int32", **more)


def number() -> Schema:
    return {"type": "number"}


def flag() -> Schema:
    return {"type": "boolean"}


def many(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def record(properties: dict[str, Schema], *, required: Sequence[str] = (), **more: Any) -> Schema:
    """An object with exactly these fields; others are pruned by the API server."""
    schema: Schema = {"type": "object", "properties": properties, **more}
    return schema | {"required": list(required)} if required else schema


def quantities() -> Schema:
    """Resource name -> quantity, as in a pod's requests."""
    return {
        "type": "object",
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
            "x-kubernetes-int-or-string": True,
        },
    }


def anything() -> Schema:
    """An object that is stored as it comes."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition(
    *,
    group: str,
    kind: str,
    plural: str,
    version: str,
    namespaced: bool,
    fields: dict[str, Schema],
    required: Sequence[str] = (),
    short_names: Sequence[str] = (),
    status: bool = True,
) -> Schema:
    """A CustomResourceDefinition with one version, served and stored."""
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    root = record(
        {"apiVersion": text(), "kind": text(), "metadata": {"type": "object"}, **fields}, required=required
    )
    served: Schema = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names | ({"shortNames": list(short_names)} if short_names else {}),
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [served | ({"subresources": {"status": {}}} if status else {})],
        },
    }
