"""Migrations: none missing, one chain per app, and a head file so that two branches conflict in git."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2] / "migrations"
APPS = sorted(p.parent.name for p in ROOT.glob("*/head.txt"))


@pytest.mark.django_db
def test_every_model_change_has_its_migration():
    out = StringIO()
    call_command("makemigrations", "--check", "--dry-run", stdout=out)
    assert "No changes detected" in out.getvalue()


@pytest.mark.parametrize("app", APPS)
def test_the_head_file_names_the_newest_migration(app):
    newest = max(p.stem for p in (ROOT / app).glob("0*.py"))
    assert (ROOT / app / "head.txt").read_text().strip() == newest


@pytest.mark.parametrize("app", APPS)
def test_no_two_migrations_share_a_number(app):
    numbers = [p.stem.split("_")[0] for p in (ROOT / app).glob("0*.py")]
    assert len(numbers) == len(set(numbers))
