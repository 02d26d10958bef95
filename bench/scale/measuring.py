"""The part ``scale``: prices of what happens, crews of workers and observers, and where load bends.

First the *prices*, each in a window of its own in which nothing else happens: heartbeats of nodes, changes of
other tenants' pods, a list of everything. Then *crews*: the same number of task groups, all at once, with
one, two and four workers and with two observers. Then *load*: groups at a rising rate with one worker, until
something bends. The needs of 1, 5 and 20 clusters are computed from the prices (``day``), and stand apart as
``computed``.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.scale.day import Fleet, cores
from bench.scale.stand import Plan, Stand, difference, started_stand
from bench.site import Progress
from bench.submission import percentiles
from bench.workload import one_group

SCHEDULER = "kai"
PODS = 8
SUBMITTERS = 4
PATIENCE_SECONDS = 600.0
PROCESSES = ("observer", "worker", "postgres", "web", "beat", "redis")
COUNTS = (
    *("statements.worker", "statements.observer", "reconciles.worker", "rows_written", "transactions"),
    *("wal_bytes", "messages", "lock_waits", "deadlocks", "calls", "pod_events"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    plan: Plan
    window: float
    """Seconds for each price."""
    settle: float
    """Seconds that what came before may still take."""
    groups: int
    """Of each crew."""
    crews: Sequence[tuple[int, int]]
    """Workers and observers."""
    heartbeats: float
    """A second in all clusters together; other tenants' pods change as often."""
    offered: Sequence[float]
    """Groups a second."""


FULL = Size(
    plan=Plan(clusters=4, nodes=5_000, foreign_per_node=4, run_seconds=1.0),
    window=12.0,
    settle=2.0,
    groups=48,
    crews=((1, 1), (2, 1), (4, 1), (2, 2)),
    heartbeats=67,
    offered=(0.5, 1, 2, 4),
)
SMALL = Size(
    plan=Plan(clusters=2, nodes=300, foreign_per_node=2, run_seconds=1.0),
    window=2.0,
    settle=0.5,
    groups=6,
    crews=((1, 1), (2, 1)),
    heartbeats=300,
    offered=(2,),
)


def measure(*, small: bool, progress: Progress) -> dict[str, Any]:
    size = SMALL if small else FULL
    with started_stand(size.plan, progress=progress) as stand:
        stand.run(workers=1, observers=1)
        progress(f"scale: {size.plan.clusters} clusters of {size.plan.nodes} nodes are listed")
        first_list = _first_list(stand, size)
        idle = _window(stand, size.window)
        prices = _prices(stand, size, idle, progress)
        memory = {name: mib for name, mib in stand.memory_mib().items() if name != "clusters"}
        crews = {
            f"{workers} workers, {observers} observers": _crew(stand, size, workers, observers, progress)
            for workers, observers in size.crews
        }
        _staff(stand, size, workers=1, observers=1)
        groups = {f"{rate:g}": _offered(stand, size, rate, progress) for rate in size.offered}
    of_groups = next(iter(crews.values()))["cpu_ms_per_group"]
    by_process = {
        process: {name: price["cpu_ms"][process] / 1000 for name, price in prices.items()}
        | {"groups": of_groups[process] / 1000}
        for process in PROCESSES
    }
    return {
        "clusters": size.plan.clusters,
        "nodes": size.plan.nodes,
        "pods_per_group": PODS,
        "first_list": first_list,
        "idle_cores": _cpu(idle, per=idle["seconds"], digits=4),
        "prices": prices,
        "memory_mib": memory,
        "crews": crews,
        "offered_groups": groups,
        "computed": {f"{clusters} clusters": _computed(clusters, by_process) for clusters in (1, 5, 20)},
    }


