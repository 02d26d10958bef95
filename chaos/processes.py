"""Faults of processes: the service's own, and the servers that it stands on."""

import signal
import time
from collections.abc import Callable
from functools import partial

import psycopg
import redis
import urllib3

from chaos.site import SERVICE, Site
from chaos.storm import Storm
from localcluster.api import ApiError

READY_SECONDS = 150


def kill(name: str) -> Callable[[Storm], int]:
    """SIGKILL a process of the service and all it has started; it comes back after a while."""

    def fault(storm: Storm) -> int:
        supervisor = storm.site.supervisor
        if supervisor.find(name).ending() is not None:
            return 0
        supervisor.kill(name)
        return 1

    return fault


def kill_worker(storm: Storm) -> int:
    """One of the workers there are."""
    names = [child.command.name for child in storm.site.supervisor.children]
    return kill(storm.generator.choice([name for name in names if name.startswith("worker")]))(storm)


def restart(
    name: str, *, with_signal: signal.Signals, ready: Callable[[Site], None]
) -> Callable[[Storm], int]:
    """Let a server end without warning, and start it again at once."""

    def fault(storm: Storm) -> int:
        storm.site.supervisor.restart(name, with_signal=with_signal)
        ready(storm.site)
        return 1

    return fault


def ended(storm: Storm) -> list[str]:
    """The processes of the service that have ended."""
    children = storm.site.supervisor.children
    service = [child for child in children if child.command.name.split("-")[0] in SERVICE]
    return [child.command.name for child in service if child.ending() is not None]


def revive(storm: Storm, names: list[str]) -> None:
    """Start processes again that have ended."""
    for name in names:
        storm.site.supervisor.restart(name)


def _until(probe: Callable[[], object], errors: tuple[type[Exception], ...]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            probe()
        except errors:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def api_ready(site: Site) -> None:
    _until(partial(site.api.text, "/readyz"), (ApiError, urllib3.exceptions.HTTPError, OSError))


def postgres_ready(site: Site) -> None:
    _until(lambda: psycopg.connect(site.database_url, connect_timeout=2).close(), (psycopg.Error,))


def redis_ready(site: Site) -> None:
    def probe() -> None:
        with redis.Redis.from_url(site.redis_url, socket_timeout=2) as client:
            client.ping()

    _until(probe, (redis.RedisError,))


def flush(storm: Storm) -> int:
    """Throw away everything that Redis holds."""
    with redis.Redis.from_url(storm.site.redis_url, socket_timeout=5) as client:
        client.flushall()
    return 1


FAULTS = {
    "kill worker": (8, kill_worker),
    "kill observer": (4, kill("observer")),
    "kill beat": (2, kill("beat")),
    "kill web": (3, kill("web")),
    # PostgreSQL's "immediate" end is its crash: no checkpoint, and recovery at the next start
    "restart postgres": (1, restart("postgres", with_signal=signal.SIGQUIT, ready=postgres_ready)),
    "restart redis": (2, restart("redis", with_signal=signal.SIGKILL, ready=redis_ready)),
    "restart etcd": (1, restart("etcd", with_signal=signal.SIGKILL, ready=api_ready)),
    "restart kube-apiserver": (1, restart("kube-apiserver", with_signal=signal.SIGKILL, ready=api_ready)),
    "flush redis": (2, flush),
}
