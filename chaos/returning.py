"""Gangs that come back: one in three is hit while it runs, by turns in each of four ways.

A gang whose pod somebody deletes is tried again as after a preemption that nothing explains. A node is
removed as a cloud does it, the pods on it with it, and comes back empty. A workflow of priority HIGH that
has room on no other node preempts a gang of priority LOW. A rank fails with the code for which its gang is
tried again as a whole.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import psycopg

from chaos import cluster_faults
from chaos.cluster_faults import SIM, group_of, path_of, put_node, running
from chaos.storm import TROUBLE, Storm
from chaos.workload import RESTART_CODE, RETURNS
from localcluster import nodes, scenario
from localcluster.api import Json

ONE_IN = 3
DELETED, REMOVED, PREEMPTED, FAILED = KINDS = (
    "hit a gang that comes back: a pod deleted",
    "hit a gang that comes back: its node removed",
    "hit a gang that comes back: preempted by HIGH",
    "hit a gang that comes back: a rank failed",
)
LOSSES = frozenset({"preempted", "node_lost", "failed"})
HIGHER = """workflow:
  name: higher
  labels: {{sim.osmo.local/run-for: 2s}}
  tasks: [{{name: t, image: busybox, command: [train], resource: one}}]
  resources:
    one: {{gpu: 4, nodesExcluded: [{others}]}}
"""
_ENDED = "SELECT DISTINCT loss FROM workflows_attempt"
_SIZES = "SELECT group_id, count(DISTINCT task_uuid) FROM workflows_task GROUP BY group_id"


@dataclass(slots=True)
class Hitter:
    """``gangs`` are those that were hit or spared, ``sizes`` their tasks, ``losses`` what ended attempts."""

    storm: Storm
    generator: random.Random
    least_gangs: int  # gangs that are to run with all of their pods
    gangs: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    losses: set[str] = field(default_factory=set)
    hits: int = 0
    _kinds: Iterator[str] = field(default_factory=lambda: itertools.cycle(KINDS))

    def missing(self) -> list[str]:
        """The events that have not happened yet."""
        missing = [kind for kind in KINDS if not self.storm.counts[kind]]
        if len(self.gangs) < self.least_gangs:
            missing.append(f"{self.least_gangs} gangs that run with all of their pods")
        if self.hits < self.least_gangs // ONE_IN:
            missing.append(f"{self.least_gangs // ONE_IN} gangs hit")
        return missing + [f"an attempt after {loss}" for loss in sorted(LOSSES - self.losses)]

    def strike(self) -> None:
        """Hit one in three of the gangs that run now and did not before."""
        with suppress(psycopg.Error), psycopg.connect(self.storm.site.database_url) as connection:
            self.losses |= {loss for (loss,) in connection.execute(_ENDED)}
            self.sizes = {group.hex: int(tasks) for group, tasks in connection.execute(_SIZES)}
        with suppress(*TROUBLE):
            new_gangs = self._new_gangs()
            self.generator.shuffle(new_gangs)
            for gang in new_gangs[: len(self.gangs) // ONE_IN - self.hits]:
                kind = next(self._kinds)
                self.hits += self.storm.strike(kind, partial(self._hit, kind=kind, gang=gang))

    def counts(self) -> Counter[str]:
        return Counter({"ran with all of its pods": len(self.gangs), "were hit": self.hits})

    def _new_gangs(self) -> list[list[Json]]:
        by_group: dict[str, list[Json]] = {}
        for pod in running(self.storm):
            if RETURNS in pod["metadata"]["labels"] and group_of(pod) not in self.gangs:
                by_group.setdefault(group_of(pod), []).append(pod)
        full_gangs = {
            group: pods for group, pods in by_group.items() if 1 < len(pods) == self.sizes.get(group)
        }
        self.gangs |= set(full_gangs)
        return list(full_gangs.values())

    def _hit(self, storm: Storm, *, kind: str, gang: list[Json]) -> int:
        victim = self.generator.choice(gang)
        path = path_of(victim, "/api/v1", "pods")
        if kind == DELETED:
            return int(storm.site.api.delete(path) is not None)
        if kind == FAILED:
            note = {f"{SIM}/run-for": "0s", f"{SIM}/exit-code": RESTART_CODE}
            return int(storm.site.api.patch(path, {"metadata": {"annotations": note}}) is not None)
        node = next(n for n in scenario.all_nodes() if n.name == victim["spec"]["nodeName"])
        return _remove(storm, node) if kind == REMOVED else _outrank(storm, node)


def _remove(storm: Storm, node: nodes.Node) -> int:
    """Remove a node and what runs on it."""
    if storm.site.api.delete(f"{nodes.PATH}/{node.name}") is None:
        return 0
    storm.later(storm.pause(4, 8), partial(put_node, storm, node))
    for pod in cluster_faults.service_objects(storm, "/api/v1", "pods"):
        if pod["spec"].get("nodeName") == node.name:
            storm.site.api.delete(path_of(pod, "/api/v1", "pods"), body={"gracePeriodSeconds": 0})
    return 1


def _outrank(storm: Storm, node: nodes.Node) -> int:
    """Submit work of higher priority that has room on this node alone."""
    pool = node.labels[scenario.POOL_LABEL]
    others = [
        other.name
        for other in scenario.all_nodes()
        if other.labels[scenario.POOL_LABEL] == pool and other.name != node.name
    ]
    storm.submit(pool, HIGHER.format(others=", ".join(others)), "HIGH")
    return 1
