"""The definitions that we wrote accept what the real ones accept, field by field."""

from functools import cache

import pytest
import yaml

from localcluster.crds import kai, nvidia
from tests.real_definitions import FOLDER

COMPARED = {
    *("type", "format", "enum", "default", "pattern", "required"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
}
OURS = {
    "kai-v0.13": kai.definitions("0.13"),
    "kai-v0.17": kai.definitions("0.17"),
    "nvidia-dra": nvidia.definitions(),
}


@cache
def real(folder):
    documents = [
        yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        for path in sorted((FOLDER / folder).glob("*.yaml"))
    ]
    return {document["metadata"]["name"]: document for document in documents}


def ours(folder):
    return {document["metadata"]["name"]: document for document in OURS[folder]}


def fields(schema, path=""):
    """Every field's path with what it accepts; an object stored as it comes has no fields below it."""
    accepts = {key: sorted(v) if isinstance(v, list) else v for key, v in schema.items() if key in COMPARED}
    yield path, accepts
    for name, below in schema.get("properties", {}).items():
        yield from fields(below, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


def open_ended(schema, path=""):
    """The paths below which our definition stores everything."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield path
    for name, below in schema.get("properties", {}).items():
        yield from open_ended(below, f"{path}.{name}")
    if "items" in schema:
        yield from open_ended(schema["items"], f"{path}[]")


def stored(document):
    """The version that is stored."""
    (version,) = [version for version in document["spec"]["versions"] if version["storage"]]
    return version


def schema_of(document):
    return stored(document)["schema"]["openAPIV3Schema"]


@pytest.mark.parametrize("folder", OURS)
def test_the_same_kinds_are_installed(folder):
    assert ours(folder).keys() == real(folder).keys()


NAMES = [
    (folder, document["metadata"]["name"]) for folder, documents in OURS.items() for document in documents
]


@pytest.mark.parametrize(("folder", "name"), NAMES)
def test_a_kind_has_the_same_names_scope_version_and_subresources(folder, name):
    mine, theirs = ours(folder)[name]["spec"], real(folder)[name]["spec"]
    for key in ("group", "names", "scope"):
        assert mine[key] == theirs[key]
    my_version, their_version = stored(ours(folder)[name]), stored(real(folder)[name])
    for key in ("name", "served", "storage"):
        assert my_version[key] == their_version[key]
    assert my_version.get("subresources", {}) == their_version.get("subresources", {})


@pytest.mark.parametrize(("folder", "name"), NAMES)
def test_a_kind_has_the_same_fields_with_the_same_limits(folder, name):
    mine, theirs = schema_of(ours(folder)[name]), schema_of(real(folder)[name])
    loose = tuple(open_ended(mine))

    def known(schema):
        return {path: accepts for path, accepts in fields(schema) if not path.startswith(loose or ("-",))}

    assert known(mine) == known(theirs)


@pytest.mark.parametrize(("folder", "name"), NAMES)
def test_rules_stand_at_the_same_places_with_the_same_messages(folder, name):
    def rules(schema, path=""):
        yield from ((path, rule["message"]) for rule in schema.get("x-kubernetes-validations", []))
        for key, below in schema.get("properties", {}).items():
            yield from rules(below, f"{path}.{key}")
        if "items" in schema:
            yield from rules(schema["items"], f"{path}[]")

    assert sorted(rules(schema_of(ours(folder)[name]))) == sorted(rules(schema_of(real(folder)[name])))
