"""A client that leads gangs through their lives by itself: the measure for how fast a scheduler lets them go.

All gangs at once: each has its objects created, its admission awaited if its scheduler admits before pods are
made, its pods created, and once all have succeeded everything deleted and awaited. It does nothing else: no
row, no reason, no retry. What it waits for it learns from one watch of each kind.
"""

import asyncio
import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench.bare_client import PATIENCE_SECONDS, Call, creations, deletions, exchange, session_of
from localcluster.api import Access

GONE = "gone"

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The bodies of a gang by the path of their kind, each kind after those that it needs, pods last.

    ``placed`` adds the answer of a scheduler that admits the first of them to the pods.
    """

    bodies: dict[str, Sequence[Body]]
    placed: Callable[[Body, Sequence[Body]], Sequence[Body]] | None = None


def lead(access: Access, gangs: Sequence[Gang], *, watched: Collection[str]) -> float:
    """Seconds from the first request until no gang is left; objects at the ``watched`` paths may linger."""
    return asyncio.run(asyncio.wait_for(_lead(access, gangs, watched), PATIENCE_SECONDS))


async def _lead(access: Access, gangs: Sequence[Gang], watched: Collection[str]) -> float:
    async with session_of(access, connections=0) as watching, session_of(access) as session:
        client = _Client(session)
        watches = [asyncio.create_task(client.watch(watching, path)) for path in watched]
        began = time.perf_counter()
        lives = asyncio.gather(*(client.lead(gang, watched) for gang in gangs))
        ends: list[asyncio.Future[Any]] = [lives, *watches]  # a watch ends by its error alone
        await next(asyncio.as_completed(ends))
        seconds = time.perf_counter() - began
        for watch in watches:
            watch.cancel()
        return seconds


@dataclass(slots=True)
class _Client:
    session: aiohttp.ClientSession
    states: dict[tuple[str, str], asyncio.Future[Body]] = field(default_factory=dict)
    """By name and state, the object once it was seen so: a pod's phase, or a condition of a group."""

    async def watch(self, session: aiohttp.ClientSession, path: str) -> None:
        """Watch until cancelled; on from the last event where the server ends a watch that fell behind."""
        query, endless = {"watch": "true"}, aiohttp.ClientTimeout()
        while True:
            async with session.get(path, params=query, timeout=endless) as reply:
                async for line in reply.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"the watch of {path} has ended: {event}")
                    query["resourceVersion"] = event["object"]["metadata"]["resourceVersion"]
                    self.note(event["object"], is_gone=event["type"] == "DELETED")

    def note(self, body: Body, *, is_gone: bool) -> None:
        status = body.get("status", {})
        states = [c["type"] for c in status.get("conditions", ()) if c["status"] == "True"]
        for state in (GONE,) if is_gone else (status.get("phase", ""), *states):
            reached = self.state(body, state)
            if not reached.done():
                reached.set_result(body)

    async def lead(self, gang: Gang, watched: Collection[str]) -> None:
        *groups, (path, pods) = gang.bodies.items()
        for kind in groups:
            await self.send(creations(*kind))
        if gang.placed:
            pods = gang.placed(await self.state(groups[0][1][0], "Admitted"), pods)
        await self.send(creations(path, pods))
        await asyncio.gather(*(self.state(pod, "Succeeded") for pod in pods))
        for path, bodies in reversed(gang.bodies.items()):
            await self.send(deletions(path, bodies))
            if path in watched:
                await asyncio.gather(*(self.state(body, GONE) for body in bodies))

    async def send(self, calls: Iterable[Call]) -> None:
        await asyncio.gather(*(exchange(self.session, call) for call in calls))

    def state(self, body: Body, state: str) -> asyncio.Future[Body]:
        key = (str(body["metadata"]["name"]), state)
        return self.states.setdefault(key, asyncio.get_running_loop().create_future())
