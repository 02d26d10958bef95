"""The site of docs/: a short menu, every page, link and anchor there, nothing fetched from elsewhere."""

import re
import shutil
import subprocess
import sys

import pytest
from mkdocs.config import load_config

from localcluster.directories import CHECKOUT

OUTSIDE = sorted({*CHECKOUT.glob("*.md"), *CHECKOUT.glob("examples/*.md"), *CHECKOUT.glob("deploy/**/*.md")})
BROKEN = {
    "a dead link": ("how-to/cookbook.md", "[x](nowhere.md)", "nowhere.md"),
    "an anchor that is missing": ("how-to/cookbook.md", "[x](runbook.md#nothing)", "#nothing"),
    "a link to a file of the repository that is gone": (
        "how-to/cookbook.md",
        "[x](../../examples/gone.yaml)",
        "gone.yaml",
    ),
}
GROUPS = ["Use", "Administer", "Operate", "Change"]
MENU_ENTRIES = 25
MESSAGE = re.compile(r"^(?=[A-Z]+ +- )", re.MULTILINE)


def build(root, target):
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(target)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def menu():
    return load_config(str(CHECKOUT / "mkdocs.yml"))["nav"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    run = build(CHECKOUT, target)
    assert run.returncode == 0, run.stderr
    return target


def test_every_page_is_built(site):
    docs = CHECKOUT / "docs"
    pages = {page.relative_to(docs).with_suffix(".html") for page in docs.rglob("*.md")}
    assert {str(page) for page in pages if not (site / page).exists()} == set()


def test_the_menu_has_four_groups_and_few_entries(menu):
    start, *groups = menu
    assert list(start) == ["Start"]
    assert [title for group in groups for title in group] == GROUPS
    assert len(pages_of(menu)) <= MENU_ENTRIES


def test_a_page_outside_the_menu_is_linked_from_one_in_it(menu):
    docs = CHECKOUT / "docs"
    entries = {docs / page for page in pages_of(menu)}
    linked = {
        (page.parent / target).resolve()
        for page in entries
        for target in re.findall(r"\]\((?!\w+:)([^)#\s]+)", page.read_text())
    }
    assert {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {
        str(page.relative_to(docs)) for page in (linked | entries) if page.is_relative_to(docs)
    } == set()


def pages_of(menu):
    """The pages of a menu, in their order."""
    return [
        page
        for entry in menu
        for content in entry.values()
        for page in ([content] if isinstance(content, str) else pages_of(content))
    ]


def test_no_page_fetches_anything_from_another_host(site):
    tags = "script|link|img|iframe|source"
    for page in site.rglob("*.html"):
        fetched = re.findall(rf"<(?:{tags})\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>", page.read_text())
        assert [tag for tag in fetched if 'rel="canonical"' not in tag] == [], page


def test_words_of_every_page_can_be_searched(site):
    assert "ComputeDomain" in (site / "search" / "search_index.json").read_text()


def test_the_build_fails_and_warns_of_each_fault(tmp_path):
    """One warning is enough: the site is built strictly."""
    shutil.copytree(CHECKOUT / "docs", tmp_path / "docs")
    for name in ("deploy", "examples", "localcluster"):
        (tmp_path / name).symlink_to(CHECKOUT / name)
    shutil.copy(CHECKOUT / "mkdocs.yml", tmp_path)
    for page, text, _ in BROKEN.values():
        with (tmp_path / "docs" / page).open("a") as file:
            file.write(f"\n{text}\n")
    run = build(tmp_path, tmp_path / "site")
    assert run.returncode != 0
    warnings = [text for text in MESSAGE.split(run.stderr + run.stdout) if text.startswith("WARNING")]
    assert {fault for fault in BROKEN if not any(BROKEN[fault][2] in text for text in warnings)} == set()
    assert f"Aborted with {len(BROKEN)} warnings in strict mode" in run.stderr + run.stdout


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_of_pages_outside_docs_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        assert not anchor or anchor in anchors_of(file), f"{target}#{anchor}"


def anchors_of(page):
    """Anchors as code hosts make them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
