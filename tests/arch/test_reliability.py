"""The page of promises names tests that exist and times that the code has."""

import re
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest

from doctor.facts import KINDS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "explanation" / "reliability.md").read_text()
PROMISES = re.split(r"^## (?=\d\. )", PAGE.partition("## Where the times")[0], flags=re.MULTILINE)[1:]
TIMES = re.findall(r"^\| `([\w.]+)` \| ([\d.]+) \|$", PAGE, re.MULTILINE)


def test_there_are_eight_promises():
    assert [int(promise[0]) for promise in PROMISES] == list(range(1, 9))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.splitlines()[0][:40])
def test_a_promise_names_tests_that_exist(promise):
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", promise.partition("Shown by:")[2])
    assert len(named) >= 3
    for path, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name}"


@pytest.mark.parametrize(("name", "seconds"), TIMES)
def test_a_time_is_that_of_the_code(name, seconds):
    assert value_of(name) == float(seconds)


def value_of(name):
    """Seconds of a constant, of a field's default, or of a setting's."""
    parts = name.split(".")
    if parts[-2][0].isupper():
        owner, attribute = getattr(import_module(".".join(parts[:-2])), parts[-2]), parts[-1]
        found = (
            owner.model_fields[attribute].default
            if hasattr(owner, "model_fields")
            else getattr(owner(), attribute)
        )
    else:
        found = getattr(import_module(".".join(parts[:-1])), parts[-1])
    return found.total_seconds() if isinstance(found, timedelta) else found


def test_every_kind_of_finding_is_explained():
    assert re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE) == list(KINDS)
