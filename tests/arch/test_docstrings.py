"""A class of many fields says behind each of them what it is, not in a paragraph above them all."""

import ast
import re

import pytest

from localcluster.directories import CHECKOUT

MANY = 8
NAMED = 3


def dataclasses_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list):
            yield node


def fields_of(dataclass):
    return {statement.target.id for statement in dataclass.body if isinstance(statement, ast.AnnAssign)}


@pytest.mark.parametrize("package", ["cluster", "pools", "scheduling", "web", "workflows"])
def test_the_docstring_of_a_class_with_many_fields_does_not_explain_them(package):
    explained = {
        f"{path.relative_to(CHECKOUT)}: {dataclass.name}": sorted(named)
        for path in sorted((CHECKOUT / package).rglob("*.py"))
        for dataclass in dataclasses_in(ast.parse(path.read_text()))
        if len(fields := fields_of(dataclass)) > MANY
        and len(named := fields & set(re.findall(r"``(\w+)", ast.get_docstring(dataclass) or ""))) > NAMED
    }
    assert explained == {}
