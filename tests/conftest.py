"""Fixtures of every tier. Django's database is on the PostgreSQL that this run started."""

from urllib.parse import unquote, urlsplit

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connections
from hypothesis import HealthCheck, settings

from tests import databases

PBKDF2PasswordHasher.iterations = 1000  # a million take a quarter of a second, for each user with a password
django_settings.WHITENOISE_AUTOREFRESH = True  # or each test's client would read about all static files

settings.register_profile(
    "quick",
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", parent=settings.get_profile("quick"), max_examples=3000, derandomize=False)


def pytest_configure(config):
    """Property tests look quickly, and at the same in every run; ``--deep`` lets them look longer."""
    settings.load_profile("deep" if config.getoption("deep") else "quick")


@pytest.fixture(autouse=True)
def _no_marks_of_clusters():
    """A process forgets the marks in its clusters after each test."""
    from pools.clusters import guard  # noqa: PLC0415 -- once Django has its settings

    guard.forget()


@pytest.fixture
def ann(django_user_model):
    """A user without a role."""
    return django_user_model.objects.create_user("ann")


@pytest.fixture
def one_connection(monkeypatch):
    """The test's own transaction outlives each request."""
    monkeypatch.setattr("django.db.connection.close_if_unusable_or_obsolete", lambda: None)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix, django_db_blocker, postgres_url
):
    """Point the settings at the server before pytest-django creates a database on it."""
    from web.database import row_threads  # noqa: PLC0415 -- Django reads its settings first

    url = urlsplit(postgres_url)
    connections["default"].settings_dict.update(
        HOST=url.hostname,
        PORT=str(url.port),
        USER=url.username,
        PASSWORD=unquote(url.password),
        NAME=url.path.lstrip("/"),
    )
    row_threads.close_old_connections = connections.close_all  # its threads outlive the database
    with django_db_blocker.unblock():
        databases.copy_a_migrated_one(connections["default"], postgres_url)
    databases.flush_what_has_rows(connections["default"].ops)
    databases.flush_beside_readers(connections["default"].ops)
