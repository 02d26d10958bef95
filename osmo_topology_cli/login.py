"""Who calls which service: options, then the environment, then the login of OSMO's own client.

A credential that was stored for one address is never sent to another: with ``--url`` or ``OSMO_URL`` naming
another service than ``login.yaml`` does, that file's login is not used. The file (OSMO 6.4) holds ``url`` and
either ``dev_login.username`` or ``token_login``, whose ``id_token`` is a JWT; where ``osmo_token`` is true
its ``refresh_token`` is a personal token that gets the next one, else one of the identity provider. The
command ``login`` writes the file, and so does the renewal of a provider's login, whose refresh token may be
good for one use.
"""

import base64
import binascii
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osmo_topology_client.errors import Misused
from osmo_topology_client.sendable import check_header, check_texts

TOKEN_PATH = "/api/auth/jwt/access_token"  # noqa: S105 -- an address
EXPIRES_WITHIN = 5.0  # seconds; a token that ends sooner may end on its way


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLogin:
    """A login of an identity provider that has ended and may be renewed there."""

    token_endpoint: str
    client_id: str
    refresh_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """``bearer`` is sent as it is; ``renewing`` is a personal token that a new bearer is got for first.

    ``provider`` is renewed, and stored, before the first request.
    """

    url: str
    bearer: str = ""
    renewing: str = ""
    user: str = ""
    provider: ProviderLogin | None = None


def find_login(*, url: str, token: str, user: str, environment: Mapping[str, str]) -> Login:
    """The login to use; empty options were not given. Raises Misused, saying what is missing or wrong."""
    path = login_file(environment)
    stored = _read(path)
    address = service_address(url, environment=environment, stored=str(stored.get("url") or ""))
    if token and user:
        raise Misused("--token and --user are two logins; give one of them.")
    if user:
        return Login(url=address, user=user_name(user))
    if bearer := personal_token(token, environment=environment):
        return Login(url=address, bearer=bearer)
    if address != str(stored.get("url") or "").rstrip("/"):
        raise Misused(f"Who are you at {address}? Give --token or set OSMO_TOKEN.")
    login = _stored(stored, address=address, path=path)
    check_header(login.bearer or login.user, source=f"The login in {path}")
    return login


def user_name(user: str) -> str:
    """The name of ``--user``. Raises Misused if no header can hold it."""
    check_header(user, source="--user")
    return user


def personal_token(token: str, *, environment: Mapping[str, str]) -> str:
    """The token of ``--token``, else of OSMO_TOKEN, else empty. Raises Misused if no header can hold it."""
    check_header(token, source="--token")
    if token:
        return token
    check_header(token := environment.get("OSMO_TOKEN", ""), source="OSMO_TOKEN")
    return token


def service_address(url: str, *, environment: Mapping[str, str], stored: str = "") -> str:
    """The address of the service, without a slash at its end. Raises Misused."""
    address = (url or environment.get("OSMO_URL") or stored).rstrip("/")
    if not address:
        path = login_file(environment)
        raise Misused(f"Which service? Give --url, set OSMO_URL, or log in (there is no login in {path}).")
    check_texts(address)
    if not address.startswith(("http://", "https://")):
        raise Misused(f'"{address}" is no address of a service; one begins with https:// or http://.')
    return address


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
        case {"token_login": {"refresh_token": str(token), "refresh_url": str(at), "client_id": str(client)}}:
            provider = ProviderLogin(token_endpoint=at, client_id=client, refresh_token=token)
            return Login(url=address, provider=provider)
    raise Misused(f"The login in {path} has expired or holds none. Log in again, or set OSMO_TOKEN.")


def _lasts(jwt: str) -> bool:
    """Whether the token is good for a while, by its own expiry; the service decides."""
    try:
        return float(claims(jwt)["exp"]) - EXPIRES_WITHIN > time.time()
    except (KeyError, TypeError, ValueError):
        return False


def claims(jwt: str) -> Mapping[str, Any]:
    """What a token says of itself, unverified; empty for what is no JWT."""
    payload = [*jwt.split("."), ""][1]
    try:
        content = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return content if isinstance(content, Mapping) else {}


def stored_token(
    *, url: str, id_token: str, refresh_token: str, refresh_url: str, client_id: str = ""
) -> dict[str, Any]:
    """A login by token as OSMO's client keeps it; without a client of a provider it is a personal token's."""
    token_login = {
        "id_token": id_token,
        "refresh_token": refresh_token or None,
        "refresh_url": refresh_url,
        "client_id": client_id or None,
    }
    name = str(claims(id_token).get("name") or "")
    return {
        "dev_login": None,
        "name": name,
        "osmo_token": not client_id,
        "token_login": token_login,
        "url": url,
    }


def stored_user(*, url: str, user: str) -> dict[str, Any]:
    """A login of a development service."""
    return {
        "dev_login": {"username": user},
        "name": user,
        "osmo_token": False,
        "token_login": None,
        "url": url,
    }


def store(content: Mapping[str, Any], *, path: Path) -> None:
    """Write the file for its owner alone, whole or not at all. Raises Misused."""
    import yaml  # noqa: PLC0415 -- a login is rare

    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            yaml.safe_dump(dict(content), file)
        draft.replace(path)
    except OSError as error:
        raise Misused(f"The login cannot be written to {path}: {error.strerror}.") from error
