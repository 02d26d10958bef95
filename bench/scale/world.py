"""The clusters in memory, as a process of their own: ``python -m bench.scale.world PATH PLAN``.

What the service makes lives in a ``FakeCluster``, which keeps the promises of ``cluster.interface``. The
thousands of nodes and other tenants' pods do not: they are made of a template when they are listed or change,
at a rate that the bench sets while the service runs.
"""

import json
import socketserver
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.scale import objects, wire
from bench.scale.kubelet import Kubelet
from cluster.errors import ClusterError
from cluster.interface import Listing
from cluster.kinds import CRD, NODE, POD
from localcluster.crds import kai, nvidia
from tests.fakes.cluster import FakeCluster
from tests.fakes.kinds import KAI_POD_GROUP

PAGE = 500
TICK_SECONDS = 0.05
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n'
UIDS = 10**9
"""By how much the uids of two clusters' objects lie apart."""


@dataclass(slots=True)
class Feed:
    """Objects of one kind that are made when they are read; each change is of the next one in turn."""

    make: Callable[[int, int], bytes]
    count: int
    rate: float = 0.0
    sent: int = 0
    listed: int = 0
    chars: int = 0
    version: int = 10
    expired: int = 0

    def pages(self) -> Iterator[bytes]:
        """A list, ``PAGE`` objects at a time."""
        for first in range(0, self.count, PAGE):
            last = min(first + PAGE, self.count)
            items = b",".join(self.make(number, self.version) for number in range(first, last))
            more = b"more" if last < self.count else b""
            self.listed += last - first
            self.chars += len(items)
            head = b'{"metadata":{"resourceVersion":"%d","continue":"%s"},"items":[' % (self.version, more)
            yield head + items + b"]}"

    def events(self, seconds: float) -> Iterator[bytes]:
        """Lines of a watch at the rate that is set; empty ones while nothing is due."""
        until, due, expired = time.monotonic() + seconds, 0.0, self.expired
        at = time.monotonic()
        while at < until:
            time.sleep(TICK_SECONDS)
            if self.expired != expired:
                yield EXPIRED
                return
            now = time.monotonic()
            due, at = due + self.rate * (now - at), now
            lines = []
            for _ in range(int(due)):
                self.version += 1
                line = self.make(self.sent % self.count, self.version)
                lines.append(b'{"type":"MODIFIED","object":' + line + b"}\n")
                self.sent += 1
            due -= int(due)
            self.chars += sum(map(len, lines))
            yield b"".join(lines)


@dataclass(slots=True)
class SimulatedCluster:
    """One cluster: what the service makes, nodes, and other tenants' pods."""

    memory: Any
    kubelet: Kubelet
    nodes: Feed
    foreign: Feed
    groups: Feed
    waiting: Feed

    def feed(self, kind: Any, options: dict[str, Any]) -> Feed | None:
        """The feed of what is asked for, if it has simulation."""
        feed = self.nodes if kind == NODE else None
        if "!=" in options.get("label_selector", ""):
            waits = "spec.nodeName=," in options.get("field_selector", "")
            feed = {POD: self.waiting if waits else self.foreign, KAI_POD_GROUP: self.groups}.get(kind)
        return feed if feed and feed.count else None


def simulated(number: int, plan: dict[str, Any]) -> SimulatedCluster:
    memory = FakeCluster(first_uid=number * UIDS + 1)
    for definition in (*kai.definitions("0.13"), *nvidia.definitions()):
        memory.put(CRD, definition)
    nodes = int(plan["nodes"])
    kubelet = Kubelet(memory, nodes=nodes, run_seconds=float(plan["run_seconds"]))
    kubelet.start()
    return SimulatedCluster(
        memory=memory,
        kubelet=kubelet,
        nodes=Feed(lambda n, version: objects.node(n, version=version), nodes),
        foreign=Feed(
            lambda n, version: objects.foreign_pod(n, on=n % nodes, version=version),
            nodes * int(plan["foreign_per_node"]),
        ),
        groups=Feed(
            lambda n, version: objects.foreign_group(n, version=version), int(plan["foreign_groups"])
        ),
        waiting=Feed(
            lambda n, version: objects.waiting_pod(n, version=version),
            int(plan["waiting_gangs"]) * objects.GANG,
        ),
    )


