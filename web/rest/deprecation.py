"""Marking an answer as one of a deprecated address, in the headers that RFC 9745 and RFC 8288 define."""

from datetime import datetime

from django.http import HttpResponseBase


def announce(response: HttpResponseBase, *, since: datetime, successor: str) -> None:
    """Add the time of deprecation and the address to use instead."""
    response["Deprecation"] = f"@{since.timestamp():.0f}"
    response["Link"] = f'<{successor}>; rel="successor-version"'
