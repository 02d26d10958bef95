"""Logins of an identity provider: its device flow (RFC 8628), and the renewal of what that gave.

The service names the provider's addresses and its client (``GET /api/auth/login``), and takes the provider's
ID token as a bearer. The provider is spoken to by TLS alone, except on this machine, and no redirect of it
is followed: codes and refresh tokens go to the named addresses and nowhere else.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import requests

from osmo_topology_cli.login import ProviderLogin
from osmo_topology_client.connection import MOST_CHARACTERS, connection
from osmo_topology_client.errors import Failure, Misused

SCOPE = "openid offline_access profile"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL = 5.0
SECONDS = 30.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTokens:
    id_token: str
    refresh_token: str


def device_login(
    addresses: Mapping[str, Any], *, url: str, notify: Callable[[str], None], sleep: Callable[[float], None]
) -> ProviderTokens:
    """Show where to enter which code, and wait until somebody has. Raises Failure."""
    if not addresses.get("device_endpoint"):
        raise Misused(
            f"{url} offers no login with a browser; log in with a personal token: set OSMO_TOKEN, or give "
            "--token-file."
        )
    client = addresses["device_client_id"]
    began = _sent(addresses["device_endpoint"], {"client_id": client, "scope": SCOPE})
    if "device_code" not in began:
        raise _refusal(began)
    notify(f"Open {began['verification_uri']} and enter the code {began['user_code']}")
    if complete := began.get("verification_uri_complete"):
        notify(f"or open {complete}")
    fields = {"grant_type": DEVICE_GRANT, "device_code": began["device_code"], "client_id": client}
    interval = float(began.get("interval") or INTERVAL)
    until = time.monotonic() + float(began.get("expires_in") or 600)
    while time.monotonic() < until:
        sleep(interval)
        reply = _sent(addresses["token_endpoint"], fields)
        if "error" not in reply:
            return _tokens(reply, refresh_token="")
        if reply["error"] == "slow_down":
            interval += INTERVAL
        elif reply["error"] != "authorization_pending":
            raise _refusal(reply)
    raise Failure("The code has expired; begin the login again.")


def renewed(provider: ProviderLogin) -> ProviderTokens:
    """New tokens for a refresh token. Raises Failure."""
    reply = _sent(
        provider.token_endpoint,
        {
            "grant_type": "refresh_token",
            "refresh_token": provider.refresh_token,
            "client_id": provider.client_id,
        },
    )
    if "error" in reply:
        raise Misused(f"The login has ended; log in again. {_refusal(reply).message}")
    return _tokens(reply, refresh_token=provider.refresh_token)


def _sent(address: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """The provider's answer, which has ``error`` where it refuses."""
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        raise Misused(f"The identity provider's address {address} is not https://; nothing is sent there.")
    with connection(address):
        answer = requests.post(address, data=fields, timeout=SECONDS, allow_redirects=False)
        text = answer.text
    try:
        content = answer.json()
    except ValueError:
        content = None
    if isinstance(content, dict) and (answer.status_code == 200 or "error" in content):
        return content
    excerpt = " ".join(text[:MOST_CHARACTERS].split())
    raise Failure(f"The identity provider answered with {answer.status_code}: {excerpt}")


def _tokens(reply: Mapping[str, Any], *, refresh_token: str) -> ProviderTokens:
    if not reply.get("id_token"):
        raise Failure("The identity provider gave no ID token.")
    return ProviderTokens(
        id_token=str(reply["id_token"]), refresh_token=str(reply.get("refresh_token") or refresh_token)
    )


def _refusal(reply: Mapping[str, Any]) -> Failure:
    reason = reply.get("error_description") or reply.get("error") or "no reason is given"
    return Failure(f"The identity provider refused the login: {reason}")
