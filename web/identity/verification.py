"""The one place where a token of the identity provider is believed, whichever way it came.

A token counts if the issuer's published key signed it with an accepted algorithm, it is for one of the
clients of this installation, and its times hold. PyJWT verifies the signature before it reads a claim.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

import jwt

from web.identity.provider import Provider

LEEWAY_SECONDS = 30
_LONGEST = 16 * 1024
_MOST_GROUPS = 1000
_SUBJECT_LENGTH = 255
_NEEDED = ["iss", "sub", "aud", "exp", "iat"]
_TYPES = frozenset({"", "jwt", "at+jwt", "application/at+jwt"})
"""Types of tokens that say who somebody is; a logout token, which anybody may see, is none."""

_REASONS: Mapping[type[Exception], str] = {
    jwt.ExpiredSignatureError: "This login has expired; log in again.",
    jwt.InvalidAudienceError: "This token was issued to a client that is none of this service's.",
    jwt.InvalidIssuerError: "This token is of another issuer.",
    jwt.ImmatureSignatureError: "This token is not valid yet; compare the clocks.",
    jwt.InvalidSignatureError: "This token was not signed with the identity provider's key.",
    jwt.InvalidAlgorithmError: "This token is signed in a way that is not accepted.",
}


class TokenRefused(Exception):
    """A token that is not believed. The message repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class IdentityClaims:
    """The provider's claims about a user; ``name`` is empty without a usable claim."""

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]


def verify(
    text: str, *, provider: Provider, audiences: Sequence[str], nonce: str | None = None
) -> IdentityClaims:
    """Verify a token and read its claims; ``nonce`` is that of the login which it answers, if one does.

    Raises TokenRefused, and Unreachable where the keys cannot be had.
    """
    try:
        claims = _verified(text, provider, audiences)
        if nonce is not None and not compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise TokenRefused("This token answers another login.")
        return _read(claims, provider)
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise TokenRefused(_reason(error)) from error


def unverified_issuer(text: str) -> str:
    """The issuer that a token names, before anything of it is believed; empty for what is no token."""
    try:
        if len(text) > _LONGEST:
            return ""
        claims = jwt.decode(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
        return ""
    return str(claims.get("iss", ""))


def _verified(text: str, provider: Provider, audiences: Sequence[str]) -> dict[str, Any]:
    if len(text) > _LONGEST:
        raise jwt.DecodeError("too long")
    settings = provider.settings
    header = jwt.get_unverified_header(text)
    algorithm = header.get("alg")
    if algorithm not in settings.algorithms or str(header.get("typ", "")).lower() not in _TYPES:
        raise jwt.InvalidAlgorithmError
    key = provider.key(header.get("kid"), algorithm)
    if key is None:
        raise jwt.InvalidSignatureError
    return jwt.decode(
        text,
        key,
        algorithms=[algorithm],
        audience=list(audiences),
        issuer=settings.issuer,
        leeway=LEEWAY_SECONDS,
        options={"require": _NEEDED},
    )


def _read(claims: Mapping[str, Any], provider: Provider) -> IdentityClaims:
    settings = provider.settings
    audience = claims["aud"]
    if isinstance(audience, list) and len(audience) > 1 and not _is_party(claims.get("azp"), settings):
        raise jwt.InvalidAudienceError
    subject = claims["sub"]
    if not subject or len(subject) > _SUBJECT_LENGTH or "\0" in subject:
        raise jwt.InvalidTokenError
    name = claim(claims, settings.user_claim)
    return IdentityClaims(
        issuer=settings.issuer,
        subject=subject,
        name=name if isinstance(name, str) else "",
        groups=_texts(claim(claims, settings.groups_claim)),
    )


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, or by a path with dots through nested claims; None if it is not there."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _is_party(party: Any, settings: Any) -> bool:
    """Whether a token for several audiences was issued to a client of this service."""
    return party in (*settings.bearer_audiences, settings.pages_client) and bool(party)


def _texts(value: Any) -> tuple[str, ...]:
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(text for text in values[:_MOST_GROUPS] if isinstance(text, str))


def _reason(error: Exception) -> str:
    if isinstance(error, jwt.MissingRequiredClaimError):
        return f"This token lacks the claim {error.claim!a}."
    return next(
        (reason for kind, reason in _REASONS.items() if isinstance(error, kind)), "This token cannot be read."
    )
