"""A setting is declared in its document, and replies show it."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from pools.api.document_fields import fields_of, plain
from pools.api.shapes import BackendShape, PlatformShape, PoolShape, WorkflowConfigShape
from pools.documents.backend import BackendDocument
from pools.documents.pool import PlatformDocument, PoolDocument
from pools.documents.reading import Document
from pools.documents.workflow import WorkflowConfigDocument
from web.rest.shapes import Shape, about


class BedDocument(Document):
    width: Annotated[int, Field(ge=1)] = Field(90, description="Centimetres.")
    kind: Literal["bunk", "water"] = "bunk"
    sheets: Annotated[list[Annotated[str, Field(max_length=9)]], Field(max_length=4)] = []


@fields_of(BedDocument, "width", "room", "kind")
class SeenBedShape(Shape):
    needed_in_requests = ("width",)

    room: str
    free: bool


@fields_of(BedDocument)
class BedShape(SeenBedShape):
    """A bed."""

    sheets: list[str] = about("From below.")


def test_fields_stand_in_the_order_that_is_asked_for_and_those_of_the_shape_alone_come_last():
    assert list(SeenBedShape.model_fields) == ["width", "room", "kind", "free"]


def test_a_shape_adds_what_it_does_not_inherit():
    assert list(BedShape.model_fields) == ["width", "room", "kind", "free", "sheets"]
    assert BedShape.model_fields["sheets"].description == "From below."
    assert (BedShape.__doc__, BedShape.needed_in_requests) == ("A bed.", ("width",))


def test_a_reply_always_has_a_field_with_its_plain_type_and_description():
    width = BedShape.model_fields["width"]
    assert (width.annotation, width.description, width.is_required()) == (int, "Centimetres.", True)
    assert width.metadata == []
    assert BedShape(width=-1, kind="hammock", sheets=[], room="a", free=True).kind == "hammock"


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        (int, int),
        (Literal["a", "b"], str),
        (Annotated[int, Field(ge=1)] | None, int | None),
        (dict[Annotated[str, Field(max_length=1)], list[Literal["a"]]], dict[str, list[str]]),
    ],
)
def test_a_plain_type_has_no_limits(kind, want):
    assert plain(kind) == want


@pytest.mark.parametrize(
    ("shape", "document"),
    [
        (PoolShape, PoolDocument),
        (PlatformShape, PlatformDocument),
        (BackendShape, BackendDocument),
        (WorkflowConfigShape, WorkflowConfigDocument),
    ],
)
def test_replies_show_every_setting(shape, document):
    assert document.model_fields.keys() <= shape.model_fields.keys()
