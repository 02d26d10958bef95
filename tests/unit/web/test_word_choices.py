"""Words of forms that are chosen from a few: every refusal says which."""

from collections.abc import Iterator

import pytest
from django.urls import get_resolver
from rest_framework import serializers

from web.rest.queries import StrictForm, WordChoice


def _forms(parent: type[StrictForm]) -> Iterator[type[StrictForm]]:
    for form in parent.__subclasses__():
        yield form
        yield from _forms(form)


def test_every_form_of_the_service_suggests_the_word_that_was_meant():
    assert get_resolver().url_patterns  # imports all views, and with them their forms
    plain = [
        f"{form.__name__}.{name}"
        for form in _forms(StrictForm)
        for name, field in form().fields.items()
        if isinstance(inner := getattr(field, "child", field), serializers.ChoiceField)
        and not isinstance(inner, WordChoice)
    ]
    assert plain == []


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("hihg", '"hihg" is not accepted; accepted are HIGH, LOW. Did you mean "HIGH"?'),
        ("7", '"7" is not accepted; accepted are HIGH, LOW.'),
        ("x" * 100, f'"{"x" * 63}" is not accepted; accepted are HIGH, LOW.'),
    ],
)
def test_a_refusal_names_what_is_accepted_and_what_was_meant(word, message):
    with pytest.raises(serializers.ValidationError) as refusal:
        WordChoice(choices=["", "HIGH", "LOW"]).run_validation(word)
    assert [(str(detail), detail.code) for detail in refusal.value.detail] == [(message, "invalid_choice")]
