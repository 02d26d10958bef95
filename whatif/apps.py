"""What-if as a Django app, for its template."""

from django.apps import AppConfig


class WhatIfConfig(AppConfig):
    name = "whatif"
