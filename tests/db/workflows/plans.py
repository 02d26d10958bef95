"""How PostgreSQL would read the big tables for some statements: the shapes of its plans."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BIG = ("workflow", "taskgroup", "task", "event")
_READS = ("SELECT", "WITH", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Plan:
    """``shape`` is how each big table is read, in the plan's order.

    ``scanned_tables`` are read from end to end, ``walked_tables`` along an index until enough
    was found: whole, where nothing is.
    """

    shape: str
    scanned_tables: tuple[str, ...]
    walked_tables: tuple[str, ...]


def of_statements(statements: Iterable[str]) -> list[Plan]:
    """The plans of those statements that read a big table, by the database that Django is set up for."""
    from django.db import connection  # noqa: PLC0415 -- once Django is set up

    plans = []
    for sql in statements:
        if sql.lstrip("( \n").upper().startswith(_READS):
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}")
                scans = list(_scans(cursor.fetchone()[0][0]["Plan"]))
            if scans:
                plans.append(_plan(scans))
    return plans


def _plan(scans: Sequence[dict[str, Any]]) -> Plan:
    return Plan(
        shape=" < ".join(
            " ".join(filter(None, (s["Node Type"], _table(s), "+".join(_indexes(s))))) for s in scans
        ),
        scanned_tables=tuple(_table(scan) for scan in scans if scan["Node Type"].endswith("Seq Scan")),
        walked_tables=tuple(_table(scan) for scan in scans if "Filter" in scan and not _is_looked_up(scan)),
    )


def _table(scan: Mapping[str, Any]) -> str:
    return str(scan.get("Relation Name", "")).removeprefix("workflows_")


def _scans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The parts of a plan that read a big table."""
    if _table(plan) in BIG:
        yield plan
    for part in plan.get("Plans", ()):
        yield from _scans(part)


def _indexes(plan: dict[str, Any]) -> Iterator[str]:
    if name := plan.get("Index Name"):
        yield name
    for part in plan.get("Plans", ()):
        if part["Node Type"].startswith("Bitmap"):
            yield from _indexes(part)


def _is_looked_up(scan: dict[str, Any]) -> bool:
    return "Index Cond" in scan or scan["Node Type"].startswith("Bitmap")
