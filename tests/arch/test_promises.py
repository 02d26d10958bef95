"""The appendix of promises and tests is that of the table, and the table names what exists."""

import re

import pytest

from localcluster.directories import CHECKOUT
from tests.arch.promises import SHOWN_BY, page

NAMED = [(file, heading) for file, promises in SHOWN_BY.items() for heading in promises]
TESTS = sorted({test for promises in SHOWN_BY.values() for tests in promises.values() for test in tests})


def test_the_appendix_is_that_of_the_table():
    """``make docs`` writes it anew."""
    assert (CHECKOUT / "docs" / "reference" / "promises-and-tests.md").read_text() == page()


@pytest.mark.parametrize(("file", "heading"), NAMED)
def test_each_promise_is_a_heading_of_its_page(file, heading):
    assert heading in re.findall(r"^#+ (.*)$", (CHECKOUT / "docs" / file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("test", TESTS)
def test_each_test_that_is_named_exists(test):
    path, _, name = test.partition("::")
    assert (CHECKOUT / path).exists()
    assert not name or re.search(rf"^def {name}\(", (CHECKOUT / path).read_text(), re.MULTILINE)


def test_every_promise_of_the_service_has_three_tests_and_the_threat_model_twenty():
    assert {len(tests) >= 3 for tests in SHOWN_BY["explanation/reliability.md"].values()} == {True}
    assert sum(len(tests) for tests in SHOWN_BY["explanation/threat-model.md"].values()) > 20
