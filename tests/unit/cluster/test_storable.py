"""Whatever stands in a cluster, what comes out of this package can be stored."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import errors
from cluster.storable import MAX_CHARS, MAX_DEPTH, decode

MARK = "\N{REPLACEMENT CHARACTER}"
ANSWERS = {
    "a NUL": (b'{"a\\u0000": ["x\\u0000y"]}', {f"a{MARK}": [f"x{MARK}y"]}),
    "half of a surrogate pair": (b'{"a": "\\ud83d"}', {"a": MARK}),
    "its other half, in capitals": (b'{"a": "\\uDE00"}', {"a": MARK}),
    "a whole pair": (b'{"a": "\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}),
    "bytes that are no UTF-8": (b'{"a": "\xff"}', {"a": MARK}),
    "a surrogate as bytes": (b'{"a": "\xed\xa0\x80"}', {"a": MARK * 3}),
    "numbers without an end": (b'{"a": [1e999, NaN, -Infinity]}', {"a": ["1e999", "NaN", "-Infinity"]}),
    "a number beyond all floats": (b'{"a": [1e999, -1e999, 1e308]}', {"a": ["1e999", "-1e999", 1e308]}),
    "an integer beyond 64 bits": (b'{"a": 123456789012345678901}', {"a": 123456789012345678901}),
    "an integer of too many digits": (b'{"a": %s}' % (b"9" * 5000), {"a": "9" * 5000}),
    "one of a digit too many": (b'{"a": %s, "b": 1e999}' % (b"9" * 4301), {"a": "9" * 4301, "b": "1e999"}),
    "one of as many digits as are read": (b'{"a": %s}' % (b"9" * 4300), {"a": int("9" * 4300)}),
    "the same beside what is replaced": (
        b'{"a": %s, "b": 1e999}' % (b"9" * 4300),
        {"a": int("9" * 4300), "b": "1e999"},
    ),
    "a number with a fraction": (b'{"a": 1.5}', {"a": 1.5}),
    "a text that is too long": (json.dumps({"a": "x" * (MAX_CHARS + 1)}).encode(), {"a": "x" * MAX_CHARS}),
    "a backslash before an escape": (b'{"a": "\\\\u0000"}', {"a": "\\u0000"}),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_character_that_cannot_be_stored_is_replaced(answer):
    body, want = ANSWERS[answer]
    assert decode(body) == want


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 500, 200_000])
@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a\\"]":', "}")])
def test_nesting_ends_somewhere_and_what_stands_beside_it_stays(depth, brackets):
    opening, closing = brackets
    inner = opening * depth + "1" + closing * depth
    value = decode(f'{{"deep": {inner}, "beside": "]}}["}}'.encode())
    assert value["beside"] == "]}["
    levels, nested = 0, value["deep"]
    while isinstance(nested, (list, dict)):
        levels, nested = levels + 1, (nested if isinstance(nested, list) else list(nested.values()))[0]
    assert levels == min(depth, MAX_DEPTH - 1)
    assert nested == (1 if depth == levels else None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)), inner),
)


@given(JSON)
def test_every_json_comes_out_storable(value):
    text = json.dumps(decode(json.dumps(value).encode()), ensure_ascii=False, allow_nan=False)
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode()


@pytest.mark.parametrize("body", [b"", b"{", b'{"a": ', b"404 page not found", b'{"a": "'])
def test_a_text_that_is_no_json_is_refused(body):
    with pytest.raises(json.JSONDecodeError):
        decode(body)


def test_the_message_of_an_error_is_storable():
    error = errors.from_reply(422, b'{"kind": "Status", "message": "a\\u0000b", "reason": "Invalid"}')
    assert error.message == f"a{MARK}b"
    assert errors.from_reply(502, b"a\0b").message == f"a{MARK}b"
    assert errors.ClusterUnreachable("a\0b").message == f"a{MARK}b"
