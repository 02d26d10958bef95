"""Short logins for OSMO's client: a JWT that stands for a personal token, for some minutes.

The client hands in a personal token and sends the JWT it gets with every request. The JWT is signed and
carries who it is for, until when, and the digest of the personal token behind it; whoever reads it looks
that row up, so a token that is revoked ends its JWTs with the next request, and rights are those of the
user now, not then. Nothing about rights is in the JWT.

Only HS256 is signed and read, with keys that are ours alone: a JWT that says ``none`` or another algorithm
is refused before any key is tried, and there is no public key that could be taken for a secret. The first
of ``OSMO_JWT_SECRETS`` signs, all of them verify, so one can be changed for the next; without any, the key
is made of ``OSMO_SECRET_KEY``. Rejected: a JWT that is believed by itself, which no revocation reaches.
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt
from django.conf import settings

from web.models import PersonalToken

ALGORITHM = "HS256"
ISSUER = "osmo-topology"
_CLAIMS = ["iss", "sub", "iat", "exp", "tok"]
_LABEL = b"osmo-topology login of OSMO's client"
_LONGEST = 4096


class Unreadable(Exception):
    """A text that is not a valid JWT of this service. The message repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class Claims:
    """The content of a JWT: the key of a user, and the digest of their personal token."""

    user: int
    digest: str


def bearer(authorization: str) -> str | None:
    """The JWT that an Authorization header bears, if it does; a personal token has no dot."""
    scheme, _, text = authorization.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" and "." in text else None


def issue(token: PersonalToken, *, now: datetime) -> str:
    """Sign a JWT for a personal token; it does not outlive the token."""
    expires = now + timedelta(seconds=settings.JWT_SECONDS)
    if token.expiry is not None:
        expires = min(expires, token.expiry)
    claims = {
        "iss": ISSUER,
        "sub": str(token.user_id),
        "name": token.user.get_username(),
        "iat": int(now.timestamp()),
        "exp": int(expires.timestamp()),
        "tok": token.digest,
    }
    key = _keys()[0]
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": _name(key)})


def read(text: str) -> Claims:
    """Read a JWT. Raises Unreadable."""
    try:
        return _read(text)
    except jwt.ExpiredSignatureError as error:
        raise Unreadable("This login has expired; hand in the personal token again.") from error
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise Unreadable("This login is not one of this service.") from error


def _read(text: str) -> Claims:
    if len(text) > _LONGEST:
        raise jwt.DecodeError("too long")
    kid = jwt.get_unverified_header(text).get("kid")
    key = next((key for key in _keys() if _name(key) == kid), None)
    if key is None:
        raise jwt.InvalidKeyError("no key of this name")
    claims = jwt.decode(text, key, algorithms=[ALGORITHM], issuer=ISSUER, options={"require": _CLAIMS})
    return Claims(user=int(claims["sub"]), digest=str(claims["tok"]))


def _keys() -> list[bytes]:
    """The verifying keys; the first one signs."""
    if settings.JWT_SECRETS:
        return [secret.encode() for secret in settings.JWT_SECRETS]
    return [hmac.new(settings.SECRET_KEY.encode(), _LABEL, hashlib.sha256).digest()]


def _name(key: bytes) -> str:
    """The id of a key in a JWT's header; it identifies the key and reveals nothing of it."""
    return hmac.new(key, b"kid", hashlib.sha256).hexdigest()[:16]
