"""The changes that a reconciliation decides on: values, each of which ``record`` writes in one way.

Tasks move, get another try, or failed on a node; everything else is a change of the group's own row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pools.conditions import Condition
from scheduling.gang.gang_form import GangForm
from scheduling.nodes.suspects import NodeFault
from workflows.explain.reasons import Reason
from workflows.lifecycle.attempts_in_vain import NONE_IN_VAIN, InVain
from workflows.lifecycle.domain_health import Membership
from workflows.lifecycle.form_states import FormState


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMove:
    """A step of one try of a task. Empty values leave what the row has."""

    pk: int
    status: str
    code: int | None = None
    message: str = ""
    node_name: str = ""
    pod_ip: str = ""
    uncounted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTry:
    """A try that follows another one, of task row ``after``; its attempt began with ``first_retry``.

    ``replaced_after`` is the loss after which the task alone is tried again by its group's policy.
    """

    after: int
    retry_id: int
    pod_name: str
    generation: int
    first_retry: int = 0
    replaced_after: str = ""


@dataclass(frozen=True, slots=True)
class NewMembership:
    """Nodes of tasks joined the group's ComputeDomain, or left it."""

    members: Membership


@dataclass(frozen=True, slots=True)
class NewGeneration:
    """From now on pods join the pod groups of this generation."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """A step of the group; ``message`` says why it failed."""

    status: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class NewWaitingReason:
    """Why the group waits; None: it does not wait."""

    reason: Reason | None


@dataclass(frozen=True, slots=True)
class ClusterContact:
    """A create may be sent to this cluster from now on, so the group's end needs a teardown."""

    cluster_uid: str


@dataclass(frozen=True, slots=True)
class Creation:
    """All objects of the group are in the cluster."""


@dataclass(frozen=True, slots=True)
class DomainOfPods:
    """The ComputeDomain whose channels the pods of the present attempt claim; no uid: not known."""

    uid: str


@dataclass(frozen=True, slots=True)
class Release:
    """No object of the group is left in the cluster."""


@dataclass(frozen=True, slots=True)
class NewAwaitedUpstream:
    """The upstream group whose end makes this one due; it is due on no other account."""

    group_id: UUID


@dataclass(frozen=True, slots=True)
class NewAvoidedNodes:
    """The nodes that the present attempt avoids, the newest loss first."""

    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class PatienceClock:
    """The clock of patience starts, or is reset."""

    running: bool


@dataclass(frozen=True, slots=True)
class NewForm:
    """The group has another form from now on; a stage is never taken back. Answers a proposal.

    ``constraints`` are those that its scheduler is given then. ``behind``: the part of the form in which its
    objects are still as before, ``ORDER`` or ``PINS``.
    """

    form: GangForm
    constraints: Sequence[Mapping[str, Any]]
    behind: FormState = FormState.REACHED


@dataclass(frozen=True, slots=True)
class PinsSettled:
    """All pods of the group have its pins; no other form is proposed any more."""


@dataclass(frozen=True, slots=True)
class OrderReached:
    """All objects of the group are named in its order."""


@dataclass(frozen=True, slots=True)
class ProposalDropped:
    """The proposed form is not taken."""


@dataclass(frozen=True, slots=True)
class NewPlacementResult:
    """How well the group was placed (``feasibility.placement.placed``)."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFailed:
    """A node failed a task of the group."""

    node: str
    fault: NodeFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """An event that is no change of status. ``key`` makes it appear once; many of a reason are one line."""

    key: str
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttempt:
    """The group is tried again as a whole; with it come a new try of each task and a new generation.

    ``status`` is how the group would have ended. Nothing is created for ``pause`` seconds. ``in_vain`` are
    the attempts in vain in a row, with the one that ends.
    """

    loss: str
    evidence: str
    status: str
    message: str
    counted: bool
    pause: float
    in_vain: InVain = NONE_IN_VAIN
    avoided_nodes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class AttemptCleared:
    """Nothing of the attempt before is left in the cluster."""


@dataclass(frozen=True, slots=True)
class RunClock:
    """All tasks have nodes from ``since`` on, or no longer (None)."""

    since: datetime | None


GroupChange = (
    NewGeneration
    | NewMembership
    | NewAttempt
    | AttemptCleared
    | RunClock
    | GroupMove
    | NewWaitingReason
    | ClusterContact
    | Creation
    | DomainOfPods
    | Release
    | NewAwaitedUpstream
    | NewAvoidedNodes
    | PatienceClock
    | NewForm
    | PinsSettled
    | OrderReached
    | ProposalDropped
    | NewPlacementResult
    | Condition
    | Note
)
Change = TaskMove | NewTry | NodeFailed | GroupChange
