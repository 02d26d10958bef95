"""What follows the losses of a group: nothing more than its end, a task alone again, or an attempt.

Exit actions are asked first. RESCHEDULE retries a non-lead alone if its group ignores non-leads, otherwise
its peers too, as OSMO means it: they would wait for it in a dead collective. RESTART_GROUP is an attempt. The
policy rules what no action names: a preemption and a lost node whichever task they hit, a failure only where
it decides the group. Where several tasks are lost at once, the loss that the cluster caused counts and not
the failures of peers that it led to. A task alone cannot join peers whose ComputeDomain was deleted: then
``task`` is an attempt. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pools.values.recovery import MOST_ATTEMPTS, Loss, RecoveryPolicy, Response
from scheduling.sentences import count_of
from workflows.lifecycle.attempts_in_vain import NONE_IN_VAIN, InVain, is_in_vain
from workflows.lifecycle.domain_health import DOMAIN_DELETED
from workflows.lifecycle.exit_actions import ExitAction
from workflows.lifecycle.pod_status import ROOM_BUSY, UNEXPLAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTask:
    """A task that ended and did not complete."""

    pk: int
    name: str
    lead: bool

    status: str
    """Its status if nothing is tried again."""

    message: str
    loss: Loss
    evidence: str
    node: str = ""

    action: ExitAction | None = None
    """The exit action of its code; RESCHEDULE only while its tries allow it, None afterwards."""


@dataclass(frozen=True, slots=True)
class History:
    """What a group recovered from before."""

    attempts: int = 0

    counted: int = 0
    """The attempts that the policy's bound counts."""

    preemptions: int = 0

    rescheduled: int = 0
    """Those by RESCHEDULE."""

    now: datetime | None = None

    in_vain: InVain = NONE_IN_VAIN
    """The last ended attempts in a row that were in vain."""

    replaced_in_vain: Mapping[int, InVain] = field(default_factory=dict)
    """The last ended replacements in a row of a task that were in vain, by its row."""

    ran: float = 0.0
    """For how many seconds the present attempt has run."""

    replaced: int = 0
    """The losses after which tasks were replaced alone, but for preemptions."""

    replaced_preempted: int = 0

    out_of_domain: tuple[str, ...] = ()
    """The nodes that left the group's NVLink domain and have not joined it since, the last first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What follows ``cause``: an attempt (REQUEUE), the tasks ``alone`` again (TASK), or the end (FAIL).

    ``nodes`` are those to blame, the cause's first. ``counted`` says whether the policy's bound counts it.
    ``refused`` is why it is the end. ``pause`` is in seconds. ``in_vain`` are the attempts in vain in a row,
    with the one that ends now.
    """

    response: Response
    cause: LostTask
    alone: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    counted: bool = False
    pause: float = 0.0
    refused: str = ""
    in_vain: InVain = NONE_IN_VAIN


def recover(
    losses: Sequence[LostTask],
    policy: RecoveryPolicy,
    *,
    tasks: int,
    ignore_nonlead_status: bool,
    history: Callable[[], History],
) -> Recovery | None:
    """What follows the losses of a group of so many tasks; None where OSMO's rules decide their end.

    These are for failures alone, and not for those for which pool or document wrote a response. ``history``
    is called only where the policy would recover.
    """
    responses = [
        (response, lost)
        for lost in losses
        if (response := _response_to(lost, policy, tasks=tasks, ignored=ignore_nonlead_status)) is not None
    ]
    if not responses:
        return None
    response, cause = min(responses, key=lambda pair: _rank(*pair))
    if response == Response.FAIL:
        return _end_by_policy(cause, policy)
    is_of_cluster = cause.action is None and cause.loss in _BY_CLUSTER
    alone = tuple(
        lost.pk
        for kind, lost in responses
        if kind == Response.TASK or (is_of_cluster and lost.action is None and lost.loss == Loss.FAILED)
    )
    recovery = Recovery(
        response=response,
        cause=cause,
        alone=alone,
        nodes=_blamed_nodes(losses, cause),
        counted=_is_counted(cause),
    )
    return _bounded(recovery, policy, history)


def _end_by_policy(cause: LostTask, policy: RecoveryPolicy) -> Recovery | None:
    """The end of the group; None where it ends by an exit action or by OSMO's rules."""
    if cause.action is not None or (cause.loss == Loss.FAILED and policy.failed is None):
        return None
    word = "unexplained" if _is_unexplained(cause, policy) else str(cause.loss)
    return Recovery(response=Response.FAIL, cause=cause, refused=f"Its recovery policy says {word}: fail.")


def _response_to(lost: LostTask, policy: RecoveryPolicy, *, tasks: int, ignored: bool) -> Response | None:
    """The response to one loss; None if the loss decides nothing."""
    decides = lost.lead or not ignored
    match lost.action:
        case ExitAction.RESTART_GROUP:
            return Response.REQUEUE
        case ExitAction.RESCHEDULE:
            return Response.TASK if tasks == 1 or not decides else Response.REQUEUE
        case None if lost.loss != Loss.FAILED or decides or policy.failed is not None:
            return _by_policy(lost, policy)
        case _:
            return Response.FAIL if decides else None


