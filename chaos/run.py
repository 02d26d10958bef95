"""One run: start, storm, heal, wait, check. See docs/reference/chaos.md for what is promised of it."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field

import psycopg

from chaos import attempts, cluster_faults, edits, hostile, ledger, orders, processes
from chaos.forking_worker import END_LEASES
from chaos.messages import Meddler
from chaos.monitor import Monitor
from chaos.points import POINTS, Points
from chaos.restore import Restore
from chaos.returning import Hitter
from chaos.site import Progress, Site
from chaos.storm import Sequence, Storm
from chaos.workload import Submitter, endless, submissions, wide
from localcluster.controlplane import restart_kwok
from localcluster.lease_watch import LeaseWatch

FAULTS = {**processes.FAULTS, **cluster_faults.FAULTS, **edits.FAULTS, **hostile.FAULTS}
WEIGHTS = {name: weight for name, (weight, _) in FAULTS.items()}
TICK = 0.1
HEAL_SECONDS = 150
REST_SECONDS = 240
RESTORED_REST_SECONDS = 420  # objects unknown to the backup go in three sweeps, the first after two minutes
REST_SECONDS_EACH = (
    1.0  # for each workflow, and each group of a wide one: rest comes when all of them have run
)
BACKUP_AT = 0.5  # of the storm
PROPOSE_SECONDS = 1.0  # about how often gangs that wait are proposed an order
HIT_SECONDS = 1.0  # about how often gangs that come back are looked for
AGAIN_SECONDS = 8.0  # about how often a crash point is armed once all were hit
AFTER_A_LOSS = "before-minimum-set"  # a point that only the loss of a task leads to
MORE_SECONDS = 600  # longest that the storm goes on for what has not happened yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``seconds`` is how long the storm lasts; ``short`` lets the leases of a dead worker end at once.

    ``gangs`` are to run with all of their pods, for which the storm goes on within its limit. ``wide`` is
    how many groups each of two workflows has beside ``groups``.
    """

    seed: int
    groups: int
    wide: int
    gangs: int
    seconds: float
    short: bool
    skew: float


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The results of a run; ``rest`` is None if the service did not come to rest."""

    options: Options
    submitted: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    storm_seconds: float = 0.0
    rest: float | None = None
    release: tuple[float, float] | None = None
    findings: ledger.Findings = field(default_factory=ledger.Findings)

    @property
    def good(self) -> bool:
        return self.rest is not None and not self.missed and not any(self.findings.counts().values())


def run(site: Site, options: Options, *, progress: Progress) -> Outcome:
    """Do all of it on a site that has just been started."""
    seed = str(options.seed)
    generators = {
        name: random.Random(f"{seed} {name}") for name in ("work", "faults", "points", "order", "hits")
    }
    work = [*wide(groups=options.wide), *submissions(generators["work"], groups=options.groups)]
    outcome = Outcome(options=options)
    _add_processes(site, options)
    submissions_log = site.directory / "logs" / "submissions.jsonl"
    submitter = Submitter(
        site,
        work,
        more=endless(generators["work"], prefix="more"),
        log=submissions_log,
        seconds=options.seconds,
    )
    storm = Storm(site, generators["faults"], progress, submit=submitter.one_more)
    points = Points(site.points, generators["points"], at_once=len(POINTS) if options.short else 2)
    hitter = Hitter(storm, generators["hits"], least_gangs=options.gangs)
    monitor = Monitor(site.plane, spared=storm.deleted)
    meddler = Meddler(site.redis_url, seed=seed)
    restore = Restore(site, progress)
    if not options.short:
        storm.later(options.seconds * BACKUP_AT, restore.take)
    progress(f"the storm begins: {len(work)} workflows with {options.groups} task groups")
    began = time.monotonic()
    site.proxy.weather.strength = 1.0
    monitor.start()
    submitter.start()
    meddler.start()
    try:
        _rage(storm, points, hitter, options, order=generators["order"])
    finally:
        submitter.stop()
        meddler.stop()
        site.proxy.weather.strength = 0.0
    outcome.storm_seconds = time.monotonic() - began
    _heal(storm, points, options)
    if not options.short:
        restore.put_back(submitter.one_more, configure=lambda: _configure(storm))
    submitter.settle()
    progress("healed; waiting for the service to come to rest")
    outcome.rest = ledger.wait_for_rest(
        site,
        seconds=(REST_SECONDS if options.short else RESTORED_REST_SECONDS)
        + REST_SECONDS_EACH * (len(submitter.everything()) + options.wide),
        progress=progress,
        wake_driver=lambda: submitter.one_more("nvlink", cluster_faults.FOLLOW_UP.format(others="")),
    )
    work = submitter.everything()
    monitor.stop()
    outcome.findings = ledger.check(
        site,
        work,
        monitor=monitor,
        unguarded=restore.faults,
        excused=restore.lost,
    )
    outcome.release = ledger.release_times(site)
    outcome.submitted = len(work)
    outcome.missed = [f"crash point {point}" for point in points.missing()]
    outcome.missed += [name for name in (*FAULTS, cluster_faults.REUSED) if not storm.counts[name]]
    outcome.missed += hitter.missing()
    outcome.missed += [] if options.short or restore.adopted else ["a database that was put back"]
    outcome.missed += [*site.proxy.weather.missing(), *monitor.blind()]
    outcome.ended = ledger.statuses(site)
    for line in ledger.odd_ends(site):
        progress(f"ended without its own doing: {line}")
    outcome.counts = {
        "requests to the API server": site.proxy.counts,
        "messages": meddler.counts,
        "everything else": storm.counts,
        "crash points": points.hits,
        "submissions": submitter.counts,
        "gangs that come back, seen running": hitter.counts(),
        "attempts that another one followed": attempts.ended(site.database_url),
        "ends of ComputeDomains": Counter({"judged": monitor.judged, "not judged": monitor.not_judged}),
    }
    return outcome


def _add_processes(site: Site, options: Options) -> None:
    """What runs beside the demo's processes, one of them with the wrong time."""
    site.add_observer(hostile.OBSERVERS[1])
    if options.short:
        site.hasten()
        site.skew("beat", options.skew)
    else:
        site.add_worker("worker-2")
        site.skew("worker-2", options.skew)