@dataclass(slots=True)
class World:
    clusters: dict[str, SimulatedCluster]

    def set_rates(self, cluster: str, rates: dict[str, float]) -> None:
        for name, rate in rates.items():
            getattr(self.clusters[cluster], name).rate = rate

    def expire(self, cluster: str) -> None:
        """Let every watch of nodes and of others' pods meet a version that is too old: they list again."""
        self.clusters[cluster].nodes.expired += 1
        self.clusters[cluster].foreign.expired += 1

    def ended(self, cluster: str) -> dict[str, float]:
        return dict(self.clusters[cluster].kubelet.ended)

    def counts(self, cluster: str) -> dict[str, int]:
        """What the cluster has sent so far, and which calls it has had."""
        simulation = self.clusters[cluster]
        nodes, foreign = simulation.nodes, simulation.foreign
        return {
            "nodes_sent": nodes.sent,
            "foreign_sent": foreign.sent,
            "groups_sent": simulation.groups.sent,
            "listed": nodes.listed + foreign.listed,
            "groups_listed": simulation.groups.listed,
            "feed_bytes": nodes.chars + foreign.chars + simulation.groups.chars,
            "pod_events": simulation.kubelet.pod_events,
            "calls": len(simulation.memory.calls),
        }


class Handler(socketserver.BaseRequestHandler):
    """One request of one connection."""

    def handle(self) -> None:
        world: World = self.server.world  # type: ignore[attr-defined]
        try:
            _, body = wire.receive(self.request)
            name, method, arguments, options = wire.unpacked(body)
            if method.startswith("_"):
                answer = getattr(world, method[1:])(*arguments)
                wire.send(self.request, wire.VALUE, wire.packed(answer))
            else:
                self._answer(world.clusters[name], method, arguments, options)
        except ClusterError as error:
            wire.send(self.request, wire.ERROR, wire.packed_error(error))
        except OSError:
            return  # whoever asked has gone

    def _answer(self, cluster: SimulatedCluster, method: str, arguments: Any, options: Any) -> None:
        feed = cluster.feed(arguments[0], options) if method in ("scan", "watch") else None
        if method == "scan":
            pages = feed.pages() if feed else _pages(cluster.memory.list(*arguments, **options))
            for page in pages:
                wire.send(self.request, wire.JSON, page)
        elif method == "watch" and feed:
            self._acknowledge()
            for lines in feed.events(options["timeout_seconds"]):
                self.request.sendall(lines)
        elif method in ("watch", "logs"):
            with getattr(cluster.memory, method)(*arguments, **options) as stream:
                self._acknowledge()
                for part in stream:
                    is_event = method == "watch"
                    self.request.sendall(json.dumps(part).encode() + b"\n" if is_event else part)
        else:
            value = getattr(cluster.memory, method)(*arguments, **options)
            if isinstance(value, dict) and method != "read_crd_schema":
                wire.send(self.request, wire.JSON, json.dumps(value).encode())
            else:
                wire.send(self.request, wire.VALUE, wire.packed(value))

    def _acknowledge(self) -> None:
        wire.send(self.request, wire.VALUE, wire.packed(None))


def _pages(listing: Listing[Any]) -> Iterator[bytes]:
    """The pages of what lives in memory; there is always one."""
    for first in range(0, max(1, len(listing.items)), PAGE):
        more = "more" if first + PAGE < len(listing.items) else ""
        metadata = {"resourceVersion": listing.resource_version, "continue": more}
        yield json.dumps({"metadata": metadata, "items": listing.items[first : first + PAGE]}).encode()


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, path: str, world: World) -> None:
        self.world = world
        super().__init__(path, Handler)


def worlds(plan: dict[str, Any]) -> World:
    """``plan``: names of clusters, nodes and other tenants' pods of each, and how long our pods run."""
    return World({name: simulated(n, plan) for n, name in enumerate(plan["clusters"])})


def main() -> None:
    path, plan = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    with Server(path, worlds(plan)) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
