"""The API's description has every path, method and parameter of the contract."""

import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from drf_spectacular.generators import SchemaGenerator

from tests.contract.cases import cases

ENDPOINTS = yaml.safe_load((Path(__file__).parent / "endpoints.yaml").read_text())
OPERATIONS = [
    pytest.param(
        path,
        method,
        wanted,
        id=f"{method} {path}",
        marks=[pytest.mark.xfail(reason=f"waits for {wanted['waits_for']}", strict=True)]
        if "waits_for" in wanted
        else [],
    )
    for path, methods in ENDPOINTS.items()
    for method, wanted in methods.items()
]


@cache
def description():
    """The description, its paths without the names in them."""
    schema = SchemaGenerator().get_schema(public=True)
    return {_nameless(path): operations for path, operations in schema["paths"].items()}, schema["components"]


def _nameless(path):
    return re.sub(r"\{\w+\}", "*", path)


@pytest.mark.parametrize(("path", "method", "wanted"), OPERATIONS)
def test_the_description_has(path, method, wanted):
    paths, components = description()
    operation = paths.get(_nameless(path), {}).get(method.lower())
    assert operation, "no such operation"
    described = {
        parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"
    }
    assert set(wanted.get("query", ())) - described == set()
    assert set(wanted.get("body", ())) - _body_fields(operation, components) == set()


def _body_fields(operation, components):
    content = operation.get("requestBody", {}).get("content", {})
    schema = next((media["schema"] for media in content.values()), {})
    for part in schema.get("oneOf", schema.get("allOf", [schema])):
        if "$ref" in part:
            return set(components["schemas"][part["$ref"].rpartition("/")[2]]["properties"])
    return set(schema.get("properties", ()))


def test_every_request_of_a_command_is_in_the_table_of_endpoints():
    patterns = {re.compile(re.sub(r"\{\w+\}", "[^/]+", path)): methods for path, methods in ENDPOINTS.items()}
    unknown = set()
    for case in cases():
        for step in case.steps:
            if case.file == "not_offered" and step.status == 400:
                continue
            path = step.path.replace("//", "/").replace("${", "").replace("}", "")
            # a longer address of fixed words before one with a name in the same place
            found = sorted(
                (p.pattern.count("[^/]+"), p.pattern, methods)
                for p, methods in patterns.items()
                if p.fullmatch(path) and step.method in methods
            )
            if not found or set(step.query) - set(found[0][2][step.method].get("query", ())) - LOG_LINES:
                unknown.add(f"{step.method} {path} {sorted(step.query)}")
    assert unknown == set()


LOG_LINES = {"last_n_lines"}


def test_a_default_is_accepted_where_it_is_sent():
    """Generated clients send every parameter that has a default."""
    defaults = [
        (method, path, parameter["name"], parameter["schema"])
        for path, operations in description()[0].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", ())
        if "default" in parameter["schema"]
    ]
    refused = [
        (method, path, name)
        for method, path, name, schema in defaults
        if schema["default"] not in schema.get("enum", [schema["default"]])
        or ("enum" not in schema and schema["default"] == "" and schema.get("minLength"))
    ]
    assert (len(defaults) > 20, refused) == (True, [])
