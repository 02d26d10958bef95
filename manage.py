#!/usr/bin/env python
"""Django's entry to management commands."""

import os
import sys

from django.core.management import execute_from_command_line

from web.env import REFUSED, environment

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "osmo_topology.settings")
    try:
        environment()
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(REFUSED)
    execute_from_command_line(sys.argv)
