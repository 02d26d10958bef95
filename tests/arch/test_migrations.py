"""Migrations: none missing, one chain per app, and a head file so that two branches conflict in git.

Those that came after a release run under its code: see ``tests.arch.migration_rules``.
"""

from io import StringIO

import pytest
from django.apps import apps
from django.contrib.postgres.operations import AddIndexConcurrently
from django.core.management import call_command
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader

from localcluster.directories import CHECKOUT
from tests.arch.migration_rules import faults
from tests.factories import TaskFactory
from web.database.migrating import BuildIndex, LockTables, SampleMore

MIGRATIONS = CHECKOUT / "migrations"
APPS = sorted(p.parent.name for p in MIGRATIONS.glob("*/head.txt"))


@pytest.mark.django_db
def test_every_model_change_has_its_migration():
    out = StringIO()
    call_command("makemigrations", "--check", "--dry-run", stdout=out)
    assert "No changes detected" in out.getvalue()


def rows_about_tables(statement):
    """The rows of a statement about the tables of our own."""
    tables = [model._meta.db_table for app in RELEASED for model in apps.get_app_config(app).get_models()]
    with connection.cursor() as cursor:
        cursor.execute(statement, [tables])
        return cursor.fetchall()


_REPEATED = """
    SELECT less.indexrelid::regclass::text
      FROM pg_index AS less JOIN pg_index AS more ON more.indrelid = less.indrelid
     WHERE less.indrelid::regclass::text = ANY(%s) AND less.indexrelid <> more.indexrelid
       AND NOT less.indisunique AND less.indexprs IS NULL AND less.indpred IS NULL AND more.indpred IS NULL
       AND starts_with(more.indkey::text || ' ', less.indkey::text || ' ')
       AND starts_with(more.indclass::text || ' ', less.indclass::text || ' ')
"""


@pytest.mark.django_db
def test_no_index_is_the_beginning_of_another():
    """Each is written with every row, and weighed for every statement."""
    assert rows_about_tables(_REPEATED) == []


_WITHOUT_INDEX = """
    SELECT key.conrelid::regclass::text, key.conname FROM pg_constraint AS key
     WHERE key.contype = 'f' AND key.conrelid::regclass::text = ANY(%s)
       AND NOT EXISTS (SELECT FROM pg_index AS i
                        WHERE i.indrelid = key.conrelid AND i.indkey[0] = key.conkey[1] AND i.indpred IS NULL)
"""


@pytest.mark.django_db
def test_every_foreign_key_begins_an_index():
    """Whoever deletes a row looks for those that name it."""
    assert rows_about_tables(_WITHOUT_INDEX) == []


@pytest.mark.parametrize("app", APPS)
def test_the_head_file_names_the_newest_migration(app):
    newest = max(p.stem for p in (MIGRATIONS / app).glob("0*.py"))
    assert (MIGRATIONS / app / "head.txt").read_text().strip() == newest


@pytest.mark.parametrize("app", APPS)
def test_no_two_migrations_share_a_number(app):
    numbers = [p.stem.split("_")[0] for p in (MIGRATIONS / app).glob("0*.py")]
    assert len(numbers) == len(set(numbers))


FIRST = "0001_initial"
"""The migration at which each app of release 0.1.0 stands."""

RELEASED = ("doctor", "pools", "web", "workflows")
"""The apps of that release; every migration of another came after it."""

EXEMPT = {}
"""(app, migration, operation as it describes itself): why it is harmless all the same."""


def later_operations():
    """(app, migration, operation, the state before it, models made since) of all that came after."""
    loader = MigrationLoader(None)
    for app in APPS:
        for name in sorted(p.stem for p in (MIGRATIONS / app).glob("0*.py")):
            if app in RELEASED and name == FIRST:
                continue
            migration = loader.get_migration(app, name)
            state = loader.project_state((app, name), at_end=False)
            new = set()
            for operation in migration.operations:
                yield app, name, operation, state.clone(), frozenset(new)
                if isinstance(operation, migrations.CreateModel):
                    new.add((app, operation.name_lower))
                operation.state_forwards(app, state)


def test_the_previous_release_survives_every_migration():
    said = {
        (app, name, operation.describe()): why
        for app, name, operation, before, new in later_operations()
        if (why := faults(app, operation, before=before, new=new))
    }
    assert {key: why for key, why in said.items() if key not in EXEMPT} == {}
    assert EXEMPT.keys() <= said.keys(), "exemptions that nothing needs"


