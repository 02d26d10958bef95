"""Instances of models from statements that are written out, and rows of models into them.

``Manager.raw`` works out the columns and their converters with each statement, which takes longer than the
statement itself. Here that is done once for a model. Rows are sent as JSON, which PostgreSQL reads by the
table's own types: Django's work for each column of each row takes three times as long. The values of a new
instance are sent once for all rows of a table, since most columns of most rows have them.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Model
from pydantic_core import to_json

Row = TypeVar("Row", bound=Model)
Values = dict[str, Any]
"""The values of a row by column."""

BATCH = 2000
"""Rows of a table that are sent at once."""


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
        """The instance of one row's values; values that follow them are left alone."""
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


def values_of(row: Model) -> dict[str, Any]:
    """The values of an instance, without a key that the database gives it."""
    fields = row._meta.concrete_fields  # noqa: SLF001 -- public
    return {
        str(field.column): getattr(row, field.attname)
        for field in fields
        if not (field.primary_key and row.pk is None)
    }


def insert(tables: Mapping[type[Model], Sequence[Values]]) -> None:
    """Insert new rows of several tables, in one statement for so many rows of each.

    A column that a row does not name has the value of a new instance, but each row must name its uuids;
    ``auto_now_add`` sets nothing.
    """
    for at in range(0, max(map(len, tables.values()), default=0), BATCH):
        _insert({model: rows[at : at + BATCH] for model, rows in tables.items()})


def _insert(tables: Mapping[type[Model], Sequence[Values]]) -> None:
    filled = {model: rows for model, rows in tables.items() if rows}
    documents = []
    for model, rows in filled.items():
        documents += [_blank(model), to_json(rows, fallback=str).decode()]
    *first, last = map(_insertion, filled)
    others = ", ".join(f"part_{number} AS ({part})" for number, part in enumerate(first))
    with connection.cursor() as cursor:
        cursor.execute(f"WITH {others} {last}" if others else last, documents)


@cache
def _blank(model: type[Model]) -> str:
    """The values of a new instance, without uuids, as JSON; to make one takes longer than to send it."""
    values = {name: value for name, value in values_of(model()).items() if not isinstance(value, UUID)}
    return to_json(values, fallback=str).decode()


@cache
def _insertion(model: type[Model]) -> str:
    quoted = connection.ops.quote_name
    table = quoted(model._meta.db_table)  # noqa: SLF001 -- public
    columns = ", ".join(map(quoted, values_of(model())))
    return (
        f"INSERT INTO {table} ({columns})"  # noqa: S608 -- the model's own names
        f" SELECT {columns} FROM"
        f" jsonb_populate_recordset(jsonb_populate_record(NULL::{table}, %s), %s)"
    )
