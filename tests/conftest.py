"""Shared by all tests: settings of a development installation, and no sockets in unit tests."""

import os

os.environ.setdefault("OSMO_ENV", "development")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_topology.settings")
