"""The application that gunicorn serves: Django's own, behind the event loop of ``web.server``."""

from osmo_topology.wsgi import application as django
from web.env import environment
from web.server.application import HELD_BYTES, Application, Limits

_env = environment()
application = Application(
    django,
    Limits(
        threads=_env.web_threads,
        queue=_env.web_queue,
        body_bytes=_env.max_body_bytes,
        held_bytes=HELD_BYTES,
    ),
)
