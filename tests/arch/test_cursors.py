"""Cursors live inside a transaction only: a pooler takes the connection away with its end."""

import ast

import pytest

from localcluster.directories import CHECKOUT

OPENERS = {"one_transaction", "atomic", "_snapshot"}
OPENED_BY_CALLERS = {
    ("pools/history.py", "_sets"): "sets_after",
    ("doctor/rows.py", "_groups"): "read_rows",
    ("doctor/rows.py", "_tries"): "read_rows",
    ("doctor/rows.py", "_workflows"): "read_rows",
}
"""Functions that read so, by the function of their module that has opened the transaction."""
FILES = sorted(
    path
    for folder in ("doctor", "pages", "pools", "web", "whatif", "workflows")
    for path in (CHECKOUT / folder).rglob("*.py")
    if ".iterator(" in path.read_text()
)


def opens(node):
    calls = [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
    names = (call.func for call in calls if isinstance(call, ast.Call))
    return any(getattr(name, "id", getattr(name, "attr", "")) in OPENERS for name in names)


def readers(node, function="", *, inside=False):
    """(function, whether it is inside a transaction) of each call of ``iterator``."""
    if isinstance(node, ast.FunctionDef):
        function = node.name
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "iterator":
        yield function, inside
    for child in ast.iter_child_nodes(node):
        yield from readers(child, function, inside=inside or opens(node))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CHECKOUT)))
def test_cursors_live_in_a_transaction(file):
    tree, name = ast.parse(file.read_text()), str(file.relative_to(CHECKOUT))
    openers = {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and any(map(opens, ast.walk(function)))
    }
    outside = {function for function, inside in readers(tree) if not inside}
    allowed = {function for path, function in OPENED_BY_CALLERS if path == name}
    assert outside == allowed
    assert {OPENED_BY_CALLERS[name, function] for function in allowed} <= openers
