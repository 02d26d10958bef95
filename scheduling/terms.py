"""What a pool and its backend lay down for the scheduling of a task group.

Made from the pool once, frozen with each group at its submission, and handed to what renders it. A setting
of a pool that reaches objects of the cluster is a field here, and the code that acts reads it from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from scheduling.capabilities import SchedulerVersion
from scheduling.gang.checks import PreferenceWord
from scheduling.topology.levels import Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingTerms:
    """The terms of one pool at one of its revisions."""

    installation: UUID
    """Of this service; its objects in the cluster carry it."""

    pool: str
    pool_revision: int
    backend: str

    cluster_uid: str = ""
    """Of the cluster's kube-system namespace; empty: the backend was not probed yet."""

    namespace: str

    scheduler_type: str
    """The name of a scheduler backend of this service."""

    scheduler_name: str
    """``schedulerName`` of pods."""

    scheduler_version: str = ""
    """The version at which the group is checked; empty: it is not known."""

    queue: str = ""
    """The queue's name in the cluster; empty: none."""

    queue_label: str = ""
    """The label key by which pods name their queue; empty: the scheduler's usual one."""

    shard: Mapping[str, str] = field(default_factory=dict)
    """The node label, with its value, of the scheduler's part of the cluster; empty: all of it."""

    preemption_delay: float = 0.0
    """How many seconds a group waits before other work is evicted for it."""

    levels: Levels = ()
    """The pool's topology, broadest first."""

    external_topology: str = ""
    """An external Topology object that constraints name; empty: they name the service's own."""

    unsupported_preferred: PreferenceWord = "refuse"
    """The fate of a preference that the scheduler cannot hold."""

    @property
    def version(self) -> SchedulerVersion | None:
        """The scheduler's version; None, if it is not known, counts as the oldest supported."""
        return SchedulerVersion.parse_known(self.scheduler_version)
