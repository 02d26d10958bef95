"""Lines of sessions that have no end yet, and the web process that is to write it, in Redis.

A process that is killed writes no end. Whoever sweeps completes the lines of processes that say no more that
they live. Were Redis emptied, the next ends would be written all the same, and only a kill at that moment
would leave a line open.
"""

from collections.abc import Iterable
from functools import cache
from typing import Final, cast
from uuid import uuid4

from django.db.models import Value
from django.db.models.functions import Concat

from web.limits.redis_server import shared_redis
from workflows.models import Event
from workflows.sessions.losses import Losses
from workflows.sessions.open_session import OpenSession

ALIVE_SECONDS: Final = 60
"""How long a web process counts as alive after it last said so: for many of its checks."""

OPEN_END: Final = " the task."
"""How a line ends that has no end yet."""

_LINES, _PROCESS = "osmo-topology:session-lines", "osmo-topology:session-process:"
_UNKNOWN_END = " Its web process was killed, so how it ended is not known."


@cache
def _process() -> str:
    return uuid4().hex


def note(dedupe: str, *, workflow: str) -> None:
    """Remember a line that this process is to complete. Raises Unavailable."""
    with shared_redis() as redis, redis.pipeline() as pipe:
        pipe.set(_PROCESS + _process(), 1, ex=ALIVE_SECONDS)
        pipe.hset(_LINES, dedupe, f"{_process()} {workflow}")
        pipe.execute()


def forget(dedupe: str) -> None:
    """Forget a line that has its end. Raises Unavailable."""
    with shared_redis() as redis:
        redis.hdel(_LINES, dedupe)


def say_alive(sessions: Iterable[OpenSession]) -> Losses:  # noqa: ARG001 -- one of the checks
    """Say that this process lives; ends no session. Raises Unavailable."""
    with shared_redis() as redis:
        redis.set(_PROCESS + _process(), 1, ex=ALIVE_SECONDS)
    return {}


def complete_orphans() -> int:
    """Complete the lines of processes that are gone; returns how many. Raises Unavailable."""
    with shared_redis() as redis:
        written = cast("dict[bytes, bytes]", redis.hgetall(_LINES))
        lines = {key.decode(): value.decode().split() for key, value in written.items()}
        processes = sorted({process for process, _ in lines.values()})
        answers = redis.mget([_PROCESS + process for process in processes]) if processes else []
    gone = {process for process, answer in zip(processes, answers, strict=True) if answer is None}
    orphans = {dedupe: workflow for dedupe, (process, workflow) in lines.items() if process in gone}
    completed = 0
    for dedupe, workflow in orphans.items():
        rows = Event.objects.filter(workflow_id=workflow, dedupe=dedupe, message__endswith=OPEN_END)
        completed += rows.update(message=Concat("message", Value(_UNKNOWN_END)))
        forget(dedupe)
    return completed
