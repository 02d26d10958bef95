"""Whether a ComputeDomain ever ends under pods of its group, and a pod on Kueue ever begins without room.

Pods, ComputeDomains and Workloads are followed all the time, past the fault proxy. Versions of all objects of
one etcd are in one order, so an end of a ComputeDomain, an admission and the lives of pods can be compared.
Where the monitor itself was cut off (the API server was restarted) nothing is claimed: an event that went
unseen counts as gone, or admitted, in time, and an end whose moment is not known is counted as not judged.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import urllib3

from chaos.cluster_faults import DOMAINS, GROUP_LABEL, OWN
from localcluster import scenario
from localcluster.api import Api, ApiError, Json
from localcluster.controlplane import Plane
from localcluster.kueue_queues import KUEUE

TASK_LABEL = "osmo.nvidia.com/task"
PODS = "/api/v1/pods"
PATHS = {"pod": PODS, "domain": f"{DOMAINS}/computedomains", "workload": f"{KUEUE}/workloads"}
ADMITTING = scenario.namespace(scenario.QUEUED)
"""The namespace in which Kueue admits each group before it has pods."""
WATCH_SECONDS = 60
PAUSE = 0.3


@dataclass(slots=True)
class Life:
    """Versions at which an object came, was asked to end, and went; None where that was not seen.

    ``stopped`` is that at which all containers of a pod had ended, ``admitted`` that at which a Workload got
    its room; 0 for an admission that was first found in a list.
    """

    group: str
    name: str
    came: int
    namespace: str = ""
    task: str = ""
    admitted: int | None = None
    ending: int | None = None
    stopped: int | None = None
    went: int | None = None
    in_a_list: bool = False  # its ``ending`` was found in a list, so it may be older
    last: int = 0


@dataclass(slots=True)
class Monitor:
    plane: Plane
    pods: dict[str, Life] = field(default_factory=dict)
    domains: dict[str, Life] = field(default_factory=dict)
    workloads: dict[str, Life] = field(default_factory=dict)
    spared: set[str] = field(default_factory=set)  # uids of ComputeDomains that the harness deleted itself
    judged: int = 0
    not_judged: int = 0
    broken: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for kind in PATHS:
            thread = threading.Thread(target=self._follow, args=[kind], name=f"monitor {kind}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stop.set()

    def violations(self) -> Iterator[str]:
        """ComputeDomains whose end began while pods of their groups were there."""
        self.judged = self.not_judged = 0
        by_group: dict[str, list[Life]] = {}
        for pod in list(self.pods.values()):
            by_group.setdefault(pod.group, []).append(pod)
        for uid, domain in list(self.domains.items()):
            if uid in self.spared or domain.ending is None:
                continue
            if domain.in_a_list:
                self.not_judged += 1
                continue
            self.judged += 1
            alive = [pod.name for pod in by_group.get(domain.group, ()) if _alive(pod, at=domain.ending)]
            if alive:
                yield f"ComputeDomain {domain.name} was deleted while {', '.join(sorted(alive))} were there"

    def unadmitted(self) -> Iterator[str]:
        """Pods that came before Kueue had admitted any Workload of their groups."""
        first: dict[str, int] = {}
        for workload in list(self.workloads.values()):
            if workload.admitted is not None:
                first[workload.group] = min(workload.admitted, first.get(workload.group, workload.admitted))
        for pod in list(self.pods.values()):
            if pod.namespace == ADMITTING and not first.get(pod.group, pod.came) < pod.came:
                yield f"pod {pod.name} came before its group was admitted"

    def blind(self) -> list[str]:
        """The unseen parts, without which "no violations" says nothing; asked after ``violations``."""
        unseen = [f"the monitor of {why}" for why in self.broken]
        if not self.judged:
            unseen.append("an end of a ComputeDomain that could be judged")
        if not any(workload.admitted for workload in self.workloads.values()):
            unseen.append("an admission by Kueue")
        return unseen

    def _follow(self, kind: str) -> None:
        try:
            api = Api(self.plane.access(), connections=2)
            while not self._stop.is_set():
                self._watch(api, kind)
        except Exception as error:
            self.broken.append(f"{kind}s to the end: {type(error).__name__}: {error}")
            raise

    def _watch(self, api: Api, kind: str) -> None:
        """List, then watch until the stream ends; the faults that may befall either are waited out."""
        lives = {"pod": self.pods, "domain": self.domains, "workload": self.workloads}[kind]
        query = {"labelSelector": OWN}
        try:
            objects, version = api.list(PATHS[kind], query=query)
            self._note_list(lives, objects)
            for event, obj in api.watch(
                PATHS[kind], resource_version=version, seconds=WATCH_SECONDS, query=query
            ):
                if event != "BOOKMARK":
                    _note(lives, event, obj)
                if self._stop.is_set():
                    return
        except (ApiError, urllib3.exceptions.HTTPError, OSError, ValueError):
            self._stop.wait(PAUSE)

    def _note_list(self, lives: dict[str, Life], objects: list[Json]) -> None:
        uids = {str(obj["metadata"]["uid"]) for obj in objects}
        for uid, life in lives.items():
            if uid not in uids and life.went is None:
                life.went = life.last
                life.in_a_list = True
        for obj in objects:
            uid = str(obj["metadata"]["uid"])
            knew = uid in lives and lives[uid].ending is not None
            _note(lives, "LISTED", obj)
            if lives[uid].ending is not None and not knew:
                lives[uid].in_a_list = True


def _alive(pod: Life, *, at: int) -> bool:
    return pod.came < at and (pod.went is None or pod.went > at)


def _note(lives: dict[str, Life], event: str, obj: dict[str, Any]) -> None:
    metadata = obj["metadata"]
    version = int(metadata["resourceVersion"])
    life = lives.setdefault(
        str(metadata["uid"]),
        Life(
            group=str(metadata["labels"][GROUP_LABEL]),
            name=str(metadata["name"]),
            came=version,
            namespace=str(metadata["namespace"]),
            task=str(metadata["labels"].get(TASK_LABEL, "")),
        ),
    )
    life.last = max(life.last, version)
    if life.admitted is None and _is_admitted(obj):
        life.admitted = 0 if event == "LISTED" else version
    if "deletionTimestamp" in metadata and life.ending is None:
        life.ending = version
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed") and life.stopped is None:
        life.stopped = life.came if event == "LISTED" else version  # unseen, it counts as in time
    if event == "DELETED":
        life.went = version
        life.ending = life.ending or version


def _is_admitted(obj: dict[str, Any]) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == "Admitted" and entry["status"] == "True" for entry in conditions)
