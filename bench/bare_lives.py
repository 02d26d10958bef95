"""A client that leads gangs through their lives by itself: the measure for how fast a scheduler lets them go.

All gangs at once: each has its objects created, its admission awaited if its scheduler admits before pods are
made, its pods created, and once all have succeeded everything deleted and awaited. It does nothing else: no
row, no reason, no retry. What it waits for it learns from one watch of each kind.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench.bare_client import PATIENCE_SECONDS, Call, creations, deletions, exchange, session_of
from localcluster.api import Access

GONE = "gone"

Body = dict[str, Any]
States = Callable[[Body], Iterable[str]]
"""What is awaited of an object and true of it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The bodies of a gang by the path of their kind, each kind after those that it needs, pods last.

    ``placed`` adds the answer of a scheduler that admits the group to the pods.
    """

    bodies: Mapping[str, Sequence[Body]]
    placed: Callable[[Body, Sequence[Body]], Sequence[Body]] | None = None


def lead(access: Access, gangs: Sequence[Gang], states: Mapping[str, States]) -> float:
    """Seconds from the first request until no gang is left; ``states`` has the kinds to watch."""
    return asyncio.run(asyncio.wait_for(_lead(access, gangs, states), PATIENCE_SECONDS))


async def _lead(access: Access, gangs: Sequence[Gang], states: Mapping[str, States]) -> float:
    async with session_of(access, connections=0) as watching, session_of(access) as session:
        client = _Client(session)
        watches = [asyncio.create_task(client.watch(watching, *kind)) for kind in states.items()]
        began = time.perf_counter()
        lives = asyncio.gather(*(client.lead(gang, set(states)) for gang in gangs))
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
    """By name and state, the object once it was seen so."""

    async def watch(self, session: aiohttp.ClientSession, path: str, states: States) -> None:
        async with session.get(path, params={"watch": "true"}, timeout=aiohttp.ClientTimeout()) as reply:
            async for line in reply.content:
                event = json.loads(line)
                body = event["object"]
                for state in (GONE,) if event["type"] == "DELETED" else states(body):
                    seen = self.state(body["metadata"]["name"], state)
                    if not seen.done():
                        seen.set_result(body)
        raise RuntimeError(f"the watch of {path} has ended")

    async def lead(self, gang: Gang, watched: set[str]) -> None:
        *groups, (path, pods) = gang.bodies.items()
        for kind in groups:
            await self.send(creations(*kind))
        if gang.placed:
            (workload,) = groups[0][1]
            pods = gang.placed(await self.state(workload["metadata"]["name"], "Admitted"), pods)
        await self.send(creations(path, pods))
        await self.all_are("Succeeded", pods)
        for kind in reversed([*groups, (path, pods)]):
            await self.send(deletions(*kind))
            if kind[0] in watched:
                await self.all_are(GONE, kind[1])

    async def send(self, calls: Iterable[Call]) -> None:
        await asyncio.gather(*(exchange(self.session, call) for call in calls))

    async def all_are(self, state: str, bodies: Sequence[Body]) -> None:
        await asyncio.gather(*(self.state(body["metadata"]["name"], state) for body in bodies))

    def state(self, name: str, state: str) -> asyncio.Future[Body]:
        return self.states.setdefault((name, state), asyncio.get_running_loop().create_future())
