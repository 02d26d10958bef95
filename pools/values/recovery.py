"""What follows when a task group loses its place or fails: the recovery policy, frozen with each group.

Three kinds of loss are told apart, and a policy has a response to each: the whole group again (an attempt),
the lost task alone, or the group's end. A deletion that nothing explains counts as a preemption, and has a
response of its own where the policy says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

MOST_AVOIDED = 64
"""Nodes that an attempt can avoid."""

LONGEST_PAUSE = 86_400.0
"""Seconds for which a policy may put off an attempt: no timeout runs meanwhile, and its workflow lives on."""

PREEMPTIONS_WITHOUT_PAUSE = 10

MOST_ATTEMPTS = 1000
"""Of one group, whatever its policy says: each attempt is kept until its workflow is removed."""


class Loss(StrEnum):
    """Why a group lost a task."""

    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    FAILED = "failed"


class Response(StrEnum):
    """What follows a loss: the whole group again, the lost task alone, or the group's end."""

    REQUEUE = "requeue"
    TASK = "task"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPolicy:
    """How a group recovers; by default, nothing is recovered from."""

    preempted: Response = Response.FAIL

    unexplained: Response | None = None
    """The response to a deletion that nothing explains; None: that to a preemption."""

    node_lost: Response = Response.FAIL
    failed: Response | None = None
    """The response to a failure, of a task that its group ignores too; None: OSMO's rules decide."""

    most: int = 3
    """The most losses by failure and by node that are recovered from."""

    most_preemptions: int | None = None
    """Those by preemption; None: without a bound."""

    backoff_first: float = 30.0
    """Seconds before the attempt after a loss that is no preemption, doubled with each further one."""

    backoff_limit: float = 600.0
    """The longest such pause, in seconds."""

    replace_patience: float = 600.0
    """For how many seconds the replacement of one task of a lost node may wait for a place beside its peers.

    Then the group is requeued.
    """

    avoid_nodes: int = 0
    """How many nodes, on which the group lost a task last, the next attempt keeps off."""

    def response(self, loss: Loss) -> Response:
        """The response to a kind of loss that ends the group or is recovered from."""
        return Response(getattr(self, loss.value) or Response.FAIL)

    def pause(self, loss: Loss, *, earlier: int) -> float:
        """Seconds before the attempt after a loss, with so many earlier ones of its sort.

        Preemptions have a pause only after ``PREEMPTIONS_WITHOUT_PAUSE``, so that two groups which preempt
        each other, or somebody who deletes every pod, do not keep a cluster busy.
        """
        doublings = earlier - PREEMPTIONS_WITHOUT_PAUSE if loss == Loss.PREEMPTED else earlier
        if doublings < 0:
            return 0.0
        return min(self.backoff_first * 2.0 ** min(doublings, 20), self.backoff_limit)

    @property
    def summary(self) -> str:
        """The responses in a line: ``preempted: requeue, node lost: requeue, failed: fail, at most 3``."""
        words = {loss.value: self.response(loss) for loss in Loss}
        words |= {"unexplained": self.unexplained} if self.unexplained else {}
        responses = ", ".join(f"{word.replace('_', ' ')}: {response}" for word, response in words.items())
        bounded = any(self.response(loss) != Response.FAIL for loss in (Loss.NODE_LOST, Loss.FAILED))
        return f"{responses}, at most {self.most}" if bounded else responses

    @property
    def recovers(self) -> bool:
        """Whether any loss is recovered from."""
        responses = [*(self.response(loss) for loss in Loss), self.unexplained or Response.FAIL]
        return any(response != Response.FAIL for response in responses)

    def to_json(self) -> dict[str, Any]:
        """Values of JSON, without those that are the default; ``from_json`` is its inverse."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in values.items() if value != defaults[name]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "RecoveryPolicy":
        """The policy of frozen values; a word that only a later release knows is left out."""
        read = {field.name: value[field.name] for field in fields(cls) if field.name in value}
        for word in RESPONSES & read.keys():
            read[word] = Response(read[word])
        return cls(**read)


RESPONSES = frozenset({*(loss.value for loss in Loss), "unexplained"})
"""The fields of a policy that are responses."""
