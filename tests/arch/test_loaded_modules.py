"""What processes without pages load: all that web alone needs would cost each of them 30 MiB."""

import os
import subprocess
import sys
from importlib import import_module

import pytest
from django.conf import settings
from django.contrib import admin
from django.core.checks import run_checks

from localcluster.directories import CHECKOUT
from pools.models import Pool

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
    variables = {"OSMO_ENV": "development", "DJANGO_SETTINGS_MODULE": "osmo_topology.settings"}
    ran = subprocess.run(
        [sys.executable, "-c", f"{start}\n{listing}"],
        cwd=CHECKOUT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert not OF_WEB & set(ran.stdout.split())


def test_djangos_checks_see_the_pages_of_the_admin():
    """They are registered with the addresses, and checks come in no certain order."""
    import_module(settings.ROOT_URLCONF)
    assert admin.site.is_registered(Pool)
    assert run_checks() == []
