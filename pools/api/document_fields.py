"""Fields of a reply that are those of a document, so that a setting is declared once.

A document says what a write accepts: limits, words, defaults. A reply always has the field, with its plain
type. Rejected: the document itself as the reply, because its limits are those of this release, and a value
that an earlier one accepted must still be shown.
"""

from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, Field, create_model

from web.rest.shapes import Shape

S = TypeVar("S", bound=Shape)


def fields_of(document: type[BaseModel], *order: str) -> Callable[[type[S]], type[S]]:
    """Give a shape the fields of a document, before those that only the shape declares.

    ``order`` names them, between fields of the shape; by default they are all that the shape does not
    inherit. A field that the shape declares too, because its value has a shape, is as the shape declares it.
    """

    def give(shape: type[S]) -> type[S]:
        own: dict[str, Any] = {
            name: (shape.model_fields[name].annotation, shape.model_fields[name])
            for name in shape.__annotations__
            if name in shape.model_fields
        }
        inherited = shape.model_fields.keys() - own
        names = [name for name in order or document.model_fields if name not in inherited]
        fields = {name: own.get(name) or _field(document, name) for name in names} | own
        identity = {"__base__": shape.__bases__, "__module__": shape.__module__, "__doc__": shape.__doc__}
        complete = cast("type[S]", _model(shape.__name__, identity | fields))
        complete.needed_in_requests = shape.needed_in_requests
        return complete

    return give


def _model(name: str, attributes: dict[str, Any]) -> Any:
    return create_model(name, **attributes)


def _field(document: type[BaseModel], name: str) -> tuple[Any, Any]:
    field = document.model_fields[name]
    return plain(field.annotation), Field(description=field.description)


def plain(kind: Any) -> Any:
    """A type without limits: a word of a closed list is a text."""
    match get_origin(kind):
        case None:
            return kind
        case origin if origin is Annotated:
            return plain(get_args(kind)[0])
        case origin if origin is Literal:
            return str
        case origin if origin in {Union, UnionType}:
            return Union[tuple(map(plain, get_args(kind)))]  # noqa: UP007 -- the members are values
        case origin:
            return origin[tuple(map(plain, get_args(kind)))]
