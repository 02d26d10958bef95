"""Sending news: webhooks as signed CloudEvents, and e-mail by Django's backend.

Each webhook has one deadline, follows no redirect and reads no body. Where it connects to is checked in the
moment of connecting, on the address that the socket gets, so neither a name that resolves anew nor a number
in another spelling leads into the cluster. An error never has the address, which may carry a secret.
"""

import asyncio
import errno
import hashlib
import hmac
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import aiohttp
from django.conf import settings
from django.core.mail import EmailMessage
from django.utils.crypto import salted_hmac

from pools.values.news_targets import host_of, target_faults
from web.env import environment
from workflows.models import NewsItem
from workflows.news.messages import event_text, mail_text
from workflows.news.outbox import channel_of

SECONDS = 10.0
SIGNATURE = "X-Osmo-Signature-256"

_NEVER = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "100.100.100.200",
            "168.63.129.16",
            "169.254.0.0/16",
            "192.0.0.192",
            "fd00:42::42",
            "fd00:ec2::/32",
            "fd20:ce::254",
            "fe80::/10",
        ),
    )
)
"""Link-local addresses and where clouds serve credentials of machines; no setting opens them."""

_CARRY_IPV4 = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")))
"""Networks of IPv6 in which the last 32 bits lead to an address of IPv4."""

_PUBLIC_IPV6 = ip_network("2000::/3")
_NOT_PUBLIC = tuple(map(ip_network, ("192.0.0.0/24", "3fff::/20")))
"""Beside what Python 3.11 knows to be private."""


def may_connect(address: IPv4Address | IPv6Address, *, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    """Whether a webhook may lead to an address; an IPv4 address inside another one counts itself."""
    if isinstance(address, IPv6Address) and (inner := _inner(address)):
        return may_connect(inner, networks=networks)
    if any(address in network for network in _NEVER):
        return False
    return any(address in network for network in networks) or _is_public(address)


def _inner(address: IPv6Address) -> IPv4Address | None:
    if any(address in network for network in _CARRY_IPV4) and not address.is_loopback:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if address.version == 6 and address not in _PUBLIC_IPV6:
        return False
    is_special = address.is_multicast or address.is_reserved or not address.is_global
    return not is_special and not any(address in network for network in _NOT_PUBLIC)


class NotSent(Exception):
    """A target did not take an item; the message says why, without its address."""


def user_key(username: str) -> str:
    """The key that signs the webhooks of a user's workflows."""
    return salted_hmac("workflows.news", username, algorithm="sha256").hexdigest()


def signature(body: bytes, key: str) -> str:
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def send(items: Sequence[NewsItem]) -> list[str]:
    """Send items at the same time; returns of each what went wrong, or nothing."""
    letters = [_Letter(item, *channel_of(item.target)) for item in items]
    return asyncio.run(_send(letters)) if letters else []


async def _send(letters: Sequence["_Letter"]) -> list[str]:
    """Send letters, each with a thread for what blocks: its name's resolution, or its mail server."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(len(letters)))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=_checked_socket),
        timeout=aiohttp.ClientTimeout(total=SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    ) as session:
        return await asyncio.gather(*(_problem(session, letter) for letter in letters))


async def _problem(session: aiohttp.ClientSession, letter: "_Letter") -> str:
    """Send a letter; what went wrong, or nothing."""
    try:
        letter.refuse_unlisted()
        if letter.channel == "webhook":
            await letter.post(session)
        else:
            await asyncio.wait_for(asyncio.to_thread(letter.mail), SECONDS)
    except NotSent as error:
        return str(error)
    except TimeoutError:
        return f"No answer within {SECONDS:g} s."
    except (aiohttp.ClientResponseError, aiohttp.ServerDisconnectedError):
        return "It gives no answer in HTTP."
    except OSError as error:  # those of aiohttp about connections and of smtplib are such, too
        text = str(error).replace(letter.address, host_of(letter.channel, letter.address))
        return f"{type(error).__name__}: {''.join(filter(str.isprintable, text))}"
    except Exception as error:  # noqa: BLE001 -- no letter keeps the others from their ends
        return f"It could not be sent: {type(error).__name__}."
    return ""


class _Letter:
    """An item on its way, with its texts: no row is read once the event loop runs."""

    def __init__(self, item: NewsItem, channel: str, address: str) -> None:
        self.channel, self.address = channel, address
        self._item = item
        self._body = event_text(item).encode() if channel == "webhook" else b""
        self._subject, self._text = mail_text(item) if channel == "email" else ("", "")

    def refuse_unlisted(self) -> None:
        """Refuse what the settings allow no more. Raises NotSent."""
        is_users = self._item.owner.startswith("user:")
        if fault := next(target_faults([self._item.target], path=(), of_user=is_users), None):
            raise NotSent(fault.message)

    async def post(self, session: aiohttp.ClientSession) -> None:
        headers = {
            "Content-Type": "application/cloudevents+json; charset=utf-8",
            "User-Agent": "osmo-topology",
            SIGNATURE: signature(self._body, self._key()),
        }
        async with session.post(
            self.address, data=self._body, headers=headers, allow_redirects=False
        ) as reply:
            if 300 <= reply.status < 400:
                raise NotSent(f"It answers {reply.status}: redirects are not followed.")
            if not 200 <= reply.status < 300:
                raise NotSent(f"It answers {reply.status}.")

    def _key(self) -> str:
        kind, _, name = self._item.owner.partition(":")
        if kind == "user":
            return user_key(name)
        return environment().notify_secrets[self._item.target["secret"]].get_secret_value()

    def mail(self) -> None:
        headers = {"Message-ID": f"<{self._item.uuid}@osmo-topology>", "Auto-Submitted": "auto-generated"}
        EmailMessage(
            self._subject, self._text, settings.DEFAULT_FROM_EMAIL, [self.address], headers=headers
        ).send()


def _checked_socket(info: tuple[Any, ...]) -> socket.socket:
    """A socket for an address that was resolved. Raises OSError for one that webhooks may not lead to."""
    family, kind, protocol, _, place = info
    address = ip_address(place[0])
    if not may_connect(address, networks=environment().notify_networks):
        text = f"{address} is not public, and OSMO_NOTIFY_NETWORKS does not list it"
        raise PermissionError(errno.EACCES, text)
    return socket.socket(family, kind, protocol)
