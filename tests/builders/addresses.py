"""Every address that the service answers."""

from django.urls import URLPattern, URLResolver, get_resolver

NEVER_OURS = ("admin/", "static/")


def addresses(resolver=None, prefix="", *, leave_out=NEVER_OURS):
    for entry in (resolver or get_resolver()).url_patterns:
        route = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from addresses(entry, route, leave_out=leave_out)
        elif isinstance(entry, URLPattern) and not route.startswith(leave_out):
            yield route
