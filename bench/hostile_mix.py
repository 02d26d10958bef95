"""Fifty ordinary users, alone and beside everything that a hostile one may do at once.

Each user has a name and submits a workflow, lists, reads it and cancels it, again and again at a fixed rate
that does not wait for answers. Beside them: clients that hold connections with half a request, callers
whose templates compute for as long as they may, callers of what-if, a pod a second whose status is poison,
and an observer killed a second while another one stands by.

The whole crowd is this one process: coroutines in one thread, half-sent requests in two, and the main
thread, which kills observers and starts them again. It shares the cores with what it measures, so it notes
what it takes itself.
"""

import asyncio
import json
import resource
import ssl
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp

from bench.site import Progress, Site, namespace_of, started_site
from bench.slow_clients import SlowClients
from bench.submission import percentiles
from bench.usage import cpu_seconds, spent
from bench.workload import many_groups, one_group

POOL = BACKEND = "mix"
USERS, PERIOD = 50, 20.0
STEPS = ("submit", "list", "read", "cancel")
BURNERS, WHAT_IFS, HALF_SENT = 16, 4, 1000
PHASE_SECONDS, SMALL_PHASE_SECONDS = 40.0, 15.0
PATIENCE = 30.0
PAUSE_AFTER_REFUSAL = 0.1
SETTLE_SECONDS = 60.0
SECOND = 1.0
NODES = 16
WAITING_GROUPS = 50
OBSERVERS = ("observer", "observer-2")
POISON = "\0\ud800" + "x" * 70_000
BURNING = "workflow: {name: x{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}}"
CONDITION = {"drain_nodes": [f"{POOL}-0"]}
LIVING = "SELECT count(*) FROM workflows_taskgroup WHERE released_at IS NULL AND end_time IS NOT NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How many of what stand beside the users."""

    half_sent: int = 0
    burners: int = 0
    what_ifs: int = 0
    poison: bool = False
    observers_die: bool = False


ALL = Mix(half_sent=HALF_SENT, burners=BURNERS, what_ifs=WHAT_IFS, poison=True, observers_die=True)
PHASES = {
    "alone": Mix(),
    "mix": ALL,
    "mix_without_deaths": replace(ALL, observers_die=False),
    "alone_again": Mix(),
}


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    seconds = SMALL_PHASE_SECONDS if small else PHASE_SECONDS
    limits = {"OSMO_SUBMITS_PER_MINUTE": "600"}  # as in production
    with started_site(progress=progress, standins=False, more=limits) as site:
        _prepare(site)
        crowd = Crowd(site)
        crowd.phase(Mix(), 5.0)  # every process has loaded what it needs
        report = {}
        for title, mix in PHASES.items():
            report[title] = crowd.phase(mix, seconds)
            progress(f"hostile_mix: {title}: {report[title]['all']}, failed {report[title]['failed']}")
        servers = site.servers()
    for line in table(report):
        progress(line)
    shape = {"users": USERS, "seconds": seconds, "requests_per_second": USERS * len(STEPS) / PERIOD}
    return {"servers": servers, **shape, "phases": report}


def _prepare(site: Site) -> None:
    """A pool with waiting groups, a running workflow whose labels poison has, and a second observer."""
    site.add_nodes(POOL, count=NODES, gpus=8)
    site.add_backend(BACKEND, "default")
    site.add_pool(POOL, backend=BACKEND, topology=False)
    first = site.supervisor.find(OBSERVERS[0]).command
    second = replace(first, name=OBSERVERS[1], env={**first.env, "OSMO_METRICS_PORT": "0"})
    site.supervisor.start(second)
    victim = site.submit(POOL, one_group(1, name="victim"))
    site.wait(lambda: site.rest.workflow(victim)["status"] == "RUNNING", seconds=60, awaited="a running pod")
    site.submit(POOL, many_groups(WAITING_GROUPS, name="waiting", gpu=9))


