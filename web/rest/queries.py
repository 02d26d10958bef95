"""Query strings and bodies, read strictly: a mistyped ``dryrun=True`` must not submit.

OSMO's client writes booleans as Python does (``True``) and lists as repeated keys; both are read here. A
field that is not declared is refused, and the error names the declared ones.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache
from typing import Any, NoReturn

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from rest_framework.request import Request
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from scheduling.errors import Fault, InvalidSpec
from scheduling.sentences import agree, did_you_mean, plain_listing

_TRUE = frozenset({"true", "1", "yes"})
_FALSE = frozenset({"false", "0", "no", ""})
_SURROGATE = re.compile("[\ud800-\udfff]")


FieldErrors = dict[str, list[ErrorDetail]]


@contextmanager
def also_wrong(errors: FieldErrors) -> Iterator[None]:
    """Raise ValidationError with these errors and those that are raised inside; nothing if there are none."""
    try:
        yield
    except serializers.ValidationError as error:
        details = error.detail if isinstance(error.detail, dict) else {"non_field_errors": error.detail}
        raise serializers.ValidationError({**details, **errors}) from error
    if errors:
        raise serializers.ValidationError(errors)


class StrictForm(serializers.Serializer[Any]):
    """A form that accepts the declared fields and no other."""

    @classmethod
    def on(cls, data: Any) -> "StrictForm":
        """The form of these data. It shares its fields, since copying them takes longer than reading them."""
        form = copy(_empty(cls))
        form.initial_data = data
        return form

    def get_fields(self) -> dict[str, Any]:
        """The declared fields; an empty default may be sent as well, and generated clients send it."""
        fields = super().get_fields()
        for field in fields.values():
            if isinstance(field, serializers.CharField) and field.default == "":
                field.allow_blank = True
        return fields

    def to_internal_value(self, data: Any) -> Any:
        unknown = self._unknown(data) if isinstance(data, Mapping) else {}
        with also_wrong(unknown):
            return super().to_internal_value(data)

    def _unknown(self, data: Mapping[str, Any]) -> FieldErrors:
        unknown = sorted(data.keys() - self.fields.keys())[:20]
        if not unknown:
            return {}
        fields = list(self.fields)
        which = f"accepted are {', '.join(fields)}" if fields else "none is accepted"
        message = f"There is no such field; {which}."
        return {
            name[:80]: [ErrorDetail(message + did_you_mean(name, fields), code="unknown_field")]
            for name in unknown
        }


@cache
def _empty(kind: type[StrictForm]) -> StrictForm:
    """A form without data; its fields are made, and change no more."""
    form = kind(data={})
    _ = form.fields  # they are made when they are read
    return form


class _NoSurrogates(ProhibitSurrogateCharactersValidator):
    """The same check in one search: character by character it takes 10 ms for a document of 512 tasks."""

    def __call__(self, value: Any) -> None:
        if surrogate := _SURROGATE.search(str(value)):
            super().__call__(surrogate[0])


class WordChoice(serializers.ChoiceField):
    """One of a few words; a refusal names them, and the one that was meant."""

    def fail(self, key: str, **context: Any) -> NoReturn:
        if key != "invalid_choice":
            super().fail(key, **context)
        word, words = str(context["input"]), [str(choice) for choice in self.choices if choice]
        accepted = f"{agree(len(words), 'accepted is', 'accepted are')} {', '.join(words)}"
        message = f'"{word[:63]}" is not accepted; {accepted}.{did_you_mean(word, words)}'
        raise serializers.ValidationError(message, code=key)


class LongText(serializers.CharField):
    """A text that may be a whole document."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.validators = [
            _NoSurrogates() if isinstance(each, ProhibitSurrogateCharactersValidator) else each
            for each in self.validators
        ]


class Query(StrictForm):
    """A query string."""

    @classmethod
    def of(cls, request: Request) -> dict[str, Any]:
        """The parameters of a request. Raises ValidationError naming every one that is wrong."""
        fields = _empty(cls).fields
        parameters = request.query_params
        # the last would win in silence: dry_run=True&dry_run=False must not submit
        repeated = [
            name
            for name in parameters
            if len(parameters.getlist(name)) > 1
            and name in fields
            and not isinstance(fields[name], serializers.ListField)
        ]
        errors = [ErrorDetail("It is given more than once.", code="repeated")]
        values = {
            name: parameters.getlist(name) if isinstance(fields.get(name), serializers.ListField) else value
            for name, value in parameters.items()
        }
        with also_wrong(dict.fromkeys(repeated, errors)):
            return valid_values(cls.on(values))

    @classmethod
    def without_body(cls, request: Request) -> dict[str, Any]:
        """The parameters of a request that changes something and has no body. Raises as ``of`` does."""
        refuse_body(request, parameters=tuple(_empty(cls).fields))
        return cls.of(request)


class NoQuery(Query):
    """No parameters at all."""


def refuse_body(request: Request, *, parameters: Sequence[str]) -> None:
    """Refuse a body where none is read: its fields would be dropped in silence. Raises InvalidSpec.

    ``{}`` and ``null`` ask for nothing; clients send them with every POST.
    """
    if request.data is None or request.data == {}:
        return
    number = len(parameters)
    which = (
        f". {agree(number, 'The query parameter is', 'Query parameters are')} {plain_listing(parameters)}"
        if parameters
        else ", and there are no query parameters"
    )
    message = f"No body is read here{which}."
    raise InvalidSpec(message, [Fault((), "body", message, allowed=tuple(parameters))])


def valid_values(form: StrictForm) -> dict[str, Any]:
    """The values of a form. Raises ValidationError naming every field that is wrong."""
    form.is_valid(raise_exception=True)
    return dict(form.validated_data)


def flag(help_text: str) -> serializers.BooleanField:
    """A boolean that is false where it is left out."""
    return serializers.BooleanField(default=False, help_text=help_text)


def texts(help_text: str, *, max_length: int = 1024) -> serializers.ListField:
    """A parameter that may be repeated."""
    child = serializers.CharField(max_length=max_length)
    return serializers.ListField(child=child, max_length=100, default=list, help_text=help_text)


def boolean_parameter(request: Request, name: str) -> bool:
    """One boolean of a query that has no form, false where it is left out. Raises InvalidSpec."""
    text = request.query_params.get(name, "").lower()
    if text not in _TRUE | _FALSE:
        fault = Fault((name,), "bool_parsing", f'"{text[:20]}" is neither.', allowed=("true", "false"))
        raise InvalidSpec(f'The query parameter "{name}" is true or false.', [fault])
    return text in _TRUE
