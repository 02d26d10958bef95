"""The commands of the page about backups save and restore the database, typed in a shell."""

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection, connections

from localcluster.directories import CHECKOUT
from localcluster.servers import postgres_program
from tests.factories import TaskGroupFactory
from tests.servers.conftest import default_database
from workflows.models import TaskGroup, Workflow

PAGE = (CHECKOUT / "docs/how-to/backup-and-restore.md").read_text()


def typed(program):
    """The command of the page that begins so."""
    (line,) = set(re.findall(rf"(?:^\$ |`)({re.escape(program)} [^`#\n]*[^`#\s])", PAGE, re.MULTILINE))
    return line


@pytest.fixture
def own_database(transactional_db, postgres_url):
    """A copy of the database for this test alone, since half of a restore would spoil it for others."""
    name = f"backup_{secrets.token_hex(4)}"
    connections.close_all()
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE {connection.settings_dict['NAME']}")
        with default_database(NAME=name):
            yield f"{postgres_url.rpartition('/')[0]}/{name}"
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def shell(own_database, tmp_path):
    places = (str(postgres_program("pg_dump").parent), str(Path(sys.executable).parent), os.environ["PATH"])

    def run(command, *, cwd=tmp_path):
        subprocess.run(
            ["bash", "-euc", command],
            cwd=cwd,
            env={
                "PATH": os.pathsep.join(places),
                "DATABASE": own_database,
                "OSMO_DATABASE_URL": own_database,
                "OSMO_ENV": "development",
            },
            capture_output=True,
            check=True,
            timeout=120,
        )

    return run


def test_everything_is_there_again(shell, tmp_path):
    group = TaskGroupFactory(pods=2)
    User.objects.create_user("ann")
    names = set(Workflow.objects.values_list("name", flat=True))
    shell(typed("pg_dump"))
    TaskGroup.objects.all().delete()
    Workflow.objects.all().delete()
    User.objects.all().delete()
    connection.close()  # step 1: all processes are stopped
    shell(typed("pg_restore"))
    shell(typed("python manage.py migrate"), cwd=CHECKOUT)
    assert set(Workflow.objects.values_list("name", flat=True)) == names
    assert TaskGroup.objects.get().tasks.count() == group.tasks.count()
    assert User.objects.filter(username="ann").exists()
