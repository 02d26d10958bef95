"""The Django project: the composition root.

Every process that loads Django (web, worker, beat, observer, commands) must know the Celery application,
or a message would leave for a broker that nobody configured.
"""

from osmo_topology.celery import app as celery_app

__all__ = ["celery_app"]
