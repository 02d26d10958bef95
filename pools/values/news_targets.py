"""Whom news of workflows may be sent to: the form of a target, and which targets are allowed.

Administrators list what users may send to as origins: ``https://hooks.example.org``, ``http://ci:8080``,
``mailto:example.org``. A target of a pool is its administrator's own choice; of those only ``http`` must be
listed. What an address resolves to is checked when it is connected to (``workflows.news.sending``).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from scheduling.errors import Fault, Path
from scheduling.sentences import listing
from web.env import environment
from web.origins import origin_of

NewsKind = Literal["began", "ended", "waits", "never", "new_attempt", "degraded", "release_stuck"]
KINDS = get_args(NewsKind)
MOST_TARGETS = 8
WAITS_AFTER = 3600
"""Seconds."""
CHANNELS = ("webhook", "email")


def host_of(channel: str, address: str) -> str:
    """The host of a target, which is all that replies say of its address."""
    return origin_of(channel, address).partition(":")[2].lstrip("/")


def target_faults(targets: Iterable[Mapping[str, Any]], *, path: Path, of_user: bool) -> Iterator[Fault]:
    """What is wrong with the targets of a workflow (``of_user``) or a pool, as the settings are now."""
    before: set[tuple[str, str]] = set()
    for index, target in enumerate(targets):
        at = (*path, index)
        channels = [channel for channel in CHANNELS if target.get(channel)]
        if len(channels) != 1:
            yield Fault(at, "target", "Write either `webhook` or `email`.", allowed=CHANNELS)
            continue
        channel = channels[0]
        address, own = target[channel], environment()
        if (channel, address) in before:
            yield Fault((*at, channel), "duplicate_target", "This target stands here before.")
        before.add((channel, address))
        yield from _address_faults(channel, address, (*at, channel), of_user=of_user)
        if channel == "email" and not own.email_host:
            message = "This service sends no e-mail: OSMO_EMAIL_HOST is not set."
            yield Fault((*at, channel), "no_mail", message)
        if channel == "webhook" and not of_user and target["secret"] not in own.notify_secrets:
            message = "A webhook of a pool is signed: name an entry of OSMO_NOTIFY_SECRETS."
            yield Fault((*at, "secret"), "unknown_secret", message, allowed=tuple(sorted(own.notify_secrets)))


def _address_faults(channel: str, address: str, path: Path, *, of_user: bool) -> Iterator[Fault]:
    origin, allowed = origin_of(channel, address), tuple(sorted(environment().notify_hosts))
    if not origin:
        form = "https://host/path" if channel == "webhook" else "name@host"
        yield Fault(path, "address", f"This is no address of the form {form}, in plain ASCII.")
    elif origin not in allowed and (of_user or origin.startswith("http:")):
        rest = f"; listed: {listing(allowed)}." if allowed else "; none is."
        message = f"{origin} is not listed by the administrator (OSMO_NOTIFY_HOSTS){rest}"
        yield Fault(path, "host_not_listed", message, allowed=allowed)
