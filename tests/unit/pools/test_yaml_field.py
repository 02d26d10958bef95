"""A field of the admin that holds YAML: read as every text is, within bounds."""

import pytest
import yaml
from django.core.exceptions import ValidationError

from pools.admin.forms import MAX_TEXT, YamlField


def read(text, *, empty=()):
    return YamlField(empty=dict(empty)).clean(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", {}),
        ("zone: a", {"zone": "a"}),
        ('{"zone": "a", "n": [1, 1.5, true, null]}', {"zone": "a", "n": [1, 1.5, True, None]}),
        ("day: 2026-01-02", {"day": "2026-01-02"}),
    ],
    ids=["nothing", "YAML", "JSON", "a date, which is a text"],
)
def test_a_structure_is_read(text, want):
    assert read(text) == want


WRONG = {
    "no YAML": ("a: [", "neither YAML nor JSON", "line 2"),
    "an alias": ("a: &a 1\nb: *a", "Aliases are not accepted", ""),
    "a key twice": ("a: 1\na: 2", "already", "line 2"),
    "an object of Python": ("!!python/object:a.b {}", "tag", "line 1"),
    "deep": ("[" * 1000, "Nested deeper", "line 1"),
    "wide": ("[" + "1," * 30_000 + "]", "entries", "line 1"),
}


@pytest.mark.parametrize(("text", "message", "place"), WRONG.values(), ids=WRONG)
def test_an_unreadable_text_is_refused_with_its_place(text, message, place):
    with pytest.raises(ValidationError) as refusal:
        read(text)
    assert message in str(refusal.value)
    assert place in str(refusal.value)


def test_no_text_is_read_by_the_slow_parser(monkeypatch):
    def slow(*_, **__):
        raise AssertionError("parsed in Python")

    for name in ("Loader", "SafeLoader", "FullLoader"):
        monkeypatch.setattr(yaml, name, slow)
    monkeypatch.setattr(yaml, "scan", slow)
    assert read("zone: a") == {"zone": "a"}


def test_a_value_is_shown_as_it_is_read_again():
    value = {"b": ["x", {"y": "é: 1"}], "a": "2026-01-02"}
    assert read(YamlField(empty={}).prepare_value(value)) == value


def test_a_text_has_a_length():
    with pytest.raises(ValidationError):
        read("x" * (MAX_TEXT + 1))
