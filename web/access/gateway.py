"""OSMO's gateway mode: a proxy names the user in headers, and proves that it is the proxy.

OSMO's service believes ``x-osmo-user`` from any client that can reach its port. This service believes it only
if ``OSMO_TRUSTED_PROXY_SECRETS`` or ``OSMO_TRUSTED_PROXY_NETWORKS`` defines the proxy, and each request must
prove it: the secret in ``x-osmo-proxy-secret``, the peer's own address in one of the networks, or both where
both are set. From anybody else these headers are refused, not ignored: a caller who sends them expects to be
somebody, and a proxy that lost its secret must not fall back to a stranger's rights.

The proxy must remove the caller's own copies of these headers before it adds its own. If it adds without
removing, WSGI joins both with a comma, and a list of roles of which one is the caller's cannot be told from
the proxy's; so ``once`` checks the headers before they are joined (``web.server.environ`` calls it, and drops
names with underscores, which WSGI would read as dashes) and invalidates a repeated one.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from web.policy import NAME

USER, ROLES, POOLS = "HTTP_X_OSMO_USER", "HTTP_X_OSMO_ROLES", "HTTP_X_OSMO_ALLOWED_POOLS"
PROOF = "HTTP_X_OSMO_PROXY_SECRET"
IDENTITY = (USER, ROLES, POOLS)
_ON_THE_WIRE = frozenset(key.removeprefix("HTTP_").replace("_", "-") for key in (*IDENTITY, PROOF))
_REPEATED = "given more than once"  # no user, no role, no pool and no secret

USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@.+_-]{0,149}", re.ASCII)
USERNAME_RULE = "1 to 150 letters, digits and @ . + - _, the first a letter or a digit"
_MOST_NAMES = 1000

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Untrusted(Exception):
    """Headers that only the gateway may send came from another sender, or are malformed."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """The trusted proxy; nobody, if both are empty.

    ``forwarders`` are networks whose ``X-Forwarded-For`` counts, and nothing else that they send.
    """

    secrets: tuple[str, ...]
    networks: tuple[Network, ...]
    forwarders: tuple[Network, ...] = ()

    @property
    def configured(self) -> bool:
        return bool(self.secrets or self.networks)


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller that the proxy names; ``pools`` is None without a header about pools."""

    user: str
    roles: tuple[str, ...]
    pools: frozenset[str] | None


def once(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers with each repeated identity header replaced by a value that is refused."""
    counts = Counter(name.upper() for name, _ in headers)
    repeated = {name for name in _ON_THE_WIRE if counts[name] > 1}
    unrepeated = [(name, value) for name, value in headers if name.upper() not in repeated]
    return [*unrepeated, *((name, _REPEATED) for name in sorted(repeated))]


def identity(meta: Mapping[str, Any], proxy: Proxy) -> Identity | None:
    """The caller that the proxy names; None for a request without identity headers.

    Raises Untrusted. Its text never repeats what was sent.
    """
    if not any(header in meta for header in (*IDENTITY, PROOF)):
        return None
    if not proxy.configured:
        raise Untrusted("x-osmo-* identity headers are taken from a trusted gateway, and none is configured.")
    if not proves(meta, proxy):
        raise Untrusted("x-osmo-* identity headers are taken from the trusted gateway only.")
    if USER not in meta:
        if ROLES in meta or POOLS in meta:
            raise Untrusted("x-osmo-roles and x-osmo-allowed-pools come with x-osmo-user.")
        return None
    user = meta[USER].strip()
    if not USERNAME.fullmatch(user):
        raise Untrusted(f"x-osmo-user: {USERNAME_RULE}; given once.")
    roles = _names(meta.get(ROLES, ""), header="x-osmo-roles")
    pools = frozenset(_names(meta[POOLS], header="x-osmo-allowed-pools")) if POOLS in meta else None
    return Identity(user, roles, pools)


def proves(meta: Mapping[str, Any], proxy: Proxy) -> bool:
    """Whether a request comes from the proxy: everything that is configured holds."""
    if not proxy.configured:
        return False
    if proxy.secrets and not _secret_known(str(meta.get(PROOF, "")), proxy.secrets):
        return False
    return not proxy.networks or _within(str(meta.get("REMOTE_ADDR", "")), proxy.networks)


def client_address(meta: Mapping[str, Any], proxy: Proxy) -> str:
    """The address a limit counts by. An IPv6 caller commands a whole /64, which is counted as one."""
    address = caller_address(meta, proxy)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address) if address else "unknown"


def caller_address(meta: Mapping[str, Any], proxy: Proxy) -> IpAddress | None:
    """The peer's address, or the one that a proxy forwards for it; None if it is none.

    Each proxy adds the address of its own peer at the end of X-Forwarded-For. So entries count from the end,
    one for the peer if its word counts, and one more for each entry that is itself a forwarder. The caller
    wrote the others.
    """
    address = str(meta.get("REMOTE_ADDR", ""))
    entries = [entry.strip() for entry in str(meta.get("HTTP_X_FORWARDED_FOR", "")).split(",")]
    counts = proves(meta, proxy) or _within(address, proxy.forwarders)
    while counts and entries and (entry := entries.pop()):
        address = entry
        counts = _within(address, proxy.forwarders)
    return _address(address)


def is_loopback(text: str) -> bool:
    """Whether a peer's address is this machine's own."""
    address = _address(text)
    return address is not None and address.is_loopback


def _secret_known(secret_header: str, secrets: Sequence[str]) -> bool:
    """Compare with each secret, in the same time whichever is right."""
    proof = secret_header.encode("utf-8", "surrogateescape")
    return any([compare_digest(proof, secret.encode()) for secret in secrets])  # noqa: C419 -- all of them


def _within(text: str, networks: Sequence[Network]) -> bool:
    address = _address(text)
    return address is not None and any(address in network for network in networks)


def _address(text: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:  # a unix socket has no address
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _names(text: str, *, header: str) -> tuple[str, ...]:
    """A comma list of names. Raises Untrusted for one that is no name."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if len(names) > _MOST_NAMES or not all(len(name) <= 128 and NAME.fullmatch(name) for name in names):
        raise Untrusted(
            f"{header}: at most {_MOST_NAMES} names of letters, digits, dots, dashes, separated by commas."
        )
    return names