def _computed(clusters: int, by_process: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Rates and cores of clusters of 5,000 nodes: computed from the prices."""
    fleet = Fleet(clusters=clusters)
    return {
        "per_second": _rounded(fleet.rates(peak=False)),
        "per_second_at_peak": _rounded(fleet.rates(peak=True)),
        "cores": _rounded(cores(fleet, by_process, peak=False)),
        "cores_at_peak": _rounded(cores(fleet, by_process, peak=True)),
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in values.items()}


def _first_list(stand: Stand, size: Size) -> dict[str, Any]:
    """Register the clusters; until every node and every other tenant's pod is in the rows."""
    before = stand.reading()
    for name in size.plan.names:
        stand.add_cluster(name, scheduler=SCHEDULER)
    nodes = size.plan.clusters * size.plan.nodes
    complete = """
        SELECT count(*) FROM pools_cluster
         WHERE completeness -> 'nodes' ? 'synced_at' AND completeness -> 'others' ? 'synced_at'
    """
    stand.wait(
        lambda: (
            stand.number("SELECT count(*) FROM pools_node") == nodes
            and stand.number(complete) == size.plan.clusters
        ),
        seconds=PATIENCE_SECONDS,
        awaited="all nodes to be listed",
    )
    moved = difference(before, stand.reading())
    time.sleep(size.settle)
    return {
        "objects": int(moved["listed"]),
        "seconds": round(moved["seconds"], 1),
        "observer_cpu_seconds": round(moved["cpu.observer"], 2),
        "node_rows": nodes,
    }


def _window(stand: Stand, seconds: float) -> dict[str, float]:
    before = stand.reading()
    time.sleep(seconds)
    stand.supervisor.check()
    return difference(before, stand.reading())


def _prices(stand: Stand, size: Size, idle: Mapping[str, float], progress: Progress) -> dict[str, Any]:
    """Processor time and writes for one of each, beyond what an idle service spends."""
    prices: dict[str, Any] = {}
    for name, feed in (("heartbeats", "nodes"), ("foreign_changes", "foreign")):
        progress(f"scale: {size.heartbeats:g} {name} a second")
        stand.set_rates(**{feed: size.heartbeats / size.plan.clusters})
        prices[name] = _priced(_window(stand, size.window), idle, of=f"{feed}_sent")
        stand.set_rates(**{feed: 0.0})
        time.sleep(size.settle)
    progress("scale: every stream lists again")
    before = stand.reading()
    for name in size.plan.names:
        stand.world(name).control("expire", name)
    _wait_listed(stand, before["listed"], awaited="everything to be listed again")
    time.sleep(size.settle)
    prices["listed"] = _priced(difference(before, stand.reading()), idle, of="listed")
    return prices


def _wait_listed(stand: Stand, before: float, *, awaited: str) -> None:
    """Until all objects of all clusters have been listed since then."""
    goal = before + stand.plan.clusters * stand.plan.nodes * (1 + stand.plan.foreign_per_node)
    stand.wait(lambda: stand.sent()["listed"] >= goal, seconds=PATIENCE_SECONDS, awaited=awaited)


def _priced(moved: Mapping[str, float], idle: Mapping[str, float], *, of: str) -> dict[str, Any]:
    """A window's costs for one of ``of``."""
    count = max(moved[of], 1.0)
    net = _net(moved, idle)
    return {
        "count": int(moved[of]),
        "per_second": round(moved[of] / moved["seconds"], 1),
        "bytes_each": round(moved["feed_bytes"] / count),
        "rows_written": round(net["rows_written"] / count, 3),
        "statements": round((net["statements.observer"] + net["statements.worker"]) / count, 3),
        "cpu_ms": _cpu(net, per=count / 1000, digits=3),
    }


def _net(moved: Mapping[str, float], idle: Mapping[str, float]) -> dict[str, float]:
    """The counts of a window beyond an idle one of the same length; never less than nothing."""
    share = moved["seconds"] / idle["seconds"]
    return {name: max(0.0, value - idle.get(name, 0.0) * share) for name, value in moved.items()}


def _cpu(moved: Mapping[str, float], *, per: float, digits: int) -> dict[str, float]:
    return {name: round(moved.get(f"cpu.{name}", 0.0) / per, digits) for name in PROCESSES}


def _crew(stand: Stand, size: Size, workers: int, observers: int, progress: Progress) -> dict[str, Any]:
    """So many groups, all at once, from the first submission until all are released."""
    _staff(stand, size, workers=workers, observers=observers)
    idle = _window(stand, size.window)
    progress(f"scale: {size.groups} groups at once with {workers} workers and {observers} observers")
    released = _released(stand)
    before, began = stand.reading(), time.time()
    _offer(stand, size.groups, rate=None)
    _wait_released(stand)
    moved = difference(before, stand.reading())
    net = _net(moved, idle)
    return {
        "groups": size.groups,
        "released": int(_released(stand) - released),
        "groups_per_second": round(size.groups / moved["seconds"], 2),
        "per_group": {name: round(net[name] / size.groups, 2) for name in COUNTS},
        "cpu_ms_per_group": _cpu(net, per=size.groups / 1000, digits=1),
        "cores": _cpu(moved, per=moved["seconds"], digits=3),
        "end_to_release": _lags(stand, since=began),
    }


def _staff(stand: Stand, size: Size, *, workers: int, observers: int) -> None:
    """Have so many processes; new observers list everything before anything is measured."""
    before, is_new = stand.sent()["listed"], observers != stand.observers
    stand.run(workers=workers, observers=observers)
    if is_new:
        _wait_listed(stand, before, awaited="new observers to list everything")
    time.sleep(5 * size.settle if is_new else 2 * size.settle)


def _offered(stand: Stand, size: Size, rate: float, progress: Progress) -> dict[str, Any]:
    """Groups at a rate, with one worker: how far it keeps up, and how long an end waits for its release."""
    progress(f"scale: {rate:g} groups a second are offered to one worker")
    count, released = max(2, round(rate * size.window)), _released(stand)
    before, began = stand.reading(), time.time()
    _offer(stand, count, rate=rate)
    behind = _unreleased(stand)
    moved = difference(before, stand.reading())
    _wait_released(stand)
    return {
        "offered": count,
        "released": int(_released(stand) - released),
        "submitted_per_second": round(count / moved["seconds"], 2),
        "unreleased_at_the_end": int(behind),
        "cores": _cpu(moved, per=moved["seconds"], digits=3),
        "end_to_release": _lags(stand, since=began),
    }


def _offer(stand: Stand, count: int, *, rate: float | None) -> None:
    """Submit so many groups, so many a second, or as fast as the submitters can."""
    began = time.monotonic()
    with ThreadPoolExecutor(max_workers=SUBMITTERS) as pool:
        submissions = []
        for number in range(count):
            if rate:
                time.sleep(max(0.0, began + number / rate - time.monotonic()))
            submissions.append(pool.submit(_submit, stand, number))
    for submission in submissions:
        submission.result()


def _submit(stand: Stand, number: int) -> None:
    pool = stand.plan.names[number % stand.plan.clusters]
    stand.rest.submit(pool, one_group(PODS, name="scale", gpu=1))


def _unreleased(stand: Stand) -> float:
    return stand.number("SELECT count(*) FROM workflows_taskgroup WHERE released_at IS NULL")


def _released(stand: Stand) -> float:
    """How many groups have run to their end and left nothing."""
    return stand.number(
        "SELECT count(*) FROM workflows_taskgroup WHERE released_at IS NOT NULL AND status = 'COMPLETED'"
    )


def _wait_released(stand: Stand) -> None:
    stand.wait(lambda: _unreleased(stand) == 0, seconds=PATIENCE_SECONDS, awaited="all groups to be released")


def _lags(stand: Stand, *, since: float) -> dict[str, Any]:
    """From the end of a group's last pod until nothing of the group is left in its cluster."""
    ended: dict[str, float] = {}
    for name in stand.plan.names:
        ended |= {group: at for group, at in stand.world(name).control("ended", name).items() if at >= since}
    query = """
        SELECT replace(uuid::text, '-', ''), extract(epoch FROM released_at) FROM workflows_taskgroup
         WHERE released_at IS NOT NULL AND uuid = ANY(%s::uuid[])
    """
    with psycopg.connect(stand.database_url, autocommit=True) as connection:
        released: dict[str, Any] = dict(connection.execute(query, (list(ended),)).fetchall())
    lags = [float(released[group]) - at for group, at in ended.items() if group in released]
    return {"groups": len(lags), **(percentiles(lags) if len(lags) > 1 else {})}
