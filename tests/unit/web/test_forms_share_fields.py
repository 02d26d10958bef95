"""Forms of one kind share their fields, and nothing of what they were sent."""

import pytest
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from web.rest.queries import StrictForm, texts, valid_values


class Body(StrictForm):
    name = serializers.CharField()
    labels = texts("Labels.")


def test_a_form_has_nothing_of_the_one_before_it():
    first = valid_values(Body.on({"name": "a", "labels": ["x"]}))
    assert first == {"name": "a", "labels": ["x"]}
    assert valid_values(Body.on({"name": "b"})) == {"name": "b", "labels": []}


def test_a_default_that_a_caller_changed_is_new_for_the_next():
    valid_values(Body.on({"name": "a"}))["labels"].append("x")
    assert valid_values(Body.on({"name": "a"}))["labels"] == []


def test_a_form_after_a_refused_one_is_accepted():
    with pytest.raises(ValidationError):
        valid_values(Body.on({"nmae": "a"}))
    assert valid_values(Body.on({"name": "a"}))["name"] == "a"
