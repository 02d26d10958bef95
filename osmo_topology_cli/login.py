"""Who calls which service: options, then the environment, then the login of OSMO's own client.

A credential that was stored for one address is never sent to another: with ``--url`` or ``OSMO_URL`` naming
another service than ``login.yaml`` does, that file's login is not used. The file (OSMO 6.4) holds ``url`` and
either ``dev_login.username`` or ``token_login``, whose ``id_token`` is a JWT; where ``osmo_token`` is true
its ``refresh_token`` is a personal token that gets the next one. It is read, and never written.
"""

import base64
import binascii
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmo_topology_cli.outcomes import Misused

EXPIRES_WITHIN = 5.0  # seconds; a token that ends sooner may end on its way


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """``bearer`` is sent as it is; ``renewing`` is a personal token that a new bearer is got for first."""

    url: str
    bearer: str = ""
    renewing: str = ""
    user: str = ""


def find_login(*, url: str, token: str, user: str, environment: Mapping[str, str]) -> Login:
    """The login to use; empty options were not given. Raises Misused, saying what is missing."""
    path = login_file(environment)
    stored = _read(path)
    address = (url or environment.get("OSMO_URL") or str(stored.get("url") or "")).rstrip("/")
    token = token or ("" if user else environment.get("OSMO_TOKEN", ""))
    if not address:
        raise Misused(
            f"Which service? Give --url, set OSMO_URL, or log in with OSMO's client (there is no {path})."
        )
    if not address.startswith(("http://", "https://")):
        raise Misused(f'"{address}" is no address of a service; one begins with https:// or http://.')
    if token and user:
        raise Misused("--token and --user are two logins; give one of them.")
    if token or user:
        return Login(url=address, bearer=token, user=user)
    if address != str(stored.get("url") or "").rstrip("/"):
        raise Misused(f"Who are you at {address}? Give --token or set OSMO_TOKEN.")
    return _stored(stored, address=address, path=path)


def login_file(environment: Mapping[str, str]) -> Path:
    """Where OSMO's client keeps its login."""
    if folder := environment.get("OSMO_CONFIG_FILE_DIR"):
        return Path(folder) / "login.yaml"
    base = environment.get("XDG_CONFIG_HOME") or str(
        Path(environment.get("HOME", "~")).expanduser() / ".config"
    )
    return Path(base) / "osmo" / "login.yaml"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise Misused(f"The login in {path} cannot be read: {error}") from error
    import yaml  # noqa: PLC0415 -- only where there is a file

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise Misused(f"The login in {path} cannot be read: {reason}") from error
    if not isinstance(content, Mapping):
        raise Misused(f"The login in {path} cannot be read: it is no mapping.")
    return content


def _stored(stored: Mapping[str, Any], *, address: str, path: Path) -> Login:
    match stored:
        case {"dev_login": {"username": str(name)}}:
            return Login(url=address, user=name)
        case {"token_login": {"id_token": str(bearer)}} if _lasts(bearer):
            return Login(url=address, bearer=bearer)
        case {"osmo_token": True, "token_login": {"refresh_token": str(personal)}} if personal:
            return Login(url=address, renewing=personal)
    raise Misused(f"The login in {path} has expired or holds none. Log in again, or set OSMO_TOKEN.")


def _lasts(jwt: str) -> bool:
    """Whether the token is good for a while, by its own expiry; the service decides."""
    payload = [*jwt.split("."), ""][1]
    try:
        ends = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"]
        return float(ends) - EXPIRES_WITHIN > time.time()
    except (binascii.Error, ValueError, KeyError, TypeError):
        return False
