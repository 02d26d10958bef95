"""An asyncio client that does nothing but calls: the measure for how fast a cluster can be written to.

Eight connections, bodies encoded beforehand, replies read and thrown away.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Iterable, Sequence
from typing import Any

import aiohttp

from localcluster.api import Access

CONNECTIONS = 8
PATIENCE_SECONDS = 600.0
READ_BUFFER_BYTES = 2**22
"""At least one line of a watch."""

Call = tuple[str, str, bytes]
"""Verb, path and body."""


def send(access: Access, *kinds: Sequence[Call]) -> float:
    """Send all calls, kind by kind; seconds from the first request to the last reply."""
    return asyncio.run(asyncio.wait_for(_send(access, kinds), PATIENCE_SECONDS))


def creations(path: str, bodies: Iterable[dict[str, Any]]) -> list[Call]:
    return [("POST", path, json.dumps(body).encode()) for body in bodies]


def deletions(path: str, bodies: Iterable[dict[str, Any]]) -> list[Call]:
    """At once: a pod is not waited for."""
    return [("DELETE", f"{path}/{body['metadata']['name']}", b'{"gracePeriodSeconds": 0}') for body in bodies]


def renamed(body: dict[str, Any], *, name: str, namespace: str) -> dict[str, Any]:
    """The same object under another name in another namespace."""
    return body | {"metadata": body["metadata"] | {"name": name, "namespace": namespace}}


def session_of(access: Access, *, connections: int = CONNECTIONS) -> aiohttp.ClientSession:
    """A session with so many connections; 0: as many as there are requests."""
    tls = ssl.create_default_context(cafile=access.ca_file)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {access.token}"}
    connector = aiohttp.TCPConnector(limit=connections, ssl=tls)
    return aiohttp.ClientSession(
        access.server, connector=connector, headers=headers, read_bufsize=READ_BUFFER_BYTES
    )


async def exchange(session: aiohttp.ClientSession, call: Call) -> None:
    """Send one call and read its reply; raises RuntimeError for a refusal."""
    verb, path, body = call
    async with session.request(verb, path, data=body) as reply:
        answer = await reply.read()
        if reply.status >= 300 and (verb, reply.status) != ("DELETE", 404):
            raise RuntimeError(f"{verb} {path} is answered with {reply.status}: {answer[:300]!r}")


async def _send(access: Access, kinds: Sequence[Sequence[Call]]) -> float:
    async with session_of(access) as session:
        began = time.perf_counter()
        for calls in kinds:
            shared = iter(calls)
            await asyncio.gather(*(_take(session, shared) for _ in range(CONNECTIONS)))
        return time.perf_counter() - began


async def _take(session: aiohttp.ClientSession, calls: Iterable[Call]) -> None:
    """Send what is left of the calls, of which others take some, too."""
    for call in calls:
        await exchange(session, call)
