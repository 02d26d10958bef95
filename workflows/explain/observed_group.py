"""A task group as last observed: all that the reason why it waits follows from."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.backends.base import Waiting
from scheduling.backends.facets import SchedulerBackend
from scheduling.nodes.node_health import NodeHealth
from scheduling.topology.coverage import LabelCoverage
from web.times import naive_utc
from workflows.explain.obstacles import (
    BarrierWait,
    BusyNode,
    OccupiedNode,
    TopologyDrift,
    UnpreparedClaim,
    WaitingContainer,
    evidence_of,
)
from workflows.explain.reasons import Json, Reason
from workflows.lifecycle.domain_health import DomainHealth


@dataclass(frozen=True, slots=True)
class NodeAway:
    """A node that is not ready or unreachable; ``lost_at`` is when it is lost, None for never."""

    name: str
    health: NodeHealth
    lost_at: datetime | None

    @property
    def sentence(self) -> str:
        text = self.health.sentence(self.name)
        if self.lost_at is None:
            return f"{text} Its pods may still run."
        return f"{text} Its pods may still run; it is lost at {self.lost_at:%H:%M:%S} UTC."

    def as_json(self) -> Json:
        return {
            "node": self.name,
            "state": str(self.health.state),
            "reason": self.health.reason,
            "since": naive_utc(self.health.since, precision="seconds"),
            "lost_at": naive_utc(self.lost_at, precision="seconds"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """A task group as last observed."""

    status: str
    backend: str
    scheduler: SchedulerBackend

    tries_wait: Reason | None = None
    """What its tasks that are tried again wait for."""

    request_wait: Reason | None = None
    """Why it cannot ask its scheduler for room, or gets no answer."""

    attempt_wait: Reason | None = None
    """Why its next attempt has not begun yet."""

    unreachable_since: datetime | None = None

    trouble: str = ""
    """The error of the last reconcile."""

    silent_scheduler: str = ""
    """The type of its scheduler, where that is by a webhook of it that gives no answer."""

    compute_domains_unserved: bool = False
    """Whether the cluster does not serve ComputeDomains."""

    template: str = ""
    """The claim template that it waits for."""

    template_removed: bool = False
    """Whether that was there before."""

    missing_levels: str = ""
    """The message on levels that its constraints need and no node has (``explain.levels``)."""

    coverage: LabelCoverage | None = None
    """How far nodes carry the other levels; None: no known nodes."""

    waiting: Waiting | None = None
    """For the scheduler backend; None: the pod group and pods do not exist yet."""

    starting: Sequence[WaitingContainer] = ()
    """Containers on nodes that have not started."""

    retried: Sequence[str] = ()
    """Tasks of a running group that are tried again and have no node yet."""

    queued_behind: int = 0
    """How many groups of its pool the scheduler serves before these tasks."""

    occupied: Sequence[OccupiedNode] = ()
    """Nodes with another group's ComputeDomain."""

    domain: DomainHealth | None = None
    """Of its own ComputeDomain."""

    drift: TopologyDrift | None = None
    """A manual change of its Topology object."""

    nodes_away: Sequence[NodeAway] = ()
    """Nodes of its pods that are not ready or unreachable."""

    barrier: BarrierWait | None = None
    """The tasks that wait at the start barrier."""

    unprepared: Sequence[UnpreparedClaim] = ()
    """Kubelets that report that they cannot prepare claims; nothing rests on such a report having come."""

    namespace: str = ""
    """The one of its pods."""

    credential_prefix: str = ""
    """Begins the names of its user's own Secrets."""

    reports: Sequence[str] = ()
    """Reports of controllers and kubelets on pods that have not started; nothing rests on one having come."""

    busy: Sequence[BusyNode] = ()
    """Tasks whose pods cannot be bound to the nodes that its scheduler assigned."""

    @property
    def is_unplaced(self) -> bool:
        return self.waiting is not None and not self.waiting.placed

    @property
    def node_evidence(self) -> Json:
        """Observations of nodes, of their labels and of the objects that name them."""
        levels = self.coverage.levels if self.coverage else ()
        labels = [
            {
                "key": level.level.key,
                "label": level.level.label,
                "nodes": self.coverage.nodes if self.coverage else 0,
                "without": level.lacking,
                "not_seen": level.hidden,
                "named": list(level.hidden_names or level.lacking_names),
            }
            for level in levels
            if level.hidden or level.lacking
        ]
        parts = {
            "labels": labels,
            "drift": self.drift.evidence if self.drift else None,
            "nodes_held": evidence_of(self.occupied),
        }
        return {key: part for key, part in parts.items() if part}
