"""What an issuer publishes: its addresses, and the keys that its tokens are signed with.

Only public keys of the accepted algorithms are kept, each under its id and one algorithm. So no token chooses
how its signature is verified: ``none`` and HMAC have no key here, and a public key is never an HMAC's secret.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
import structlog

from web.identity.configuration import ProviderSettings
from web.identity.fetching import DEADLINE_SECONDS, Unreachable, fetch

DISCOVERY = "/.well-known/openid-configuration"
ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""The signatures that can be accepted, by the type of their keys."""

MOST_KEYS = 100

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Publication:
    """An issuer's addresses, empty where it has none, and its keys by id and algorithm."""

    authorization_endpoint: str
    token_endpoint: str
    device_endpoint: str
    logout_endpoint: str
    keys: Mapping[tuple[str, str], jwt.PyJWK]

    def key(self, kid: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key of this id; without an id, the only key of the algorithm."""
        if kid is not None:
            return self.keys.get((kid, algorithm))
        keys = [key for (_, of), key in self.keys.items() if of == algorithm]
        return keys[0] if len(keys) == 1 else None


def fetch_publication(settings: ProviderSettings) -> Publication:
    """Fetch the document of an issuer and its keys, within one deadline. Raises Unreachable."""
    ends = time.monotonic() + DEADLINE_SECONDS
    document = _fetch(settings.issuer.rstrip("/") + DISCOVERY, settings, ends)
    if document.get("issuer") != settings.issuer:
        raise Unreachable(
            f"{settings.issuer} publishes another issuer: {str(document.get('issuer'))[:200]!a}"
        )
    keys = _fetch(_address(document, "jwks_uri"), settings, ends).get("keys")
    if not isinstance(keys, list):
        raise Unreachable(f"{settings.issuer} publishes no list of keys")
    return Publication(
        authorization_endpoint=_address(document, "authorization_endpoint"),
        token_endpoint=_address(document, "token_endpoint"),
        device_endpoint=_address(document, "device_authorization_endpoint", needed=False),
        logout_endpoint=_address(document, "end_session_endpoint", needed=False),
        keys=public_keys(keys, algorithms=settings.algorithms),
    )


def public_keys(keys: list[Any], *, algorithms: tuple[str, ...]) -> dict[tuple[str, str], jwt.PyJWK]:
    """The keys that verify signatures, an entry for each algorithm that a key serves; others are left out."""
    usable: dict[tuple[str, str], jwt.PyJWK] = {}
    for key in keys[:MOST_KEYS]:
        if not isinstance(key, dict) or key.get("use", "sig") != "sig":
            continue
        served = ALGORITHMS.get(str(key.get("kty")), ())
        for algorithm in (key["alg"],) if key.get("alg") else served:
            if algorithm in served and algorithm in algorithms and (parsed := _parsed(key, algorithm)):
                usable[str(key.get("kid", "")), algorithm] = parsed
    return usable


def _parsed(key: dict[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """A key; None for one that is malformed or too short."""
    try:
        parsed = jwt.PyJWK(key, algorithm)
        weakness = parsed.Algorithm.check_key_length(parsed.key)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        weakness = type(error).__name__
    if weakness:
        log.warning("identity_key_unusable", kid=str(key.get("kid"))[:100], reason=str(weakness))
        return None
    return parsed


def _fetch(address: str, settings: ProviderSettings, ends: float) -> dict[str, Any]:
    left = ends - time.monotonic()
    if left <= 0:
        raise Unreachable(f"{address} was not reached within {DEADLINE_SECONDS:g} s")
    answer = fetch(address, ca_file=settings.ca_file, seconds=left)
    if answer.status != 200:
        raise Unreachable(f"{address} answered {answer.status}")
    return answer.document


def _address(document: Mapping[str, Any], name: str, *, needed: bool = True) -> str:
    """An address that the issuer's document gives; empty for one that is not needed and not there."""
    address = document.get(name)
    if isinstance(address, str) and address.startswith("https://"):
        return address
    if needed or address is not None:
        raise Unreachable(f"the issuer's {name} is no https address")
    return ""
