"""The page on access names the actions that some address needs, and those that none does."""

import re

from django.urls import URLPattern, get_resolver

from localcluster.directories import CHECKOUT
from web.policy import Action

PAGE = (CHECKOUT / "docs" / "reference" / "api-access.md").read_text()


def views(resolver):
    for entry in resolver.url_patterns:
        if isinstance(entry, URLPattern):
            yield getattr(entry.callback, "view_class", None) or getattr(entry.callback, "cls", None)
        else:
            yield from views(entry)


def needed_actions():
    """Declared by addresses, or looked up by the code behind one that covers many pools."""
    declared = {
        needs.action for view in views(get_resolver()) for needs in getattr(view, "access", {}).values()
    }
    code = "\n".join(
        path.read_text()
        for room in ("web", "pools", "workflows", "doctor", "whatif", "pages")
        for path in (CHECKOUT / room).rglob("*.py")
        if path.name != "policy.py"
    )
    return declared | {Action[name] for name in re.findall(r"\bAction\.([A-Z_]+)\b", code)}


def test_the_table_has_every_action_that_is_needed_and_no_other():
    table = PAGE.partition("| Action | Needed for |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {Action(name) for row in rows for name in re.findall(r"`([a-z]+:[A-Za-z]+)`", row)}
    assert documented == needed_actions()


def test_the_page_names_the_actions_that_grant_nothing():
    sentence = re.search(r"^No address needs (.*?): roles", PAGE, re.MULTILINE | re.DOTALL)[1]
    assert {Action(name) for name in re.findall(r"`([a-z]+:[A-Za-z]+)`", sentence)} == set(
        Action
    ) - needed_actions()
