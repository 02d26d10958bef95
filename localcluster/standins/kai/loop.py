"""The scheduler's loop: wait for a change, take a snapshot, decide, write.

Nothing happens while nothing changes. Cycles keep a distance of ``PERIOD`` seconds and take at most half of
the time, so a burst of changes costs a few cycles and not one each. A recent write is remembered (``Memory``)
until the watch shows it, so no cycle decides on a cluster that is already past.
"""

import logging
import time
from dataclasses import dataclass, field, replace

from localcluster.api import Access
from localcluster.standins.kai import reader
from localcluster.standins.kai.cycle import schedule
from localcluster.standins.kai.values import Binding, Decisions, Eviction, Pod, Snapshot, Version
from localcluster.standins.kai.writer import GROUPS, QUEUES, RESOURCES, Answers, Writer
from localcluster.standins.mirror import Mirrors

PERIOD = 0.2
RETRY_SECONDS = 1.0
MEMORY_SECONDS = 30.0
DEFAULT_PRIORITY = 50

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Memory:
    """Bindings and deletions asked for but not yet seen; forgotten once seen, or after a while."""

    bound: dict[str, tuple[str, float]] = field(default_factory=dict)
    deleted: dict[str, float] = field(default_factory=dict)

    def add(self, bindings: list[Binding], evictions: list[Eviction], now: float) -> None:
        """Remember what is about to be asked for."""
        self.bound.update((binding.pod.uid, (binding.node, now)) for binding in bindings)
        self.deleted.update((eviction.pod.uid, now) for eviction in evictions)

    def forget(self, bindings: list[Binding], evictions: list[Eviction]) -> None:
        """Drop what was refused."""
        for binding in bindings:
            self.bound.pop(binding.pod.uid, None)
        for eviction in evictions:
            self.deleted.pop(eviction.pod.uid, None)

    def overlay(self, pods: tuple[Pod, ...], now: float) -> tuple[Pod, ...]:
        """Show pods as they will be once the watch has caught up."""
        if not self.bound and not self.deleted:
            return pods
        listed = {pod.uid: pod for pod in pods}
        self.bound = {
            uid: entry
            for uid, entry in self.bound.items()
            if uid in listed and listed[uid].node is None and now - entry[1] < MEMORY_SECONDS
        }
        self.deleted = {
            uid: since
            for uid, since in self.deleted.items()
            if uid in listed and listed[uid].state == "active" and now - since < MEMORY_SECONDS
        }
        return tuple(self._with_current_status(pod) for pod in pods)

    def _with_current_status(self, pod: Pod) -> Pod:
        if pod.uid in self.deleted:
            return replace(pod, state="releasing")
        if pod.uid in self.bound and pod.state in ("pending", "gated"):
            return replace(pod, state="active", node=self.bound[pod.uid][0])
        return pod


@dataclass(frozen=True, slots=True)
class Settings:
    """Flags of the scheduler, named as KAI's."""

    stale_grace: float = 60.0
    detailed_fit_errors: bool = False
    update_pod_eviction_condition: bool = False
    event_limits: bool = True
    """Not a flag of KAI's: without it every event arrives."""


class Scheduler(Mirrors):
    """The stand-in for KAI's scheduler and binder on one API server."""

    def __init__(self, access: Access, *, version: Version, settings: Settings | None = None) -> None:
        self.version, self.settings = version, settings or Settings()
        super().__init__(access, connections=24)
        self.memory = Memory()

        self.nodes = self.mirror("/api/v1/nodes", reader.node)
        self.pods = self.mirror("/api/v1/pods", reader.pod)
        self.groups = self.mirror(f"{GROUPS}/podgroups", reader.pod_group)
        self.queues = self.mirror(QUEUES, reader.queue)
        self.topologies = self.mirror("/apis/kai.scheduler/v1alpha1/topologies", reader.topology)
        self.priorities = self.mirror("/apis/scheduling.k8s.io/v1/priorityclasses", reader.priority_class)
        self.claims = self.mirror(f"{RESOURCES}/resourceclaims", reader.claim)
        self.slices = self.mirror(f"{RESOURCES}/resourceslices", reader.resource_slice)
        self.classes = self.mirror(f"{RESOURCES}/deviceclasses", reader.device_class)
        self.volumes = self.mirror("/api/v1/persistentvolumeclaims", reader.volume_claim)
        self.config_maps = self.mirror("/api/v1/configmaps", reader.config_map)
        answers = Answers(
            pod=self.pods.put, group=self.groups.put, claim=self.claims.put, queue=self.queues.put
        )
        self.writer = Writer(
            self.api,
            answers,
            event_limits=self.settings.event_limits,
            evictions_on_pods=self.settings.update_pod_eviction_condition,
        )

    def run(self) -> None:
        """Work until ``shut_down``."""
        self.writer.start()
        self.start_mirrors()
        log.info("all kinds listed, scheduling as KAI v%s", self.version)
        self.run_cycles(self.cycle, period=PERIOD)

    def snapshot(self) -> Snapshot:
        """The known state of now, own writes included."""
        now = time.time()
        priorities = self.priorities.values()
        return Snapshot(
            now=now,
            nodes=self.nodes.values(),
            pods=self.memory.overlay(self.pods.values(), now),
            groups=self.groups.values(),
            queues=self.queues.values(),
            topologies=self.topologies.values(),
            priorities={name: value for name, value, _ in priorities},
            default_priority=next((value for _, value, default in priorities if default), DEFAULT_PRIORITY),
            devices=reader.newest(self.slices.values()),
            device_classes=dict(self.classes.values()),
            claims=self.claims.values(),
            volume_claims=dict(self.volumes.values()),
            config_maps=frozenset(self.config_maps.values()),
        )

    def cycle(self) -> float | None:
        """Decide and write once; return when to look again even if nothing changes."""
        decisions = schedule(
            self.snapshot(),
            version=self.version,
            stale_grace=self.settings.stale_grace,
            detailed_fit_errors=self.settings.detailed_fit_errors,
        )
        return decisions.wake_at if self._write(decisions) else time.time() + RETRY_SECONDS

    def _write(self, decisions: Decisions) -> bool:
        bindings, evictions = list(decisions.bindings), list(decisions.evictions)
        self.memory.add(bindings, evictions, time.time())
        if bindings:
            groups = sorted({f"{binding.pod.namespace}/{binding.group}" for binding in bindings})
            log.info("bind %d pods of %s", len(bindings), ", ".join(groups))
        unbound = self.writer.bind(bindings)
        unevicted = self.writer.evict(evictions)
        self.memory.forget(unbound, unevicted)
        noted = self.writer.note(
            decisions.stale_marks,
            decisions.eviction_marks,
            decisions.group_conditions,
            decisions.pod_conditions,
            decisions.queue_statuses,
        )
        self.writer.report(decisions.events)
        return not unbound and not unevicted and noted
