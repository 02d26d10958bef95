"""A gang that others submitted, as values: what is kept of its objects, and what its scheduler's facet reads.

An observer keeps of each object only what decides on a place (``GangKept``), never environment, commands or
images. The facet ``foreign`` of the scheduler makes of it what the service would have made of a task group of
its own: a demand that can be judged. Whatever cannot be read is named as not examined, and then nothing is
claimed to be impossible.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.topology.levels import Levels

MOST_PARTS = 1000
"""Sub-groups, pod sets or groups above of a gang that are read; one of more is not understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodKept:
    """What is kept of a waiting pod, or of the template of pods to come; JSON has its fields.

    ``requests`` are whole numbers by resource: ``cpu`` in thousandths of a core, ``memory`` and
    ``ephemeral-storage`` in bytes. ``selector`` and ``tolerations`` are as the pod has them. ``excluded`` are
    nodes by their label kubernetes.io/hostname. ``unread`` names what else decides on its node and is not
    read: ``node affinity``, ``pod affinity``, ``spread constraints``, ``volumes (persistentVolumeClaim)``,
    ``claims``, ``host ports``. ``gates`` counts its scheduling gates. ``says`` is the message of its condition
    PodScheduled.
    """

    scheduler: str = ""
    priority: int | None = None
    priority_class: str = ""
    requests: Mapping[str, int]
    selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...] = ()
    excluded: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    gates: int = 0
    says: str = ""
    owner: tuple[str, str] = ("", "")
    """The kind and the name of its controller."""

    def demand(self, *, clique: str = "") -> Demand:
        """The pod's demand on a node."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsKept:
    """Waiting pods of a gang that are alike. ``part`` is the name of theirs in the gang, empty for none."""

    part: str
    count: int
    pod: PodKept


@dataclass(frozen=True, slots=True, kw_only=True)
class GangKept:
    """What is kept of a waiting gang.

    ``resource`` is the name of its kind's definition (``podgroups.scheduling.run.ai``). ``created`` is as
    Kubernetes writes it. ``obj`` and ``above`` are what ``ForeignGangs.keep`` left of its object and of those
    above it, nearest first; None for an object that is not there. ``omitted`` counts waiting pods beyond what
    is kept.
    """

    resource: str
    namespace: str
    name: str
    uid: str = ""
    created: str = ""
    obj: Mapping[str, Any] | None
    above: tuple[Mapping[str, Any] | None, ...] = ()
    pods: tuple[PodsKept, ...] = ()
    omitted: int = 0


class NotRead(StrEnum):
    """Why a gang, or a part of it, is not examined."""

    MISSING = "missing"
    """An object that it names is not there."""
    MALFORMED = "malformed"
    """Its objects contradict themselves or each other: a loop, two parents, a level that no Topology has."""
    TOO_LARGE = "too_large"
    POD_CONDITIONS = "pod_conditions"
    """What is in ``PodKept.unread``."""
    PODS = "pods"
    """Some of its pods are placed, or not made yet, so that its demand is not known in full."""
    TOPOLOGY = "topology"
    """Constraints of it are not what the service could have written."""
    GATES = "gates"
    """Pods wait for somebody to remove their scheduling gates."""


@dataclass(frozen=True, slots=True)
class Unread:
    """What is not examined of a gang; ``message`` is a full sentence that names it."""

    code: NotRead
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignGang:
    """A gang that others submitted, as its scheduler's facet reads it.

    ``demand`` is None where nothing can be judged; ``unread`` then says why. ``queue`` is the name of the
    queue that it names. ``faults`` are full sentences on what keeps it waiting for ever whatever is free, as
    its scheduler is known to behave (KAI never places a required level without a preferred one).
    ``minimum`` is how many pods have to be placed together, ``tasks`` how many are counted in ``demand``.
    """

    namespace: str
    name: str
    owner: tuple[str, str] = ("", "")
    queue: str = ""
    priority: str = ""
    minimum: int = 0
    tasks: int = 0
    gpus: int = 0
    levels: Levels = ()
    demand: GangDemand | None = None
    unread: tuple[Unread, ...] = ()
    faults: tuple[str, ...] = ()
    says: str = ""
    """The scheduler's own words, the pod group's before a pod's."""
