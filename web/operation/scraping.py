"""The token of ``OSMO_METRICS_TOKEN``: whoever bears it is the operator's monitoring."""

import hmac

from django.conf import settings


def bears_token(authorization: str) -> bool:
    """Whether a header bears the token; never, where none is set."""
    token = settings.ENV.metrics_token
    expected = f"Bearer {token}".encode()
    return bool(token) and hmac.compare_digest(authorization.encode("utf-8", "surrogateescape"), expected)
