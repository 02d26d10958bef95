"""The page of promises has eight of them and the times of the code; see test_promises for their tests."""

import re
from datetime import timedelta
from importlib import import_module

import pytest

from doctor.facts import KINDS
from localcluster.directories import CHECKOUT

PAGE = (CHECKOUT / "docs" / "explanation" / "reliability.md").read_text()
PROMISES = re.split(r"^## (?=\d\. )", PAGE.partition("## Where the times")[0], flags=re.MULTILINE)[1:]
DOCTOR = (CHECKOUT / "docs" / "reference" / "doctor.md").read_text()
TIMES = re.findall(r"^\| `([\w.]+)` \| ([\d.]+) \|$", PAGE, re.MULTILINE)


def test_there_are_eight_promises():
    assert [int(promise[0]) for promise in PROMISES] == list(range(1, 9))


@pytest.mark.parametrize(("name", "seconds"), TIMES)
def test_a_time_is_that_of_the_code(name, seconds):
    assert value_of(name) == float(seconds)


def value_of(name):
    """Seconds of a constant, or of a field's default."""
    parts = name.split(".")
    if parts[-2][0].isupper():
        owner, attribute = getattr(import_module(".".join(parts[:-2])), parts[-2]), parts[-1]
        found = getattr(owner(), attribute)
    else:
        found = getattr(import_module(".".join(parts[:-1])), parts[-1])
    return found.total_seconds() if isinstance(found, timedelta) else found


def test_every_kind_of_finding_is_explained():
    rows = re.findall(r"^\| `([a-z-]+)` \|", DOCTOR, re.MULTILINE)
    assert list(dict.fromkeys(rows)) == list(KINDS)
