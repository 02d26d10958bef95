"""The parser of JSON bodies: what a body may cost."""

import io
import json

import pytest
from rest_framework.exceptions import ParseError

from web.rest.parsers import MOST_VALUES, StrictJSONParser

COSTLY = {
    "lists": "[" + ",".join(["[]"] * MOST_VALUES) + "]",
    "numbers": "[" + ",".join(["1"] * (MOST_VALUES + 2)) + "]",
    "texts": json.dumps([""] * (MOST_VALUES + 2)),
    "names": json.dumps({str(number): 1 for number in range(MOST_VALUES + 2)}),
    "nested": "[" * MOST_VALUES + "{" * 10,
    "behind a text": json.dumps(['"\\'] + [1] * (MOST_VALUES + 2)),
}
PLAIN = {
    "a text with commas": json.dumps({"file": "[1,{2}]," * MOST_VALUES}),
    "a text with quotes": json.dumps({"file": '"a","\\",' * MOST_VALUES}),
    "a text that ends in backslashes": json.dumps({"file": ",[" * MOST_VALUES + "\\\\", "x": "\\"}),
    "values": json.dumps(list(range(MOST_VALUES - 1))),
}


def parsed(text):
    return StrictJSONParser().parse(io.BytesIO(text.encode()))


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(text):
    with pytest.raises(ParseError, match=f"over {MOST_VALUES} values"):
        parsed(text)


@pytest.mark.parametrize("text", PLAIN.values(), ids=PLAIN)
def test_signs_inside_a_text_count_as_one_value(text):
    assert parsed(text) == json.loads(text)
