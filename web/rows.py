"""Instances of models from statements that are written out.

``Manager.raw`` works out the columns and their converters with each statement, which takes longer than the
statement itself. Here that is done once for a model.
"""

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

    def instance(self, values: Sequence[Any]) -> Row:
        """The instance of one row's values; what follows them is left alone."""
        own = list(values[: len(self)])
        for place, convert in self._converters:
            if own[place] is not None:
                own[place] = convert(own[place], None, connection)
        return self._model.from_db(connection.alias, self._names, own)
