"""Where an address of news leads, in the form in which administrators list it (``OSMO_NOTIFY_HOSTS``)."""

import re
from ipaddress import IPv6Address

_MOST_ADDRESS = 2048
_WEB = re.compile(r"(https?)://(\[([0-9A-Fa-f:.]+)\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[!-~]*)?", re.ASCII)
_MAIL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@([A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)", re.ASCII)
_DEFAULT_PORTS = {"https": 443, "http": 80}


def origin_of(channel: str, address: str) -> str:
    """Where an address leads, as administrators list it; empty for what is no address."""
    if len(address) > _MOST_ADDRESS:
        return ""
    if channel == "email":
        match = _MAIL.fullmatch(address)
        return f"mailto:{match[1].lower()}" if match else ""
    match = _WEB.fullmatch(address)
    if match is None or "#" in address or not _is_host(match[3]):
        return ""
    scheme, host = match[1], match[2].lower()
    port = int(match[4][1:]) if match[4] else _DEFAULT_PORTS[scheme]
    if not 0 < port < 65536:
        return ""
    return f"{scheme}://{host}{'' if port == _DEFAULT_PORTS[scheme] else f':{port}'}"


def _is_host(literal: str | None) -> bool:
    """Whether what stands in brackets is an IPv6 address; a host without them is a name or a number."""
    try:
        if literal is not None:
            IPv6Address(literal)
    except ValueError:
        return False
    return True


def is_origin(text: str) -> bool:
    """Whether this is an origin as ``origin_of`` writes it, so that an address can be equal to it."""
    if text.startswith("mailto:"):
        return text == origin_of("email", text.replace("mailto:", "name@", 1))
    return text == origin_of("webhook", text)
