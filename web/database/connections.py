"""Database connections of a worker's threads: kept between tasks, as web threads keep theirs.

Celery's own fixup for Django closes the connection before and after every task. Reconciling one group takes
about ten milliseconds, and a new connection takes as long again, in the worker and in PostgreSQL, which
starts a process and checks a password: measured as a fifth of a worker's time with 1,000 pods changing.
Django's own rule is enough: a connection is closed when it is older than ``CONN_MAX_AGE`` or had an error,
and probed before its first use in a task (``CONN_HEALTH_CHECKS``).

Rejected: ``CELERY_DB_REUSE_MAX``, which counts tasks over all threads and keeps broken connections too.
"""

from typing import Any

from celery import Celery
from celery.fixups.django import DjangoFixup, DjangoWorkerFixup
from django.db import close_old_connections


class KeptConnections(DjangoWorkerFixup):
    """Celery's signals before and after a task, with Django's rule for connections."""

    def validate_models(self) -> None:
        """Set Django up without its checks: they load every page, which only web serves (12 MiB)."""
        self.django_setup()

    def close_database(self, **_: Any) -> None:
        close_old_connections()


class KeepingFixup(DjangoFixup):
    @property
    def worker_fixup(self) -> DjangoWorkerFixup:
        if self._worker_fixup is None:
            self._worker_fixup = KeptConnections(self.app)
        return self._worker_fixup

    @worker_fixup.setter
    def worker_fixup(self, value: DjangoWorkerFixup) -> None:
        self._worker_fixup = value


def fixup(app: Celery) -> DjangoFixup:
    """The replacement for ``celery.fixups.django``."""
    return KeepingFixup(app).install()