def changed_tables():
    """By migration that is one transaction: the existing tables that its operations change."""
    tables = {}
    for app, name, operation, _, new in later_operations():
        model = getattr(operation, "model_name_lower", None)
        if model and (app, model) not in new:
            tables.setdefault((app, name), set()).add(model)
    loader = MigrationLoader(None)
    return {key: models for key, models in tables.items() if loader.get_migration(*key).atomic}


def test_a_migration_that_changes_several_tables_begins_by_taking_all_of_them():
    """Otherwise it and a request may wait for each other, and PostgreSQL ends the request."""
    loader = MigrationLoader(None)
    several = {key: models for key, models in changed_tables().items() if len(models) > 1}
    begins = {key: loader.get_migration(*key).operations[0] for key in several}
    assert {key: set(getattr(first, "models", ())) for key, first in begins.items()} == several
    assert all(isinstance(first, LockTables) for first in begins.values())


CHAR = models.CharField(max_length=64)
OPERATIONS = {
    "a column that may be empty": (migrations.AddField("task", "x", models.TextField(null=True)), 0),
    "a column with a default in the database": (
        migrations.AddField("task", "x", models.IntegerField(default=0, db_default=0)),
        0,
    ),
    "a column that Django alone fills": (migrations.AddField("task", "x", models.IntegerField(default=0)), 1),
    "an indexed column on a big table": (
        migrations.AddField("task", "x", models.IntegerField(null=True, db_index=True)),
        1,
    ),
    "a column less": (migrations.RemoveField("task", "name"), 1),
    "a column of another name": (migrations.RenameField("task", "name", "title"), 1),
    "a table less": (migrations.DeleteModel("Task"), 1),
    "a table more": (migrations.CreateModel("New", [("id", models.AutoField(primary_key=True))]), 0),
    "an index on a big table": (migrations.AddIndex("task", models.Index(fields=["name"], name="i")), 1),
    "an index beside the work": (BuildIndex("task", models.Index(fields=["name"], name="i")), 0),
    "an index beside the work that cannot be tried again": (
        AddIndexConcurrently("task", models.Index(fields=["name"], name="i")),
        1,
    ),
    "a larger sample of a column": (SampleMore("workflow", "labels", entries=500), 0),
    "a constraint on a big table": (
        migrations.AddConstraint("task", models.CheckConstraint(condition=models.Q(name="x"), name="c")),
        1,
    ),
    "a new help text": (migrations.AlterField("task", "name", CHAR.clone()), 0),
    "more room": (migrations.AlterField("task", "name", models.CharField(max_length=80)), 0),
    "less room": (migrations.AlterField("task", "name", models.CharField(max_length=8)), 1),
    "empty allowed": (migrations.AlterField("task", "name", models.CharField(max_length=64, null=True)), 0),
    "empty no longer allowed": (migrations.AlterField("task", "exit_code", models.IntegerField()), 1),
    "another type": (migrations.AlterField("task", "name", models.IntegerField()), 1),
    "data moved": (migrations.RunPython(migrations.RunPython.noop), 1),
    "anything in SQL": (migrations.RunSQL("SELECT 1"), 1),
    "a state that hides a removal": (
        migrations.SeparateDatabaseAndState(database_operations=[migrations.RemoveField("task", "name")]),
        1,
    ),
}


@pytest.mark.django_db
@pytest.mark.parametrize(("operation", "want"), OPERATIONS.values(), ids=OPERATIONS.keys())
def test_an_operation_is_told_apart(operation, want):
    state = MigrationLoader(None).project_state(("workflows", FIRST))
    assert len(faults("workflows", operation, before=state, new=())) == want


@pytest.mark.django_db
def test_the_previous_release_still_reads_and_writes_every_table():
    """With the models as they were: what is new must be filled by the database."""
    task = TaskFactory()
    state = MigrationLoader(connection).project_state([(app, FIRST) for app in RELEASED])
    for app, name, operation, _, _ in later_operations():
        if (app, name, operation.describe()) in EXEMPT:
            operation.state_forwards(app, state)
    before = state.apps
    chain = [
        (task.group.workflow.backend, {"name": "other"}),
        (task.group.workflow.backend.pools.get(), {"name": "other"}),
        (task.group.workflow, {"name": "other-1", "base_name": "other"}),
        (task.group, {"name": "other"}),
        (task, {"name": "other"}),
    ]
    for row, changes in chain:
        old = before.get_model(row._meta.app_label, row._meta.model_name)
        copy = old.objects.get(pk=row.pk)
        copy.pk = old._meta.pk.get_default()
        for name, value in changes.items():
            setattr(copy, name, value)
        copy.save(force_insert=True)
        assert row._meta.model.objects.get(pk=copy.pk).pk == copy.pk
