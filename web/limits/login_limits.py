"""Limits on failed logins: by the address that tries, and by the name that it tries.

A try is counted before its outcome is known, so that many at once are no way past the limit, and is given
back if it succeeds: people who log in never use the limit up, however many share an address. The name is
counted for each address separately. A limit on the name alone would let a stranger lock its owner out.
"""

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request

from web.access.auth import client_address
from web.limits.rate_limits import give_back, take


def take_try(request: HttpRequest | Request, *, name: str | None = None) -> int | None:
    """Count a try to log in: the seconds to wait if it is over a limit, else None.

    By address first: an address over its limit is told so whatever name it tries.
    """
    for key, per_minute in _buckets(request, name):
        if (waits := take(key, per_minute=per_minute)) is not None:
            return waits
    return None


def give_back_try(request: HttpRequest | Request, *, name: str | None = None) -> None:
    """Undo ``take_try`` after a login that succeeded."""
    for key, per_minute in _buckets(request, name):
        give_back(key, per_minute=per_minute)


def _buckets(request: HttpRequest | Request, name: str | None) -> list[tuple[str, int]]:
    address = client_address(request)
    buckets = [(f"login:address:{address}", int(settings.ADDRESS_LOGINS_PER_MINUTE))]
    if name is not None:
        word = name[:150].replace("\0", "").casefold()
        buckets.append((f"login:name:{address}:{word}", int(settings.LOGINS_PER_MINUTE)))
    return buckets
