"""What processes without pages load: all that web alone needs would cost each of them 30 MiB."""

import os
import subprocess
import sys

import pytest

from localcluster.directories import CHECKOUT

WORKER = "from osmo_topology.celery import app; app.loader.import_default_modules()"
OBSERVER = """
import django
django.setup()
from django.core.management import load_command_class
command = load_command_class("workflows", "observe")
command.handle = lambda *_, **__: None
command.run_from_argv(["manage.py", "observe"])
"""
OF_WEB = {"osmo_topology.urls", "pools.admin", "rest_framework.views", "drf_spectacular.openapi", "jwt"}


@pytest.mark.parametrize("start", [WORKER, OBSERVER], ids=["worker", "observer"])
def test_a_process_without_pages_loads_none(start):
    listing = "import sys; print(*sys.modules)"
    settings = {"OSMO_ENV": "development", "DJANGO_SETTINGS_MODULE": "osmo_topology.settings"}
    ran = subprocess.run(
        [sys.executable, "-c", f"{start}\n{listing}"],
        cwd=CHECKOUT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not OF_WEB & set(ran.stdout.split())
