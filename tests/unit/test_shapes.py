"""Shapes on the wire: what a reply declares is what the renderer writes and what the schema says."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Annotated

import pytest
from pydantic import ValidationError
from rest_framework.renderers import JSONRenderer

from web.rest.schema import PlainJsonSchema, RequestJsonSchema
from web.rest.shapes import AsStored, Instant, Shape, ShapeRenderer, about, absent, choice


class PartShape(Shape):
    needed_in_requests = ("name",)

    name: str
    limit: float | None = absent("Seconds.")


class WholeShape(Shape):
    """A whole."""

    at: Instant | None = about("When.")
    status: Annotated[str, choice(["on", "off"])]
    parts: list[PartShape]
    stored: Annotated[PartShape | None, AsStored()]


def whole(**changes):
    return WholeShape(**{"at": None, "status": "on", "parts": [], "stored": None} | changes)


def test_an_instant_is_written_as_naive_utc():
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=1)))
    assert whole(at=at).model_dump(mode="json")["at"] == "2026-01-02T02:04:05"


def test_an_absent_field_is_left_out_and_any_other_is_null():
    shape = whole(parts=[PartShape(name="a"), PartShape(name="b", limit=0.0)])
    assert shape.model_dump(mode="json") == {
        "at": None,
        "status": "on",
        "parts": [{"name": "a"}, {"name": "b", "limit": 0.0}],
        "stored": None,
    }


def test_a_document_in_the_database_is_sent_as_it_was_stored():
    stored = {"name": "a", "limit": 90, "added_later": [1, None]}
    assert whole(stored=stored).model_dump(mode="json")["stored"] == stored


def test_a_field_that_is_not_declared_is_refused():
    with pytest.raises(ValidationError, match="more"):
        whole(more=1)


def test_the_renderer_writes_the_bytes_that_a_dictionary_would_give():
    shape = whole(
        status='"\u2028\u00e4\u001f/<&', parts=[PartShape(name="a", limit=0.1)], at=datetime.now(UTC)
    )
    want = JSONRenderer().render(shape.model_dump(mode="json"))
    assert ShapeRenderer().render(shape) == want
    assert ShapeRenderer().render({"shape": shape}) == b'{"shape":' + want + b"}"
    indented = ShapeRenderer().render(shape, "application/json; indent=4")
    assert (json.loads(indented), b"\n" in indented) == (json.loads(want), True)


def test_the_schema_says_which_fields_are_always_there():
    schema = WholeShape.model_json_schema(mode="serialization", schema_generator=PlainJsonSchema)
    assert schema["required"] == ["at", "status", "parts", "stored"]
    assert schema["properties"]["at"] == {"type": ["string", "null"], "description": "When."}
    assert schema["properties"]["status"] == {"type": "string", "enum": ["on", "off"]}
    part = schema["$defs"]["PartShape"]
    assert (part["required"], part["properties"]["limit"]) == (
        ["name"],
        {"type": "number", "format": "double", "description": "Seconds."},
    )


def test_a_body_may_leave_out_all_but_the_needed_fields():
    schema = WholeShape.model_json_schema(mode="serialization", schema_generator=RequestJsonSchema)
    assert "required" not in schema
    assert schema["$defs"]["PartShape"]["required"] == ["name"]
