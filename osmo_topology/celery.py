"""The Celery application: messages that nudge, and the sweeps that make lost ones harmless."""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging
from django_structlog.celery.steps import DjangoStructLogInitStep

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_topology.settings")

app = Celery("osmo_topology")
app.set_default()  # also in threads that did not make it: those of gunicorn
app.config_from_object("django.conf:settings", namespace="CELERY")
app.steps["worker"].add(DjangoStructLogInitStep)
app.autodiscover_tasks()


@setup_logging.connect
def _keep_our_logging(**_: Any) -> None:
    """Connected so that Celery leaves the logging of ``settings`` alone."""
