"""Instances of models from statements that are written out.

``Manager.raw`` works out the columns and their converters with each statement, which takes longer than the
statement itself. Here that is done once for a model.
"""

import json
from collections.abc import Collection, Sequence
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import Model

Row = TypeVar("Row", bound=Model)


class Columns(Generic[Row]):
    """The columns of a model, and its instances made of their values; columns left out are deferred."""

    def __init__(
        self, model: type[Row], *, only: Collection[str] | None = None, without: Collection[str] = ()
    ) -> None:
        fields = [
            field
            for field in model._meta.concrete_fields  # noqa: SLF001 -- public
            if (only is None or field.name in only) and field.name not in without
        ]
        self._model = model
        self._names = [field.attname for field in fields]
        self._columns = [str(field.column) for field in fields]
        self._converters = [
            (place, field.from_db_value)
            for place, field in enumerate(fields)
            if hasattr(field, "from_db_value")
        ]

    def __len__(self) -> int:
        return len(self._columns)

    def sql(self, table: str) -> str:
        """The columns for a SELECT from a table that is called so in the statement."""
        return ", ".join(f"{table}.{column}" for column in self._columns)

    def json(self, table: str) -> str:
        """The values of a row as one array of JSON, for models whose every value JSON has."""
        return f"jsonb_build_array({self.sql(table)})"

    def instances(self, text: str | None) -> list[Row]:
        """The instances of an array of such rows, as text."""
        rows: list[list[Any]] = json.loads(text) if text else []
        return [self._model.from_db(connection.alias, self._names, row) for row in rows]

    def instance(self, values: Sequence[Any]) -> Row:
        """The instance of one row's values; what follows them is left alone."""
        own = list(values[: len(self)])
        for place, convert in self._converters:
            if own[place] is not None:
                own[place] = convert(own[place], None, connection)
        return self._model.from_db(connection.alias, self._names, own)


def set_related(row: Model, name: str, related: Sequence[Model]) -> None:
    """Set what ``prefetch_related`` would have read by this name, for a statement that has read it."""
    manager = getattr(row, name)
    for each in related:
        setattr(each, manager.field.name, row)
    rows = manager.get_queryset()
    rows._result_cache = list(related)  # noqa: SLF001 -- as prefetch_related_objects sets it
    row.__dict__.setdefault("_prefetched_objects_cache", {})[name] = rows