def _by_policy(lost: LostTask, policy: RecoveryPolicy) -> Response:
    response = policy.response(lost.loss)
    if _is_unexplained(lost, policy):
        response = policy.unexplained or response
    is_whole = lost.evidence == DOMAIN_DELETED and response == Response.TASK
    return Response.REQUEUE if is_whole else response


def _is_unexplained(lost: LostTask, policy: RecoveryPolicy) -> bool:
    """Whether the policy has a response of its own to this deletion."""
    return lost.evidence == UNEXPLAINED and policy.unexplained is not None


def _blamed_nodes(losses: Sequence[LostTask], cause: LostTask) -> tuple[str, ...]:
    """The nodes on which tasks were lost: the cause's, and all that were lost together with it."""
    if cause.evidence == ROOM_BUSY:
        return tuple(dict.fromkeys(lost.node for lost in losses if lost.evidence == ROOM_BUSY))
    if cause.loss == Loss.PREEMPTED or cause.evidence == DOMAIN_DELETED:
        return ()
    together = [lost for lost in losses if lost.loss == cause.loss == Loss.NODE_LOST]
    return tuple(dict.fromkeys(lost.node for lost in (cause, *together) if lost.node))


_BY_CLUSTER = {Loss.NODE_LOST: 0, Loss.PREEMPTED: 1}
_BY_RESPONSE = {Response.FAIL: 0, Response.REQUEUE: 1, Response.TASK: 2}


def _rank(response: Response, lost: LostTask) -> tuple[bool, int, int, bool, str]:
    """The first of several is the cause: the cluster's losses, then what ends the group, the lead first."""
    by_cluster = lost.action is None and lost.loss in _BY_CLUSTER
    kind = _BY_CLUSTER.get(lost.loss, 2)
    return not by_cluster, _BY_RESPONSE[response], kind, not lost.lead, lost.name


def _is_counted(lost: LostTask) -> bool:
    """RESCHEDULE has its own bound, the task's; preemptions that no action names have theirs."""
    if lost.action is not None:
        return lost.action == ExitAction.RESTART_GROUP
    return lost.loss != Loss.PREEMPTED


def _bounded(recovery: Recovery, policy: RecoveryPolicy, history: Callable[[], History]) -> Recovery:
    cause, before = recovery.cause, history()
    if cause.action == ExitAction.RESCHEDULE and recovery.response != Response.REQUEUE:
        return recovery
    if before.attempts + before.replaced + before.replaced_preempted >= MOST_ATTEMPTS:
        return _ended(recovery, f"It was tried again {MOST_ATTEMPTS} times, the most that any group is.")
    if cause.action == ExitAction.RESCHEDULE:
        return _next_attempt(recovery, policy, before, pause=_pause(cause, policy, before))
    if cause.loss == Loss.PREEMPTED and cause.action is None:
        bound, number = policy.most_preemptions, before.preemptions + before.replaced_preempted
    else:
        bound, number = policy.most, before.counted + before.replaced
    if bound is not None and number >= bound:
        times = count_of(number, "time")
        return _ended(
            recovery, f"It was tried again {times} before, the most that its recovery policy allows."
        )
    if recovery.response != Response.REQUEUE:
        is_own = cause.action is not None or cause.loss not in _BY_CLUSTER
        tries = NONE_IN_VAIN if is_own else before.replaced_in_vain.get(cause.pk, NONE_IN_VAIN)
        return (
            _ended(recovery, f"{tries.sentence} So it is tried no more.")
            if tries.is_last(now=before.now)
            else recovery
        )
    return _next_attempt(recovery, policy, before, pause=_pause(cause, policy, before))


def recover_without_pods(cause: LostTask, policy: RecoveryPolicy, before: History) -> Recovery:
    """What follows where a gang lost its room before it had pods.

    Nothing of it has run, so its policy has no say; only attempts in vain are bounded.
    """
    return _next_attempt(Recovery(response=Response.REQUEUE, cause=cause), policy, before, pause=0.0)


def _ended(recovery: Recovery, refused: str) -> Recovery:
    return replace(recovery, response=Response.FAIL, refused=refused, alone=())


def _next_attempt(recovery: Recovery, policy: RecoveryPolicy, before: History, *, pause: float) -> Recovery:
    """The next attempt, after a longer pause and at last never where those before were in vain."""
    if not is_in_vain(recovery.cause.evidence, ran=before.ran):
        return replace(recovery, pause=pause)
    in_vain = replace(before.in_vain, number=before.in_vain.number + 1)
    if in_vain.is_last(now=before.now):
        return _ended(recovery, f"{in_vain.sentence} So it is tried no more.")
    pause = max(pause, policy.pause(Loss.FAILED, earlier=in_vain.number - 2))  # the first one has none
    return replace(recovery, pause=pause, in_vain=in_vain)


def _pause(cause: LostTask, policy: RecoveryPolicy, before: History) -> float:
    """Seconds before the next attempt, where the one before was not in vain."""
    if cause.action is not None or cause.loss != Loss.PREEMPTED:
        loss = Loss.FAILED if cause.action is not None else cause.loss
        return policy.pause(loss, earlier=before.counted + before.rescheduled)
    if cause.evidence == ROOM_BUSY:  # its scheduler may not know yet who uses the node
        return policy.pause(Loss.FAILED, earlier=before.preemptions)
    return policy.pause(Loss.PREEMPTED, earlier=before.preemptions)
