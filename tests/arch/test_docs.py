"""Documentation that cannot rot: what the code has, the pages have."""

import re

import pytest
from django.apps import apps

from localcluster.directories import CHECKOUT
from localcluster.scenario import ALL_PLACES
from pools.conditions import topology
from web.env import Environment
from workflows.explain.levels import UNAVAILABLE
from workflows.spec import SpecLimits, parse_workflow

DOCS = CHECKOUT / "docs"


def test_every_setting_is_documented_and_no_other():
    documented = set(
        re.findall(r"^\| `(OSMO_[A-Z_]+)`", (DOCS / "reference" / "settings.md").read_text(), re.MULTILINE)
    )
    assert documented == {f"OSMO_{name.upper()}" for name in Environment.model_fields}


@pytest.mark.parametrize("app", ["doctor", "pools", "web", "workflows"])
def test_every_model_is_explained(app):
    pages = "\n".join(page.read_text() for page in (DOCS / "reference" / "models").glob("*.md"))
    models = apps.get_app_config(app).get_models()
    untold = {model.__name__ for model in models if model.__name__ not in pages and not _headed(model, pages)}
    assert untold == set()


def test_every_condition_is_explained():
    code = "\n".join(
        path.read_text() for app in ("pools", "workflows") for path in (CHECKOUT / app).rglob("*.py")
    )
    made = set(re.findall(r'Condition\(\s*type="(\w+)"', code)) | {*topology.TYPES, UNAVAILABLE}
    pages = (DOCS / "reference" / "conditions.md").read_text() + (
        DOCS / "reference" / "models" / "backend.md"
    ).read_text()
    assert {kind for kind in made if f"| `{kind}` |" not in pages} == set()


def test_every_example_is_in_the_index_and_every_recipe_in_the_cookbook():
    examples = {path.name for path in (CHECKOUT / "examples").glob("*.yaml")}
    index = (CHECKOUT / "examples" / "README.md").read_text()
    assert set(re.findall(r"^\| \[([\w.-]+)\]\(\1\)", index, re.MULTILINE)) == examples
    cookbook = (DOCS / "how-to" / "cookbook.md").read_text()
    told = set(re.findall(r"\(\.\./\.\./examples/([\w-]+\.yaml)\)", cookbook))
    assert told == {name for name in examples if not name.startswith("use-case-")}


def test_a_recipe_names_a_pool_of_make_up_that_has_its_keys():
    cookbook = (DOCS / "how-to" / "cookbook.md").read_text()
    rows = re.findall(r"^\| \[([\w-]+\.yaml)\]\([^)]*\) \| (none|`\w+`)", cookbook, re.MULTILINE)
    assert len(rows) > 10
    for example, pool in rows:
        keys = set(re.findall(r"\bkey: (\w+)", (CHECKOUT / "examples" / example).read_text()))
        fitting = {name for name, place in ALL_PLACES.items() if keys <= place.keys.keys()}
        assert (pool == "none" and not fitting) or pool.strip("`") in fitting, example


def test_every_workflow_on_a_page_is_one_that_is_accepted():
    pages = [*(DOCS / "tutorials").glob("*.md"), *(DOCS / "how-to").glob("*.md"), DOCS / "faq.md"]
    blocks = [
        block
        for page in pages
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        if re.search(r"^workflow:", block, re.MULTILINE)
    ]
    assert blocks
    for block in blocks:
        parsed = parse_workflow(
            block, variables=(), string_variables=(), limits=SpecLimits(), allow_localpath=False
        )
        assert parsed.groups


def test_each_term_of_the_glossary_has_one_row_in_order_with_four_other_systems():
    sections = re.split(r"^## ", (DOCS / "glossary.md").read_text(), flags=re.MULTILINE)[1:]
    terms = []
    for section in sections:
        if section.startswith(("Words that name nothing", "Modules that are named after nothing")):
            continue  # lists for the test of names
        rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
        head, *entries = [[cell.strip() for cell in row] for row in rows]
        assert head == ["term", "meaning", "OSMO", "KAI", "Kueue", "Slurm"]
        assert {len(entry) for entry in entries} == {6}
        assert [entry[0] for entry in entries] == sorted((entry[0] for entry in entries), key=str.lower)
        terms += [entry[0].lower() for entry in entries]
    assert len(terms) == len(set(terms)) > 50


def test_a_contributor_finds_each_change_in_at_most_three_rooms_that_exist():
    table = (CHECKOUT / "CONTRIBUTING.md").read_text().partition("## Where do I change")[2]
    rows = re.findall(r"^\| (a[^|]*|the[^|]*) \| ([^|]*) \|$", table, re.MULTILINE)
    assert len(rows) == 13
    for change, rooms in rows:
        named = re.findall(r"`([\w.*/-]+[/.][\w.*/-]*)`|\]\(([^)#]+)\)", rooms)
        assert 1 <= len(re.split(r", (?![^(]*\))", rooms)) <= 3, change
        for path in filter(None, (code or link for code, link in named)):
            assert any(CHECKOUT.glob(path)), path


def _headed(model, pages):
    return re.search(rf"^# .*{model._meta.verbose_name}", pages, re.MULTILINE | re.IGNORECASE)
