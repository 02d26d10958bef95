"""A call to the API server as an HTTP request: paths, queries and bodies. Pure.

Single requests (``gateway``) and bulk writes (``bulk``) share these functions, so both send the same
requests. Paths are those of the API conventions of Kubernetes 1.36; writes carry the field manager and strict
validation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from pydantic_core import PydanticSerializationError, to_json

from cluster.interface import FIELD_MANAGER, Obj
from cluster.kinds import Kind

USER_AGENT = "osmo-topology"
JSON = "application/json"
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
"""An object's metadata alone, where nothing else of the reply is read; of a list, each object's."""
LISTED_METADATA = METADATA.replace("PartialObjectMetadata", "PartialObjectMetadataList")
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
STRICT = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str  # with its query
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path.partition('?')[0]}"

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def path_of(kind: Kind, *, namespace: str = "", name: str = "") -> str:
    """The path of one object, or of a collection if ``name`` is empty.

    Raises ValueError when a namespaced object is named without its namespace.
    """
    path = kind.api_path
    if kind.namespaced and namespace:
        path += f"/namespaces/{quote(namespace, safe='')}"
    elif kind.namespaced and name:
        raise ValueError(f"{kind} {name!r} is namespaced: give its namespace")
    path += f"/{kind.plural}"
    return f"{path}/{quote(name, safe='')}" if name else path


Pairs = Mapping[str, Any] | Sequence[tuple[str, Any]]


def read(path: str, query: Pairs | None = None, *, accept: str = JSON) -> Request:
    return Request("GET", path + _query(query or {}), accept=accept)


def create(kind: Kind, obj: Obj, *, dry_run: bool = False) -> Request:
    path = _creation(kind, namespace_of(kind, obj), "All" if dry_run else "")
    return Request("POST", path, encode(typed(kind, obj)))


@lru_cache(maxsize=64)
def _creation(kind: Kind, namespace: str, dry_run: str) -> str:
    """The path of creations with its query: of a thousand pods it is the same."""
    return path_of(kind, namespace=namespace) + _query(STRICT | ({"dryRun": dry_run} if dry_run else {}))


def apply(kind: Kind, obj: Obj) -> Request:
    path = path_of(kind, namespace=namespace_of(kind, obj), name=obj["metadata"]["name"])
    return Request("PATCH", path + _query(STRICT | {"force": "true"}), encode(typed(kind, obj)), APPLY)


def patch(path: str, body: Obj) -> Request:
    return Request("PATCH", path + _query(STRICT), encode(body), MERGE_PATCH)


def delete(
    path: str,
    *,
    uid: str | None,
    resource_version: str | None,
    grace_seconds: int | None,
) -> Request:
    options: Obj = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if conditions := {key: value for key, value in preconditions.items() if value is not None}:
        options["preconditions"] = conditions
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return Request("DELETE", path, encode(options))


def typed(kind: Kind, obj: Obj) -> Obj:
    """Add ``apiVersion`` and ``kind`` to an object, which applies and custom kinds need."""
    return {"apiVersion": kind.api_version, "kind": kind.name} | obj


def namespace_of(kind: Kind, obj: Obj) -> str:
    """The namespace of an object. Raises ValueError if the object needs one and has none."""
    metadata = obj.get("metadata") or {}
    namespace = str(metadata.get("namespace") or "")
    if kind.namespaced and not namespace:
        raise ValueError(f"{kind} {metadata.get('name')!r} is namespaced: set metadata.namespace")
    return namespace if kind.namespaced else ""


def subject_of(request: Request) -> tuple[str, str]:
    """Verb and resource of a request in RBAC's terms: ``("list", "podgroups.scheduling.run.ai")``.

    A path without a resource is named by its first part: ``("get", "version")``.
    """
    path, _, query = request.path.partition("?")
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" and len(parts) > 1 else ""
    steps = parts[3:] if parts[0] == "apis" else parts[2:]
    if steps[:1] == ["namespaces"] and len(steps) > 2:
        steps = steps[2:]
    if not steps:
        return "get", "version" if parts == ["version"] else "discovery"
    kind = f"{steps[0]}.{group}" if group else steps[0]
    if len(steps) > 2:
        kind += f"/{steps[2]}"
    if request.method != "GET":
        return _VERBS[request.method], kind
    if len(steps) > 1:
        return "get", kind
    return "watch" if "watch=true" in query else "list", kind


def selection(*, label_selector: str, field_selector: str) -> dict[str, str]:
    pairs = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in pairs.items() if value}


def encode(body: Any) -> bytes:
    """The body as JSON. Raises TypeError for a value that has none; dates, bytes and sets have one here."""
    try:
        return to_json(body)
    except PydanticSerializationError as error:
        raise TypeError(str(error)) from error


def _query(query: Pairs) -> str:
    return "?" + urlencode(query) if query else ""
