"""Django as a WSGI application; ``asgi`` serves it."""

import os

import django

from web.operation.interpreter import share_interpreter
from web.operation.process_memory import settle
from web.rest.handler import Handler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_topology.settings")
django.setup(set_prefix=False)
application = Handler()
share_interpreter()
settle()
