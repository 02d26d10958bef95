"""The real CustomResourceDefinitions, and what an API server does with an object of theirs.

They are read from a folder ``shared`` beside the checkout or beside its parent; the repository holds no
copy. ``served`` validates against the schema and prunes unknown fields, so that a round trip without loss
shows that we wrote no field the schema does not have (``subgroups`` for ``subGroups`` would vanish).
"""

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

KAI_VERSIONS = ("kai-v0.13", "kai-v0.17")


def folder() -> Path | None:
    checkout = Path(__file__).resolve().parents[3]
    return next(
        (
            f
            for above in (checkout.parent, checkout.parent.parent)
            if (f := above / "shared" / "crds").is_dir()
        ),
        None,
    )


@cache
def definition(version: str, plural: str, group: str) -> dict[str, Any]:
    found = folder()
    if found is None:
        pytest.skip(
            "the folder shared/crds with the real CustomResourceDefinitions is not beside the checkout"
        )
    return yaml.safe_load((found / version / f"{group}_{plural}.yaml").read_text())


def schema_of(crd: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    group, _, version = manifest["apiVersion"].partition("/")
    assert (crd["spec"]["group"], crd["spec"]["names"]["kind"]) == (group, manifest["kind"])
    (served,) = [v for v in crd["spec"]["versions"] if v["name"] == version and v["served"]]
    return served["schema"]["openAPIV3Schema"]


def served(crd: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server would keep it. Raises if it would refuse it."""
    schema = schema_of(crd, manifest)
    jsonschema.Draft202012Validator(schema).validate(manifest)
    kept = {key: manifest[key] for key in ("apiVersion", "kind", "metadata")}
    return {**_pruned(manifest, schema), **kept}


def _pruned(value: Any, schema: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_pruned(item, schema.get("items", {})) for item in value]
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(schema.get("additionalProperties"), dict):
        return {key: _pruned(item, schema["additionalProperties"]) for key, item in value.items()}
    known = schema.get("properties", {})
    return {key: _pruned(item, known[key]) for key, item in value.items() if key in known}
