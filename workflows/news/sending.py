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
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import aiohttp
import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.utils.crypto import salted_hmac

from pools.values.news_targets import host_of, target_faults
from web.env import environment
from workflows.models import NewsItem
from workflows.news.messages import event_text, mail_text
from workflows.news.outbox import channel_of

SECONDS = 10.0
MAIL_SECONDS = 30.0
"""For all answers of a mail server, which hold up the next batch. A letter taken later comes twice."""

SIGNATURE = "X-Osmo-Signature-256"

log = structlog.get_logger(__name__)

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


def send(items: Sequence[NewsItem]) -> Generator[tuple[NewsItem, str], None, None]:
    """Send items at the same time; gives each, once its sending ended, with what went wrong, or nothing.

    The event loop runs only while the caller waits for the next item, so the caller may use the database.
    Each letter has a thread for what blocks, its name's resolution or its mail server. One that blocks beyond
    its time is left behind.
    """
    letters: list[_Letter] = []
    for item in items:
        try:
            letters.append(_Letter(item))
        except Exception as error:
            log.exception("news_not_written", item=item.uuid.hex)
            yield item, _unsent(error)
    if not letters:
        return
    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor(len(letters))
    loop.set_default_executor(threads)
    session = loop.run_until_complete(_new_session())
    sendings = {loop.create_task(_problem(session, letter)): letter.item for letter in letters}
    try:
        while sendings:
            ended, _ = loop.run_until_complete(asyncio.wait(sendings, return_when=asyncio.FIRST_COMPLETED))
            for task in ended:
                yield sendings.pop(task), task.result()
    finally:
        loop.run_until_complete(_end(session, sendings))
        threads.shutdown(wait=False, cancel_futures=True)
        loop.close()


async def _new_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=_checked_socket),
        timeout=aiohttp.ClientTimeout(total=SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )


async def _end(session: aiohttp.ClientSession, sendings: Iterable[asyncio.Task[str]]) -> None:
    for task in sendings:
        task.cancel()
    await asyncio.gather(*sendings, return_exceptions=True)
    await session.close()


async def _problem(session: aiohttp.ClientSession, letter: "_Letter") -> str:
    """Send a letter; what went wrong, or nothing."""
    try:
        async with asyncio.timeout(SECONDS if letter.channel == "webhook" else MAIL_SECONDS):
            letter.refuse_unlisted()
            if letter.channel == "webhook":
                await letter.post(session)
            else:
                await asyncio.to_thread(letter.mail)
    except NotSent as error:
        return str(error)
    except TimeoutError:
        return f"No answer within {SECONDS:g} s." if letter.channel == "webhook" else "No answer in time."
    except (aiohttp.ClientResponseError, aiohttp.ServerDisconnectedError):
        return "It gives no answer in HTTP."
    except OSError as error:  # those of aiohttp about connections and of smtplib are such, too
        text = str(error).replace(letter.address, host_of(letter.channel, letter.address))
        return f"{type(error).__name__}: {''.join(filter(str.isprintable, text))}"
    except Exception as error:  # noqa: BLE001 -- no letter keeps the others from their ends
        return _unsent(error)
    return ""


def _unsent(error: Exception) -> str:
    return f"It could not be sent: {type(error).__name__}."


class _Letter:
    """An item on its way, with its texts: no row is read once the event loop runs."""

    def __init__(self, item: NewsItem) -> None:
        self.item = item
        self.channel, self.address = channel_of(item.target)
        self._body = event_text(item).encode() if self.channel == "webhook" else b""
        self._subject, self._text = mail_text(item) if self.channel == "email" else ("", "")

    def refuse_unlisted(self) -> None:
        """Refuse what the settings allow no more. Raises NotSent."""
        is_users = self.item.owner.startswith("user:")
        if fault := next(target_faults([self.item.target], path=(), of_user=is_users), None):
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
        kind, _, name = self.item.owner.partition(":")
        if kind == "user":
            return user_key(name)
        return environment().notify_secrets[self.item.target["secret"]].get_secret_value()

    def mail(self) -> None:
        headers = {"Message-ID": f"<{self.item.uuid}@osmo-topology>", "Auto-Submitted": "auto-generated"}
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
