"""One bounded request to the identity provider: by TLS alone, without redirects, with one deadline.

aiohttp's total limit covers the name's resolution, the handshake, and an answer that arrives byte by byte;
the limits of urllib3 and requests begin anew with each byte.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

DEADLINE_SECONDS = 4.0
LARGEST_BYTES = 512 * 1024


class Unreachable(Exception):
    """The identity provider gave no usable answer in time. The message names the address."""


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    status: int
    document: dict[str, Any]


def fetch(
    address: str,
    *,
    ca_file: str,
    form: str | None = None,
    headers: Mapping[str, str] | None = None,
    seconds: float = DEADLINE_SECONDS,
) -> ProviderAnswer:
    """GET an address, or POST a form to it, and read the JSON object of the answer. Raises Unreachable."""
    if not address.startswith("https://"):
        raise Unreachable(f"{address} is no https address")
    try:
        return asyncio.run(_fetch(address, ca_file, form, dict(headers or {}), seconds))
    except TimeoutError as error:
        raise Unreachable(f"{address} gave no answer within {seconds:g} s") from error
    except (aiohttp.ClientError, OSError, ValueError, RecursionError) as error:
        raise Unreachable(f"{address}: {type(error).__name__}: {error}") from error


async def _fetch(
    address: str, ca_file: str, form: str | None, headers: dict[str, str], seconds: float
) -> ProviderAnswer:
    context = ssl.create_default_context(cafile=ca_file or None)
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    headers |= {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with (
        aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=seconds), connector=aiohttp.TCPConnector(ssl=context)
        ) as session,
        session.request(
            "GET" if form is None else "POST", address, data=form, headers=headers, allow_redirects=False
        ) as response,
    ):
        document = json.loads(await _body(response))
    if not isinstance(document, dict):
        raise ValueError("the answer is no JSON object")  # noqa: TRY004 -- of the answer, not of an argument
    return ProviderAnswer(response.status, document)


async def _body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > LARGEST_BYTES:
            raise ValueError(f"the answer has more than {LARGEST_BYTES} bytes")
    return bytes(body)