def table(report: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Markdown: p50 / p95 in milliseconds of each step, and what came out otherwise."""
    yield "| | " + " | ".join([*STEPS, "all", "not answered as wanted"]) + " |"
    yield "|---|" + "---|" * (len(STEPS) + 2)
    for title, phase in report.items():
        cells = [f"{phase[step]['p50_ms']:.0f} / {phase[step]['p95_ms']:.0f}" for step in (*STEPS, "all")]
        yield f"| {title} | {' | '.join(cells)} | {sum(phase['failed'].values())} of {phase['requests']} |"


@dataclass(slots=True)
class Tally:
    """What happened in a phase."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: Counter[str] = field(default_factory=Counter)
    hostile: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Crowd:
    """Everybody who calls; ``phase`` lets them for a while."""

    site: Site
    tally: Tally = field(default_factory=Tally)
    poisoned: int = 0
    _session: aiohttp.ClientSession | None = None

    def phase(self, mix: Mix, seconds: float) -> dict[str, Any]:
        self.tally = Tally()
        before, began = cpu_seconds(self.site.supervisor), time.monotonic()
        own, children = time.process_time(), _children_seconds()
        with ExitStack() as stack:
            slow = [stack.enter_context(clients) for clients in self._half_sent(mix.half_sent)]
            callers = threading.Thread(target=asyncio.run, args=[self._call(mix, seconds)])
            callers.start()
            while mix.observers_die and time.monotonic() - began < seconds:
                self._replace_observer()
            callers.join()
            connections = sum(clients.open_connections() for clients in slow)
        used = spent(before, cpu_seconds(self.site.supervisor))
        elapsed = time.monotonic() - began
        return {
            **self._report(),
            "half_sent_open": connections,
            "generator_cpu_seconds": round(time.process_time() - own, 1),
            "generator_core_share": round((time.process_time() - own) / elapsed, 2),
            "ended_children_cpu_seconds": round(_children_seconds() - children, 1),
            "cpu_seconds": used,
            "elapsed_seconds": round(elapsed, 1),
            "released_after_seconds": self._released_after(),
        }

    def _report(self) -> dict[str, Any]:
        everything = [value for values in self.tally.seconds.values() for value in values]
        return {
            **{step: percentiles(self.tally.seconds[step] or [0.0, 0.0]) for step in STEPS},
            "all": percentiles(everything or [0.0, 0.0]),
            "requests": len(everything) + sum(self.tally.failed.values()),
            "failed": dict(self.tally.failed),
            "hostile": dict(sorted(self.tally.hostile.items())),
        }

    def _half_sent(self, count: int) -> Iterator[SlowClients]:
        """Half of them drip a header, half a body."""
        head = "Host: 127.0.0.1\r\n"
        user = "x-osmo-user: half-0\r\n"
        header = f"GET /api/pool HTTP/1.1\r\n{head}X-Slow: "
        body = f"POST /api/pool/{POOL}/workflow HTTP/1.1\r\n{head}{user}Content-Length: 100000\r\n\r\n "
        if count:
            yield SlowClients(self.site.running.api_url, header.encode(), count=count // 2, drip=b"x")
            yield SlowClients(self.site.running.api_url, body.encode(), count=count // 2, drip=b" ")

    def _replace_observer(self) -> None:
        """Kill an observer and start it again, by turns, one a second."""
        name = OBSERVERS[self.tally.hostile["observers killed"] % len(OBSERVERS)]
        ends = time.monotonic() + SECOND
        self.site.supervisor.kill(name)
        self.site.supervisor.restart(name)
        self.tally.hostile["observers killed"] += 1
        time.sleep(max(0.0, ends - time.monotonic()))

    def _released_after(self) -> float | None:
        """How long the last cancelled workflow took to leave nothing in the cluster."""
        began = time.monotonic()
        with suppress(TimeoutError):
            self.site.wait(
                lambda: self.site.count(LIVING) == 0, seconds=SETTLE_SECONDS, awaited="cancelled groups to go"
            )
            return round(time.monotonic() - began, 1)
        return None

    async def _call(self, mix: Mix, seconds: float) -> None:
        """All callers until time is up; users finish what they began."""
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        async with aiohttp.ClientSession(
            self.site.running.api_url, connector=connector, timeout=timeout
        ) as self._session:
            hostile = [asyncio.create_task(caller) for caller in self._hostile(mix)]
            ends = asyncio.get_running_loop().time() + seconds
            try:
                await asyncio.gather(*(self._user(number, ends) for number in range(USERS)))
            finally:
                for task in hostile:
                    task.cancel()
                await asyncio.gather(*hostile, return_exceptions=True)

    def _hostile(self, mix: Mix) -> Iterator[Any]:
        for number in range(mix.burners):
            body = {"file": BURNING}
            yield self._insist("template", f"burner-{number}", f"/api/pool/{POOL}/workflow", body)
        for number in range(mix.what_ifs):
            yield self._insist("what-if", f"asker-{number}", f"/api/pool/{POOL}/what-if", CONDITION)
        if mix.poison:
            yield self._poison()

    async def _user(self, number: int, ends: float) -> None:
        """One user, whose rounds begin at a fixed rate."""
        loop = asyncio.get_running_loop()
        start = loop.time() + PERIOD * number / USERS
        rounds = []
        while start < ends:
            await asyncio.sleep(max(0.0, start - loop.time()))
            rounds.append(asyncio.create_task(self._round(f"user-{number}", start, ends)))
            start += PERIOD
        await asyncio.gather(*rounds)

    async def _round(self, user: str, start: float, ends: float) -> None:
        name = ""
        for place, step in enumerate(STEPS):
            at = start + place * PERIOD / len(STEPS)
            if place and at > ends and step != "cancel":
                continue
            await asyncio.sleep(max(0.0, min(at, ends) - asyncio.get_running_loop().time()))
            if name or step in {"submit", "list"}:
                answer = await self._step(step, user, name)
                name = str(answer.get("name", "")) if step == "submit" else name

    async def _step(self, step: str, user: str, name: str) -> dict[str, Any]:
        text = one_group(1, name=user)
        verb, path, body = {
            "submit": ("POST", f"/api/pool/{POOL}/workflow", {"file": text}),
            "list": ("GET", "/api/workflow?limit=20", None),
            "read": ("GET", f"/api/workflow/{name}", None),
            "cancel": ("POST", f"/api/workflow/{name}/cancel?force=true", {}),
        }[step]
        began = time.perf_counter()
        status, answer = await self._request(verb, path, user, body)
        if status == 200:
            self.tally.seconds[step].append(time.perf_counter() - began)
        else:
            self.tally.failed[f"{step} {status or 'no answer'}"] += 1
        return answer

    async def _insist(self, title: str, user: str, path: str, body: Any) -> None:
        """Send the same again as soon as it is answered."""
        while True:
            status, _ = await self._request("POST", path, user, body)
            self.tally.hostile[f"{title} {status or 'no answer'}"] += 1
            if status in {0, 429, 503}:
                await asyncio.sleep(PAUSE_AFTER_REFUSAL)

    async def _request(self, verb: str, path: str, user: str, body: Any) -> tuple[int, dict[str, Any]]:
        assert self._session is not None
        headers = {"x-osmo-user": user}
        try:
            async with self._session.request(verb, path, json=body, headers=headers) as answer:
                content = await answer.json(content_type=None)
                return answer.status, content if isinstance(content, dict) else {}
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return 0, {}

    async def _poison(self) -> None:
        """A pod a second with the labels of a running one, whose status no database takes as it is."""
        access = self.site.api.access
        namespace = f"/api/v1/namespaces/{namespace_of(BACKEND)}/pods"
        labels = self.site.pods(BACKEND)[0]["metadata"]["labels"]
        tls = ssl.create_default_context(cafile=str(access.ca_file))
        headers = {"Authorization": f"Bearer {access.token}"}
        async with aiohttp.ClientSession(access.server, headers=headers) as session:
            while True:
                begins = time.monotonic()
                name = f"poison-{self.poisoned}"
                self.poisoned += 1
                body = {"metadata": {"name": name, "labels": labels}, "spec": _SPEC}
                terminated = {"exitCode": 1, "message": POISON}
                status = {"phase": "Failed", "message": POISON, "containerStatuses": [_ended(terminated)]}
                async with session.post(namespace, json=body, ssl=tls) as created:
                    self.tally.hostile[f"poison pod {created.status}"] += 1
                patch = {"Content-Type": "application/merge-patch+json"}
                content = json.dumps({"status": status})
                path = f"{namespace}/{name}/status"
                async with session.patch(path, data=content, headers=patch, ssl=tls) as patched:
                    self.tally.hostile[f"poison status {patched.status}"] += 1
                await asyncio.sleep(max(0.0, SECOND - (time.monotonic() - begins)))


_SPEC = {
    "schedulerName": "nobody",
    "restartPolicy": "Never",
    "containers": [{"name": "task", "image": "busybox"}],
}


def _ended(terminated: dict[str, Any]) -> dict[str, Any]:
    status = {"name": "task", "image": "busybox", "imageID": "", "ready": False, "restartCount": 0}
    return {**status, "state": {"terminated": terminated}}


def _children_seconds() -> float:
    """CPU time of children that have ended: the observers that were killed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
