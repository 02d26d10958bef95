"""CustomResourceDefinitions of KAI and Kueue, and what an API server does with an object of theirs.

The definitions are those of the local cluster, Kueue's the ones of its module. Where OSMO_REAL_DEFINITIONS
names a folder with the real ones (``tests/real_definitions.py``), every test runs on those too. ``served``
validates against the schema and prunes unknown fields, so that a round trip without loss shows that we wrote
no field the schema does not have (``subgroups`` for ``subGroups`` would vanish).
"""

from functools import cache, partial
from typing import Any

import jsonschema
import yaml

from localcluster import build, kueue
from localcluster.crds import kai, nvidia
from tests import real_definitions

OURS = {
    "local-v0.13": partial(kai.definitions, "0.13"),
    "local-v0.17.0": partial(kai.definitions, "0.17.0"),
    "local-v0.17": partial(kai.definitions, "0.17"),
    "local-nvidia": nvidia.definitions,
    "local-kueue": lambda: kueue.definitions(build.documents(build.KUEUE_DOCUMENTS)),
}
OLDEST = ("local-v0.13", "kai-v0.13") if real_definitions.FOLDER else ("local-v0.13",)
NEWEST = ("local-v0.17.0", "local-v0.17", *(("kai-v0.17",) if real_definitions.FOLDER else ()))
SOURCES = (*OLDEST, *NEWEST)
KUEUE = ("local-kueue", "kueue-v0.19") if real_definitions.FOLDER else ("local-kueue",)


@cache
def definition(source: str, plural: str, group: str) -> dict[str, Any]:
    if source in OURS:
        name = f"{plural}.{group}"
        return next(document for document in OURS[source]() if document["metadata"]["name"] == name)
    assert real_definitions.FOLDER is not None
    text = (real_definitions.FOLDER / source / f"{group}_{plural}.yaml").read_text()
    return yaml.load(text, Loader=yaml.CSafeLoader)


def schema_of(crd: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    group, _, version = manifest["apiVersion"].partition("/")
    assert (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (group, manifest["kind"])
    (served,) = [v for v in crd["spec"]["versions"] if v["name"] == version and v["served"]]
    return served["schema"]["openAPIV3Schema"]


def served(crd: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server would keep it. Raises if it would refuse it."""
    schema = schema_of(crd, manifest)
    jsonschema.Draft202012Validator(schema).validate(manifest)
    identity = {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}
    return {**_pruned(manifest, schema), **identity}


def _pruned(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_pruned(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(schema.get("additionalProperties"), dict):
        return {key: _pruned(item, schema["additionalProperties"]) for key, item in value.items()}
    properties = schema.get("properties", {})
    return {key: _pruned(item, properties[key]) for key, item in value.items() if key in properties}
