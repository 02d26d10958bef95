"""Where kept logs lie: what the product asks of a store, and which one this installation has.

A store holds small whole objects under names that are made of uuids and a number alone, so no text of a user
is ever part of a path. It is asked for three things, and anything that can do them will serve: a directory
(``files``, the default) or a bucket (``s3``, an extra). Nothing is ever listed: rows name what is there
(``KeptLog``), and only what a row names is read or removed.

Rejected: Django's Storage API. Its file system storage writes into the final name, so a reader may meet half
a file, and finds another name where one is taken; with its bucket backends it would be a second library
between us and the one that does the work.
"""

import re
from functools import cache
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit
from uuid import UUID

from django.conf import settings

from workflows.logs.files import FileStore

NAME = re.compile(r"[0-9a-f]{32}/[0-9a-f]{32}-[0-9]{1,10}\.log\.gz")


class LogStore(Protocol):
    """Objects by name. Every method raises ``errors.StoreFailed``, and is safe to repeat."""

    def put(self, name: str, content: bytes) -> None:
        """Write an object whole, or replace it: a reader meets the old one or the new one."""

    def get(self, name: str) -> bytes | None:
        """Read an object; None if there is none."""

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""


def name_of(*, workflow: UUID, task_uuid: UUID, retry_id: int) -> str:
    """The name of one try's log."""
    return f"{workflow.hex}/{task_uuid.hex}-{retry_id}.log.gz"


def installed_store() -> LogStore:
    """The store of this installation (``OSMO_LOG_STORE``); opens nothing."""
    return _store(settings.ENV.log_store, settings.ENV.log_endpoint)


@cache
def _store(address: str, endpoint: str) -> LogStore:
    parts = urlsplit(address)
    if parts.scheme == "s3":
        from workflows.logs.s3 import S3Store  # noqa: PLC0415 -- boto3 is an extra

        return S3Store(bucket=parts.netloc, prefix=unquote(parts.path), endpoint=endpoint)
    return FileStore(Path(unquote(parts.path)))
