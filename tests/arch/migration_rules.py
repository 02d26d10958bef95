"""Which operations of a migration the previous release survives, and which lock a table for long.

An upgrade migrates first and replaces processes afterwards, so each migration runs under the code of the
release before it: that must still find every column it names and be able to write rows that lack the new
ones. And no operation may hold a lock for as long as a big table takes to read.

Rejected: django-migration-linter, which reads the SQL and so cannot tell a default in the database from one
that Django takes away again, and knows nothing of which tables are big.
"""

from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import connection, migrations
from django.db.models import NOT_PROVIDED, ForeignKey, ManyToManyField

from web.database.migrating import BuildIndex, LockTables, SampleMore

BIG = {
    ("workflows", "workflow"),
    ("workflows", "taskgroup"),
    ("workflows", "task"),
    ("workflows", "event"),
    ("workflows", "observedpod"),
    ("workflows", "observedobject"),
    ("pools", "node"),
    ("pools", "configrevision"),
}
"""Tables that grow with use; the others hold what people configured."""

HARMLESS = (
    migrations.CreateModel,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.AlterModelTableComment,
    migrations.RemoveConstraint,
    migrations.RemoveIndex,
    migrations.RenameIndex,
    AddConstraintNotValid,
    RemoveIndexConcurrently,
    ValidateConstraint,
    BuildIndex,
    LockTables,
    SampleMore,
)
FORBIDDEN = {
    migrations.RemoveField: "the previous release still reads the column",
    migrations.DeleteModel: "the previous release still reads the table",
    migrations.RenameField: "the previous release knows the old name only: add, copy, remove later",
    migrations.RenameModel: "the previous release knows the old name only",
    migrations.AlterModelTable: "the previous release knows the old name only",
    migrations.RunPython: "moving data holds locks: do it in batches, by a command",
    migrations.RunSQL: "what it does cannot be told: use an operation, or exempt it with the reason",
}


def faults(app, operation, *, before, new):
    """What speaks against an operation, as a list of sentences. ``new`` are models that this step made."""
    if isinstance(operation, migrations.SeparateDatabaseAndState):
        return [
            fault
            for inner in operation.database_operations
            for fault in faults(app, inner, before=before, new=new)
        ]
    if why := next((why for kind, why in FORBIDDEN.items() if isinstance(operation, kind)), None):
        return [why]
    if isinstance(operation, HARMLESS) or (app, _model(operation)) in new:
        return []
    return _of_an_existing_table(app, operation, before)


def _of_an_existing_table(app, operation, before):
    big = (app, _model(operation)) in BIG
    if isinstance(operation, migrations.AddField):
        return _of_new_field(operation.field, big=big)
    if isinstance(operation, migrations.AlterField):
        return _of_altered_field(app, operation, before)
    if isinstance(operation, AddIndexConcurrently):
        return ["a try that fails leaves an invalid index behind, so the next one fails: use BuildIndex"]
    if isinstance(operation, (migrations.AddIndex, migrations.AddConstraint)):
        instead = {
            migrations.AddIndex: "BuildIndex",
            migrations.AddConstraint: "AddConstraintNotValid and then ValidateConstraint",
        }
        return [f"a big table is locked while it is read: use {instead[type(operation)]}"] if big else []
    return [f"{type(operation).__name__} is not known to be harmless"]


def _model(operation):
    return (getattr(operation, "model_name", None) or getattr(operation, "name", "")).lower()


def _of_new_field(field, *, big):
    if isinstance(field, ManyToManyField):
        return []
    found = []
    if not field.null and field.db_default is NOT_PROVIDED:
        found.append("the previous release writes rows without it: give it null=True or a db_default")
    if big and (field.unique or field.db_index or isinstance(field, ForeignKey)):
        found.append("its index locks a big table: add it bare, then BuildIndex")
    return found


def _of_altered_field(app, operation, before):
    """Only what leaves the column as it is, lets it be empty, or makes room in a text."""
    old = before.models[app, _model(operation)].fields[operation.name].clone()
    new = operation.field.clone()
    for field in (old, new):
        field.set_attributes_from_name(operation.name)
    editor = connection.schema_editor(collect_sql=True)
    if not editor._field_should_be_altered(old, new):
        return []
    same = {"null": new.null, "max_length": new.max_length}
    looser = old.clone()
    looser.null, looser.max_length = same["null"], same["max_length"]
    looser.set_attributes_from_name(operation.name)
    only = not editor._field_should_be_altered(looser, new)
    room = old.max_length is None or (new.max_length or 0) >= old.max_length
    if only and room and (new.null or not old.null):
        return []
    return ["it changes a column that the previous release reads and writes"]