def _rage(storm: Storm, points: Points, hitter: Hitter, options: Options, *, order: random.Random) -> None:
    """Do harm until time is up, every point was hit and every kind of fault was there, if that comes soon."""
    ends = time.monotonic() + options.seconds
    kinds = Sequence(order, WEIGHTS)
    gap = options.seconds / (len(FAULTS) * (1.5 if options.short else 3.0))
    due = time.monotonic() + gap
    leases = LeaseWatch(storm.site.supervisor, storm.site.plane)
    while (now := time.monotonic()) < ends or (
        now < ends + MORE_SECONDS
        and (points.missing() or kinds.first or hitter.missing() or not storm.counts[cluster_faults.REUSED])
    ):
        storm.undo_due()
        _revive(storm, points, options)
        points.arm()
        if order.random() < TICK / PROPOSE_SECONDS:
            orders.propose(storm.site)
        if stale := leases.check():
            storm.progress(f"kwok has stopped renewing {stale} leases, and was started again")
        if order.random() < TICK / HIT_SECONDS:
            hitter.strike()
        if not options.short and not points.missing() and order.random() < TICK / AGAIN_SECONDS:
            points.arm_any()
        while storm.again:
            kinds.again(storm.again.pop())
        if now >= due and (now < ends or kinds.first):
            name = kinds.next()
            missing = not storm.counts[name] or (
                name == cluster_faults.REUSES and not storm.counts[cluster_faults.REUSED]
            )
            unheeded = name == cluster_faults.LOSES and AFTER_A_LOSS in points.missing()
            if (not storm.strike(name, FAULTS[name][1]) and missing) or unheeded:
                kinds.again(name)
            due = time.monotonic() + gap * order.uniform(0.3, 1.7)
        time.sleep(TICK)


def _revive(storm: Storm, points: Points, options: Options) -> None:
    ended = processes.ended(storm)
    points.collect()
    if options.short and "worker" in ended:
        _end_leases(storm.site)
    processes.revive(storm, ended)


def _end_leases(site: Site) -> None:
    """The only worker is dead: its groups need not wait for their leases to run out."""
    with psycopg.connect(site.database_url) as connection:
        connection.execute(END_LEASES)


def _configure(storm: Storm) -> None:
    edits.configure(storm)
    storm.heal(seconds=HEAL_SECONDS)


def _heal(storm: Storm, points: Points, options: Options) -> None:
    points.disarm()
    storm.heal(seconds=HEAL_SECONDS)
    restart_kwok(storm.site.supervisor, storm.site.plane)  # no node is removed from here on
    _revive(storm, points, options)
    storm.site.supervisor.check()
