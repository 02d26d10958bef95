"""Django as a WSGI application; ``asgi`` serves it."""

import os
from importlib import import_module

import django
from django.conf import settings

from web.operation.interpreter import share_interpreter
from web.operation.process_memory import settle
from web.rest.handler import Handler

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_topology.settings")
django.setup(set_prefix=False)
application = Handler()
import_module(settings.ROOT_URLCONF)  # all pages: processes share them, and no first request waits for them
share_interpreter()
settle()
