"""Web processes of the bench's own beside those of its site, on the same databases.

So that a figure belongs to a known number of processes, and to a known kind of worker.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import urllib3

from bench.site import Site
from bench.usage import Memory, most_memory
from localcluster import service
from localcluster.ports import free_ports
from localcluster.rest import Refused, Rest

READY_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Web:
    """One started gunicorn."""

    site: Site
    name: str
    api_url: str
    rest: Rest

    def memory(self) -> Memory:
        """Of its largest process."""
        return most_memory(self.site.supervisor, self.name)


@contextmanager
def started_web(
    site: Site,
    name: str,
    *arguments: str,
    application: str = "osmo_topology.asgi",
    more: Mapping[str, str] | None = None,
) -> Iterator[Web]:
    """Start gunicorn as the site does; ``arguments`` come after the site's own, ``more`` are settings."""
    settings = site.running.settings
    settings = replace(settings, port=free_ports(1)[0], more={**settings.more, **(more or {})})
    command = service.commands(settings)["web"]
    command = replace(command, name=name, argv=[*_with(command.argv, application), *arguments])
    web = Web(site, name, settings.api_url, Rest(api_url=settings.api_url, token=site.running.token))
    child = site.supervisor.start(command)
    try:
        site.supervisor.wait_ready(child, lambda: _missing(web.rest), seconds=READY_SECONDS)
        yield web
    finally:
        site.supervisor.stop_one(name)


def _with(argv: Sequence[str], application: str) -> list[str]:
    return [application if argument == "osmo_topology.asgi" else argument for argument in argv]


def _missing(rest: Rest) -> str | None:
    try:
        rest.get("/api/pool")
    except (OSError, Refused, urllib3.exceptions.HTTPError) as error:
        return repr(error)
    return None
