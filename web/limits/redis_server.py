"""Redis beside the broker: a client of it, and keys that are given once and used once.

What two web processes share for a minute stands here, since Redis may be emptied at any time: whoever loses
a key asks for another one.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Final
from urllib.parse import unquote, urlsplit

import redis
from django.conf import settings
from redis.sentinel import Sentinel

from scheduling.errors import Unavailable
from web.env import SENTINEL

KEY_SECONDS: Final = 60
_PREFIX: Final = "osmo-topology:key:"


def redis_client(url: str) -> redis.Redis:
    limits = {"socket_timeout": 2, "socket_connect_timeout": 2}
    if not url.startswith(SENTINEL):
        return redis.Redis.from_url(_plain_url(url), **limits)
    addresses = [urlsplit(address) for address in url.split(";")]
    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    sentinels = Sentinel(  # type: ignore[no-untyped-call] # theirs
        [(address.hostname, address.port or 26379) for address in addresses],
        sentinel_kwargs=options["sentinel_kwargs"] | limits,
        **limits,
    )
    login = {"username": addresses[0].username, "password": addresses[0].password}
    credentials = {name: unquote(value) for name, value in login.items() if value}
    client: redis.Redis = sentinels.master_for(  # type: ignore[no-untyped-call]
        options["master_name"], **credentials
    )
    return client


def _plain_url(url: str) -> str:
    """Celery writes a socket as ``redis+socket://``, redis-py as ``unix://``."""
    return url.replace("redis+socket://", "unix://", 1).replace("virtual_host=", "db=")


def give_key(kind: str, content: str) -> str:
    """A new key that stands for a content for a minute, such as ``EXEC-4f0c...``. Raises Unavailable."""
    key = f"{kind}-{secrets.token_hex(16)}"
    put_key(key, content)
    return key


def put_key(key: str, content: str) -> None:
    """Let a key that somebody else has made stand for a content. Raises Unavailable."""
    with shared_redis() as client:
        client.set(_PREFIX + key, content, ex=KEY_SECONDS)


def use_key(key: str) -> str | None:
    """The content that a key stands for, once; None if it was used or has expired. Raises Unavailable."""
    return use_keys([key])[0]


def use_keys(keys: Sequence[str]) -> list[str | None]:
    """The same for many keys, in their order, with one call. Raises Unavailable."""
    with shared_redis() as client, client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.getdel(_PREFIX + key)
        contents = pipe.execute()
    return [content.decode() if isinstance(content, bytes) else None for content in contents]


@contextmanager
def shared_redis() -> Iterator[redis.Redis]:
    """The client of this process. Raises Unavailable where Redis does not answer."""
    try:
        yield _shared(settings.CELERY_BROKER_URL)
    except redis.RedisError as error:
        raise Unavailable(
            "Sessions in tasks need Redis, which does not answer at the moment. Try again."
        ) from error


@cache
def _shared(url: str) -> redis.Redis:
    return redis_client(url)
