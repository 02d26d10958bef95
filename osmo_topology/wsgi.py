"""The application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application

from web.garbage_collector import settle

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_topology.settings")
application = get_wsgi_application()
settle()
