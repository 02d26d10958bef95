"""Messages in the broker that no process of this service wrote: dropped and counted, not a worker's end.

Whoever writes to Redis, by mistake or not, may leave a text there that is no message. Celery takes any error
while it takes a message in for a fault of the worker, which ends; the message is delivered again, to the next
worker, until none is left. Nothing is lost with one that is dropped: rows are the truth, sweeps read them.
"""

from contextlib import suppress
from queue import Empty
from typing import Any

import structlog
from celery import signals
from kombu.transport import TRANSPORT_ALIASES, redis
from prometheus_client import Counter

MESSAGES_DROPPED = Counter(
    "osmo_messages_dropped",
    "Messages in the broker that are none of this service: unreadable (no JSON), unusable (of another "
    "shape), unknown_task.",
    ("reason",),
)

log = structlog.get_logger(__name__)


class _RobustChannel:
    """A channel that survives a text that is no JSON, which has left its list by then, and a lost server."""

    _sender: Any = None

    def _create_client(self, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 -- as Kombu's
        """A client to send commands; one lasts as long as its pool of connections.

        Kombu makes one for each command, which takes longer than to send it.
        """
        if asynchronous:
            return super()._create_client(asynchronous=True)  # type: ignore[misc]  # of the channel beside it
        if self._sender is None or self._sender.connection_pool is not self.pool:  # type: ignore[attr-defined]
            self._sender = super()._create_client()  # type: ignore[misc]
        return self._sender

    def close(self) -> None:
        """Close it wholly, although the read that is under way fails where the server is away.

        Celery closes a channel that was left open once more, without the connection that is needed to restore
        what is not acknowledged, and the worker ends by that. A second close reads nothing; it does nothing
        where the first one came as far as what follows the read.
        """
        try:
            super().close()  # type: ignore[misc]  # of the channel beside it
        except self.connection_errors as error:  # type: ignore[attr-defined]
            log.info("channel_cut", error=repr(error)[:200])
            super().close()  # type: ignore[misc]

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]  # of the channel beside it
        except (ValueError, RecursionError) as error:  # not from handling it: see _DroppingTransport
            _drop("unreadable", error)
            raise Empty from error


class Channel(_RobustChannel, redis.Channel):
    """Of one Redis."""


class SentinelChannel(_RobustChannel, redis.SentinelChannel):
    """Of the primary that Sentinels name."""


class _DroppingTransport:
    """A transport whose deliveries survive a message that Celery cannot take in."""

    def _deliver(self, message: Any, queue: str) -> None:
        try:
            super()._deliver(message, queue)  # type: ignore[misc]  # of the transport beside it
        except Exception as error:  # whatever it is, the next worker would end by it too
            of_connection = isinstance(error, self.connection_errors)  # type: ignore[attr-defined]
            if of_connection and not isinstance(error, KeyError):  # which kombu counts among them
                raise
            _drop("unusable", error)
            self._acknowledge(message)

    def _acknowledge(self, message: Any) -> None:
        """Forget a message that was noted as delivered before it failed."""
        with suppress(KeyError, TypeError):
            tag = message["properties"]["delivery_tag"]
            for channel in self.channels if isinstance(tag, str) else ():  # type: ignore[attr-defined]
                channel.basic_ack(tag)


class Transport(_DroppingTransport, redis.Transport):
    Channel = Channel


class SentinelTransport(_DroppingTransport, redis.SentinelTransport):
    Channel = SentinelChannel


def drop_foreign_messages() -> None:
    """Let connections to the broker that this process opens from now on do so."""
    TRANSPORT_ALIASES.update(
        redis=f"{__name__}:Transport",
        rediss=f"{__name__}:Transport",
        sentinel=f"{__name__}:SentinelTransport",
    )
    for signal in (signals.task_unknown, signals.task_rejected):
        signal.connect(_count_unknown, weak=False)  # type: ignore[no-untyped-call]


def _count_unknown(**_: Any) -> None:
    """Celery itself logs and drops it."""
    MESSAGES_DROPPED.labels("unknown_task").inc()


def _drop(reason: str, error: Exception) -> None:
    MESSAGES_DROPPED.labels(reason).inc()
    log.warning("message_dropped", reason=reason, error=type(error).__name__)
