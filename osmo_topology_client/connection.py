"""Every way in which a connection fails, as one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import requests

from osmo_topology_client.errors import ServiceUnreachable

MOST_CHARACTERS = 300


@contextmanager
def connection(url: str) -> Iterator[None]:
    """Raise ServiceUnreachable for whatever goes wrong on the way to the address."""
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise ServiceUnreachable(f"The certificate of {url} is not trusted: {_root(error)}") from error
    except requests.exceptions.Timeout as error:
        raise ServiceUnreachable(f"{url} did not answer in time.") from error
    except (requests.exceptions.RequestException, OSError) as error:
        raise ServiceUnreachable(f"{url} cannot be reached: {_root(error)}") from error


def _root(error: BaseException) -> str:
    """What went wrong at the bottom: requests wraps urllib3, which wraps the system's error."""
    reason = getattr(error.args[0], "reason", error.args[0]) if error.args else error
    text = str(reason).rpartition(": ")[2]
    return re.sub(r"^\[Errno -?\d+\] ", "", text)[:MOST_CHARACTERS] or type(error).__name__
