"""Values that several test modules build stand in ``tests/builders``, or in a module beside them."""

import ast
import re

from localcluster.directories import CHECKOUT

TESTS = sorted((CHECKOUT / "tests").rglob("*.py"))


def imported_by(tree):
    """Every dotted name that a module imports, the names behind ``from`` included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nobody_imports_from_a_test_module():
    names = {path: ".".join(path.relative_to(CHECKOUT).with_suffix("").parts) for path in TESTS}
    modules = {name for path, name in names.items() if path.stem.startswith("test_")}
    stems = {path.stem for path in TESTS if path.stem.startswith("test_")}
    imports = {
        (names[path], name)
        for path in TESTS
        if stems.intersection(re.findall(r"\btest_\w+", text := path.read_text()))
        for name in imported_by(ast.parse(text))
        if name in modules or name.rpartition(".")[0] in modules
    }
    assert len(modules) > 300
    assert imports == set()
