"""Names in the code keep to the words of docs/glossary.md."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from localcluster.directories import CHECKOUT

GLOSSARY = (CHECKOUT / "docs" / "glossary.md").read_text()
PRODUCT = (
    *("barrier", "cluster", "doctor", "osmo_topology", "osmo_topology_cli", "pages", "pools"),
    *("scheduling", "web", "whatif", "workflows"),
)
BESIDE_IT = ("bench", "chaos", "localcluster")
OF_DJANGO = {"Command", "Media", "Meta"}  # Django finds these classes by their names
ALIAS = re.compile(r"_?[A-Z]\w*[a-z]\w*")  # constants are written in capitals alone
PUBLISHED = {  # names that others read, each with the place that publishes it
    ("pools/api/shapes.py", "held"): "a field of REST",
    ("workflows/api/shapes.py", "got"): "a field of REST",
    ("scheduling/capabilities.py", "held"): "what packages with a scheduler of their own construct",
    ("scheduling/conformance.py", "found"): "a key of the stored conformance card",
    ("scheduling/backends/base.py", "NOTHING"): "a purpose that packages with a scheduler of their own name",
}


def words_after(heading: str) -> set[str]:
    """The words in code marks of one section of the glossary."""
    section = GLOSSARY.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`(\w+)`", section))


def modules_of(package: str) -> list[Path]:
    return sorted((CHECKOUT / package).rglob("*.py"))


@cache
def names_of(package: str) -> dict[str, list[tuple[str, int]]]:
    """The names that each module binds, with their lines; its tree, many thousand objects, is not kept."""
    return {
        str(path.relative_to(CHECKOUT)): [
            (name, node.lineno) for node in ast.walk(ast.parse(path.read_text())) for name in names_in(node)
        ]
        for path in modules_of(package)
    }


def names_in(node: ast.AST) -> tuple[str, ...]:
    """The names that a node binds: variables, arguments, attributes, functions, classes."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return (name,)
        case ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
    return ()


@pytest.mark.parametrize("package", [*PRODUCT, *BESIDE_IT])
def test_no_name_is_a_word_that_stands_for_a_noun(package):
    forbidden = words_after("Words that name nothing")
    assert {"one", "said", "told", "found", "held", "asked"} <= forbidden
    offending = {
        (path, name): line
        for path, names in names_of(package).items()
        for name, line in names
        if name.strip("_").lower() in forbidden
    }
    assert offending.keys() == {place for place in PUBLISHED if place[0].partition("/")[0] == package}


@pytest.mark.parametrize("package", [*PRODUCT, *BESIDE_IT])
def test_no_module_is_named_after_nothing(package):
    forbidden = words_after("Modules that are named after nothing")
    assert {"gather", "words", "helpers"} <= forbidden
    assert [path for path in modules_of(package) if path.stem in forbidden] == []


def types_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each type that a module defines: a class by its name alone, an alias with what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name not in OF_DJANGO:
            yield node.name, "class"
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if ALIAS.fullmatch(name):
                if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "TypeVar"):
                    yield name, ast.unparse(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if ALIAS.fullmatch(name):
                yield name, ast.unparse(value)


def test_a_type_means_one_thing_in_the_product():
    """A class stands in one module; an alias may stand in several, if it is the same type in each."""
    meanings = defaultdict(set)
    for package in PRODUCT:
        for path in modules_of(package):
            for name, meaning in types_in(ast.parse(path.read_text())):
                meanings[name].add((path, "class") if meaning == "class" else ("", meaning))
    assert len(meanings) > 450
    assert {name: sorted(places) for name, places in meanings.items() if len(places) > 1} == {}


def test_no_test_is_about_one_without_a_noun():
    offending = {
        (path, node.lineno)
        for path in modules_of("tests")
        if re.search(r"\bone\b", text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if "one" in names_in(node)
    }
    assert offending == set()


ROOMS = {  # every package has these rooms, so their modules are told apart by the package
    *("apps", "metrics", "models", "selectors", "services", "shapes", "tasks", "urls", "views"),
}
NOUNS = {  # one noun with a module in each room that concerns it
    *("backend", "base", "checks", "content", "errors", "files", "health", "history", "levels", "outcomes"),
    *("pool", "preflight", "reading", "reasons", "report", "rows", "suspects", "version"),
}


def test_a_module_stem_stands_at_most_twice_in_the_product():
    stems = Counter(
        path.stem
        for package in PRODUCT
        for path in modules_of(package)
        if "management" not in path.relative_to(CHECKOUT).parts and path.stem != "__init__"
    )
    often = {stem for stem, count in stems.items() if count > 2}
    assert not often - ROOMS - NOUNS, "name these after what they do on their floor"
    assert not NOUNS - often, "no longer needed here"
