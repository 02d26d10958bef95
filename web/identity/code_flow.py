"""A login of the pages: authorization code with PKCE, as values and two steps.

oauthlib builds the requests and reads the answers; it sends nothing, so each request has the limits of
``fetching``, and the token is verified where bearers are. Rejected: Authlib's client for Django and
mozilla-django-oidc, which fetch keys and verify tokens a second time, by rules of their own: the one without
a deadline over the whole answer, the other without issuer and audience.

The secrets of an attempt stay in the browser's session here, by its state, and serve once.
"""

import secrets
from base64 import b64encode
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote_plus

from oauthlib.oauth2 import OAuth2Error, WebApplicationClient

from web.identity.configuration import ProviderSettings
from web.identity.fetching import fetch
from web.identity.provider import Provider
from web.identity.verification import IdentityClaims, TokenRefused, verify

_VERIFIER_LENGTH = 64
_CHALLENGE_METHOD = "S256"


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """The proof that a login owes when it comes back; ``begun_at`` in seconds since 1970."""

    state: str
    nonce: str
    verifier: str
    page: str
    begun_at: float

    def stored(self) -> dict[str, Any]:
        """The attempt as JSON."""
        return asdict(self)


def begin(provider: Provider, *, redirect: str, page: str, now: float) -> tuple[LoginAttempt, str]:
    """A new attempt, and the provider's address for the browser. Raises Unreachable."""
    settings = provider.settings
    client = WebApplicationClient(settings.pages_client)
    attempt = LoginAttempt(
        state=secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        verifier=client.create_code_verifier(_VERIFIER_LENGTH),
        page=page,
        begun_at=now,
    )
    address = client.prepare_request_uri(
        provider.publication().authorization_endpoint,
        redirect_uri=redirect,
        scope=list(settings.scopes),
        state=attempt.state,
        nonce=attempt.nonce,
        code_challenge=client.create_code_challenge(attempt.verifier, _CHALLENGE_METHOD),
        code_challenge_method=_CHALLENGE_METHOD,
    )
    return attempt, address


def finish(provider: Provider, attempt: LoginAttempt, *, query: str, redirect: str) -> IdentityClaims:
    """Exchange the code with which the browser came back for a token, and verify that.

    Raises TokenRefused, and Unreachable.
    """
    settings = provider.settings
    client = WebApplicationClient(settings.pages_client)
    try:
        answer = client.parse_request_uri_response(f"https://callback/?{query}", state=attempt.state)
    except OAuth2Error as error:
        raise TokenRefused(f"The identity provider did not log you in: {error.error}.") from error
    if answer.get("iss", settings.issuer) != settings.issuer:  # RFC 9207
        raise TokenRefused("Another identity provider sent you here.")
    form = client.prepare_request_body(
        code=answer["code"],
        redirect_uri=redirect,
        include_client_id=not settings.pages_secret,
        code_verifier=attempt.verifier,
    )
    tokens = fetch(
        provider.publication().token_endpoint,
        ca_file=settings.ca_file,
        form=form,
        headers=_client_login(settings),
    )
    token = tokens.document.get("id_token")
    if tokens.status != 200 or not isinstance(token, str):
        raise TokenRefused("The identity provider did not accept this login. Log in again.")
    return verify(token, provider=provider, audiences=(settings.pages_client,), nonce=attempt.nonce)


def _client_login(settings: ProviderSettings) -> dict[str, str]:
    """How a client with a secret proves itself: HTTP's basic login, each part encoded as a form's value."""
    if not settings.pages_secret:
        return {}
    pair = f"{quote_plus(settings.pages_client)}:{quote_plus(settings.pages_secret)}"
    return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
