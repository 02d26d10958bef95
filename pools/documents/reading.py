"""Strict reading of a document, with every fault at once.

pydantic reads; this module turns its errors into faults with a path and a suggestion. A null stands for "not
given", as in OSMO's own replies, and takes the default.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from scheduling.errors import Fault, Path, more_faults
from scheduling.sentences import did_you_mean
from web.rest.expectations import EXPECTATIONS

MAX_FAULTS = 100
"""Faults that are reported of one document: the comparison of an unknown name with the known ones is slow."""


class Document(BaseModel):
    """Base of all shapes: no unknown field, no coercion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("a NUL character is not accepted")
    return text


DocumentText = Annotated[str, Field(max_length=10_000), AfterValidator(_without_nul)]
Line = Annotated[str, Field(max_length=1024), AfterValidator(_without_nul)]
FlagOrAuto = Annotated[bool | None, BeforeValidator(lambda written: None if written == "auto" else written)]
"""``true``, ``false`` or ``auto``, which is the same as nothing."""

FOLLOWING = frozenset(
    {
        "context_without_kubeconfig",
        "empty",
        "invalid_topology_name",
        "label_without_value",
        "name_of_managed_topology",
        "no_composites",
        "no_gangs_of_others",
        "no_image",
        "no_keys",
        "no_local_queues",
        "no_own_queues",
        "nvlink_not_in_pool",
        "over_maximum",
        "unknown_key",
        "unknown_platform",
    }
)
"""Codes of faults that compare two fields; they are left out where any field could not be read."""

D = TypeVar("D", bound=Document)

_QUOTED = re.compile("'([^']+)'")


def merged(document: Mapping[str, Any], changes: Mapping[str, Any], *, depth: int = 8) -> dict[str, Any]:
    """Apply a change: maps are merged, null removes a member, everything else (lists too) is replaced.

    OSMO appends to lists instead, which gives a pool its topology keys twice.
    """
    result = dict(document)
    for key, value in changes.items():
        before = result.get(key)
        if value is None:
            result.pop(key, None)
        elif depth and isinstance(value, Mapping):
            result[key] = merged(before if isinstance(before, Mapping) else {}, value, depth=depth - 1)
        else:
            result[key] = value
    return result


def read(
    shape: type[D], written: Any, *, path: Path, read_only: Collection[str] = ()
) -> tuple[D | None, list[Fault]]:
    """Read one document and find its faults; of one with faults as much as can be read, for further checks.

    Without a result there is at least one fault. ``read_only`` names fields that a GET shows and a write
    ignores.
    """
    if not isinstance(written, Mapping):
        return None, [Fault(path, "not_a_mapping", f"An object is needed here, not {_kind(written)}.")]
    fields = _without_nulls({key: value for key, value in written.items() if key not in read_only})
    try:
        return shape.model_validate(fields), []
    except ValidationError as error:
        entries = error.errors(include_url=False)
    faults = [_fault(shape, entry, path) for entry in entries[:MAX_FAULTS]]
    if others := len(entries) - len(faults):
        faults.append(more_faults(others, path=path))
    try:
        return shape.model_validate(_without_members(fields, {entry["loc"] for entry in entries})), faults
    except ValidationError:
        return None, faults


def beside(unread: Collection[Fault], faults: Iterable[Fault]) -> list[Fault]:
    """The faults of what could be read, without those that may follow from what could not."""
    return [fault for fault in faults if not (unread and fault.code in FOLLOWING)]


def _without_members(value: Any, places: Collection[tuple[int | str, ...]]) -> Any:
    """An object without its members at these places, and without a member that is a list with one of them."""
    if not isinstance(value, Mapping) or () in places:
        return value
    below: defaultdict[Any, set[tuple[int | str, ...]]] = defaultdict(set)
    for first, *rest in places:
        below[first].add(tuple(rest))
    return {
        key: _without_members(member, below[key]) if key in below else member
        for key, member in value.items()
        if key not in below or (isinstance(member, Mapping) and () not in below[key])
    }


def _without_nulls(value: Any, *, depth: int = 8) -> Any:
    """Drop null members of objects, as deep as any shape goes."""
    if depth and isinstance(value, Mapping):
        return {
            key: _without_nulls(entry, depth=depth - 1) for key, entry in value.items() if entry is not None
        }
    if depth and isinstance(value, list):
        return [_without_nulls(entry, depth=depth - 1) for entry in value]
    return value


def _fault(shape: type[Document], entry: ErrorDetails, path: Path) -> Fault:
    where = tuple(step for step in entry["loc"] if step != "[key]")
    if entry["type"] == "extra_forbidden":
        return unknown_field((*path, *where), _fields_at(shape, where[:-1]))
    if entry["type"] == "missing":
        return Fault((*path, *where), "required", "This field is required.")
    message = EXPECTATIONS.get(entry["type"]) or entry["msg"].removeprefix("Value error, ")
    message = f"{message[:1].upper()}{message[1:]}.".replace("..", ".")
    if entry["type"] == "literal_error" and isinstance(entry["input"], str):
        message += did_you_mean(entry["input"], _QUOTED.findall(entry["ctx"]["expected"]))
    return Fault((*path, *where), entry["type"], message)


def unknown_field(path: Path, fields: Collection[str]) -> Fault:
    """The fault of an unknown field, with the most similar known one. Slow: see ``MAX_FAULTS``."""
    name = str(path[-1])
    message = f'There is no field "{name[:63]}" here{suggestion(name, fields)}'
    return Fault(path, "unknown_field", message, allowed=tuple(sorted(fields)))


def unknown_fields(names: Sequence[str], fields: Collection[str]) -> list[Fault]:
    """The faults of unknown fields of one object, as many as are reported."""
    faults = [unknown_field((name,), fields) for name in names[:MAX_FAULTS]]
    others = len(names) - len(faults)
    return [*faults, more_faults(others, path=())] if others else faults


def suggestion(name: str, names: Collection[str]) -> str:
    """The end of a sentence about an unknown name: the most similar known one, if any is similar."""
    near = get_close_matches(name[:63], names, n=1)
    return f'; did you mean "{near[0]}"?' if near else "."


def _fields_at(shape: type[BaseModel], where: tuple[int | str, ...]) -> list[str]:
    """The fields of the shape found by walking ``where`` down from ``shape``."""
    for step in where:
        if isinstance(step, str) and step in shape.model_fields:
            shape = next(_shapes(shape.model_fields[step].annotation), shape)
    return list(shape.model_fields)


def _shapes(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every shape an annotation mentions, through optionals, lists and maps."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in {list, dict, Union, UnionType, Annotated, tuple}:
        for inner in get_args(annotation):
            yield from _shapes(inner)


def _kind(value: Any) -> str:
    return {
        type(None): "null",
        list: "a list",
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }.get(type(value), "something else")
