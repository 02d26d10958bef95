"""A page that everybody has holds each fact of KAI that the stand-in rests on."""

import re

from localcluster.directories import CHECKOUT

PAGE = "docs/explanation/kai-behaviour.md"
STAND_IN = CHECKOUT / "localcluster/standins/kai"


def test_every_section_that_the_stand_in_cites_exists():
    sections = set(re.findall(r"^### (.+)$", (CHECKOUT / PAGE).read_text(), re.MULTILINE))
    texts = " ".join(path.read_text() for path in STAND_IN.glob("*.py"))
    cited = set(re.findall(r'\("([A-Z][a-z ]+)"\)', re.sub(r"\s+", " ", texts)))
    assert len(cited) >= 5
    assert cited <= sections


def test_no_fact_is_cited_by_a_number():
    sources = [
        path
        for folder in ("localcluster", "scheduling", "workflows")
        for path in (CHECKOUT / folder).rglob("*.py")
    ]
    assert sources
    assert [str(path) for path in sources if re.search(r"\bfacts? \d", path.read_text())] == []
