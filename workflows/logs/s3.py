"""Kept logs as objects of a bucket, through boto3 (extra ``s3``): Amazon's, or any that speaks its protocol.

Credentials and region come the way boto3 finds them everywhere else (environment, files, the account of the
pod), so nothing secret passes through our settings. A put replaces an object whole, which is all we need of
consistency. Checksums beyond the signature are sent only where a server asks for them: stores that are not
Amazon's refuse them.
"""

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from workflows.logs.errors import StoreFailed

CONNECTIONS = 32
_SETTINGS = Config(
    connect_timeout=3,
    read_timeout=10,
    retries={"total_max_attempts": 2, "mode": "standard"},
    max_pool_connections=CONNECTIONS,
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)


class S3Store:
    """``endpoint`` is empty for Amazon's own. Threads share one client."""

    def __init__(self, *, bucket: str, prefix: str, endpoint: str) -> None:
        self._bucket, self._prefix = bucket, prefix.strip("/")
        self._client: Any = boto3.client("s3", endpoint_url=endpoint or None, config=_SETTINGS)

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def put(self, name: str, content: bytes) -> None:
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=self._key(name), Body=content, ContentType="application/gzip"
            )
        except (BotoCoreError, ClientError) as error:
            raise StoreFailed(f"cannot write {name}: {_reason(error)}") from error

    def get(self, name: str) -> bytes | None:
        try:
            content: bytes = self._client.get_object(Bucket=self._bucket, Key=self._key(name))["Body"].read()
        except self._client.exceptions.NoSuchKey:
            return None
        except (BotoCoreError, ClientError) as error:
            raise StoreFailed(f"cannot read {name}: {_reason(error)}") from error
        return content

    def remove(self, name: str) -> None:
        try:
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))
        except (BotoCoreError, ClientError) as error:
            raise StoreFailed(f"cannot remove {name}: {_reason(error)}") from error


def _reason(error: BotoCoreError | ClientError) -> str:
    """The store's code, or the kind of trouble: whole messages may repeat keys and addresses."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "refused"))
    return type(error).__name__
