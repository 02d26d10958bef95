"""Django as a WSGI application; ``asgi`` serves it."""

import os

import django

from web.handler import Handler
from web.process_memory import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_topology.settings")
django.setup(set_prefix=False)
application = Handler()
settle()
