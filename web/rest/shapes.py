"""Shapes on the wire: a reply is a frozen pydantic model, which its view returns and the schema is made from.

Rows and values become a shape in the view's package; the renderer below turns it into JSON, once, at the
edge. A shape refuses a field that it does not declare, so a reply cannot have what the schema does not tell.

``about`` describes a field. ``absent`` marks one that is left out of a reply where it has no value; every
other field is always there, null where it has no value. ``AsStored`` marks a part that the database keeps as
JSON: it is sent as it was stored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    SerializationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.utils.encoders import JSONEncoder

from web.times import naive_utc


class Shape(BaseModel):
    """The base of all shapes."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
    needed_in_requests: ClassVar[tuple[str, ...]] = ()
    """Fields that a request's body must have, where the shape describes one; the others may be left out."""


class ShapeEncoder(JSONEncoder):
    def default(self, obj: Any) -> Any:
        return obj.model_dump(mode="json") if isinstance(obj, Shape) else super().default(obj)


class ShapeRenderer(JSONRenderer):
    """JSON of what a view returns: a shape, or a map of shapes by name."""

    encoder_class = ShapeEncoder

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None
    ) -> bytes:
        """Write a shape in one step: pydantic's own JSON takes half the time of one that is made of dicts."""
        context = getattr((renderer_context or {}).get("view"), "serialization", None)
        if not isinstance(data, Shape):
            return bytes(super().render(data, accepted_media_type, renderer_context))
        if self.get_indent(accepted_media_type or "", renderer_context or {}):
            data = data.model_dump(mode="json", context=context)
            return bytes(super().render(data, accepted_media_type, renderer_context))
        text = data.model_dump_json(context=context)
        return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode()  # as DRF does


def about(help_text: str) -> Any:
    """A field with its description in the schema."""
    return Field(description=help_text)


def absent(help_text: str | None = None) -> Any:
    """A field that is left out of the reply where it is None."""
    return Field(default=None, description=help_text, exclude_if=_is_none, json_schema_extra=_without_null)


def absent_or_null(help_text: str) -> Any:
    """A field that some replies leave out; ``None`` leaves it out unless a subclass declares it anew."""
    return Field(default=None, description=help_text, exclude_if=_is_none, json_schema_extra=_without_default)


def read_only(help_text: str | None = None) -> Any:
    """A field that a write accepts and ignores."""
    return Field(description=help_text, json_schema_extra={"readOnly": True})


def _is_none(value: object) -> bool:
    return value is None


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _without_null(schema: dict[str, Any]) -> None:
    """Describe the field as it is where it is there: not null, without a default."""
    _without_default(schema)
    match schema:
        case {"anyOf": [other, {"type": "null"}]}:
            del schema["anyOf"]
            schema |= other
        case {"type": [kind, "null"]}:
            schema["type"] = kind


def choice(values: Iterable[str]) -> Any:
    """The annotation of a text that is one of these."""
    return Field(json_schema_extra={"enum": list(values)})


ZONED: Final[Mapping[str, Any]] = MappingProxyType({"zoned": True})
"""The context in which a shape is written for a path of ours: times have a zone."""


def _written(instant: datetime, info: SerializationInfo[Any]) -> str:
    return _zoned(naive_utc(instant), info)


def _zoned(text: str, info: SerializationInfo[Any]) -> str:
    return f"{text}Z" if info.context and info.context.get("zoned") else text


Instant = Annotated[datetime, PlainSerializer(_written, return_type=str)]
"""A moment in ISO 8601: in UTC without a zone, which OSMO's client refuses; on paths of ours with it."""

WrittenInstant = Annotated[str, PlainSerializer(_zoned, return_type=str)]
"""The same of a moment that was written before, without a zone."""

OwnInstant = Annotated[
    datetime,
    PlainSerializer(lambda instant: f"{naive_utc(instant)}Z", return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment in a shape that only paths of ours have: RFC 3339, in UTC."""


@dataclass(frozen=True, slots=True)
class AsStored:
    """Take JSON as it is, and describe it in the schema by the type that it annotates."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        described = handler(source)
        return core_schema.any_schema(
            metadata={"pydantic_js_annotation_functions": [lambda _, to_schema: to_schema(described)]},
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda stored, _: stored, schema=described
            ),
        )
