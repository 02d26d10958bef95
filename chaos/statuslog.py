"""Every change of a status, noted by the database itself, and which of them went backwards.

A trigger cannot be bypassed by the code under test. The order of statuses is stated here again, so that a
fault in the service's own table is not taken over.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

LIVE = ("SUBMITTING", "WAITING", "PROCESSING", "SCHEDULING", "INITIALIZING", "RUNNING")
WORKFLOW_LIVE = ("PENDING", "WAITING", "RUNNING")
TABLES = {"workflows_workflow": "uuid", "workflows_taskgroup": "uuid", "workflows_task": "id"}

_INSTALL = """
CREATE TABLE chaos_status_log (
    id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    relation text NOT NULL, key text NOT NULL, before text, after text, released boolean NOT NULL
);
CREATE FUNCTION chaos_note_status() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    old_row jsonb := CASE WHEN TG_OP = 'INSERT' THEN NULL ELSE to_jsonb(OLD) END;
    new_row jsonb := CASE WHEN TG_OP = 'DELETE' THEN NULL ELSE to_jsonb(NEW) END;
BEGIN
    IF old_row->>'status' IS DISTINCT FROM new_row->>'status'
       OR old_row->>'released_at' IS DISTINCT FROM new_row->>'released_at' THEN
        INSERT INTO chaos_status_log (relation, key, before, after, released)
        VALUES (TG_TABLE_NAME, coalesce(new_row, old_row)->>TG_ARGV[0], old_row->>'status',
                new_row->>'status', old_row->>'released_at' IS NOT NULL);
    END IF;
    RETURN NULL;
END $$;
"""


@dataclass(frozen=True, slots=True)
class Move:
    """``released`` says that the row had been released before."""

    relation: str
    key: str
    before: str | None
    after: str | None
    released: bool

    def __str__(self) -> str:
        return f"{self.relation} {self.key}: {self.before} -> {self.after}"


def install(database_url: str) -> None:
    """Make the table and the triggers in the harness's own database."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_INSTALL)
        for table, key in TABLES.items():
            connection.execute(
                f"CREATE TRIGGER chaos_status AFTER INSERT OR UPDATE OR DELETE ON {table} "
                f"FOR EACH ROW EXECUTE FUNCTION chaos_note_status('{key}')"
            )


def moves(database_url: str) -> list[Move]:
    """All moves, oldest first."""
    with psycopg.connect(database_url) as connection:
        rows: list[Any] = connection.execute(
            "SELECT relation, key, before, after, released FROM chaos_status_log ORDER BY id"
        ).fetchall()
    return [Move(*row) for row in rows]


def backwards(moves: list[Move]) -> Iterator[Move]:
    """Moves that must never be: out of an end, towards the start, a row that went, a release undone."""
    for move in moves:
        if move.before is None:
            continue
        undone = move.released and move.relation == "workflows_taskgroup"
        if move.after is None or undone or (move.before != move.after and not _forwards(move)):
            yield move


def _forwards(move: Move) -> bool:
    live = WORKFLOW_LIVE if move.relation == "workflows_workflow" else LIVE
    if move.before not in live:
        return False
    if move.after not in live:
        return True
    if move.relation == "workflows_workflow":
        return not (move.before == "RUNNING" and move.after == "PENDING")
    return live.index(move.after) > live.index(move.before)
