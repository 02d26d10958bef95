"""Many verdicts on nodes before and after an edit, as a job for a process of its own.

A verdict may take seconds where a gang barely misses, so the time in which new ones are begun is bounded, and
the process that judges is bounded besides. All that is sent to it and comes back is plain values.
"""

import pickle
import time
from dataclasses import dataclass, replace
from enum import IntEnum

from scheduling.fit.gang_demand import GangDemand
from scheduling.fit.snapshot import FitNode, Snapshot
from scheduling.fit.verdict import Verdict, judge
from scheduling.topology.levels import Levels


class EditSide(IntEnum):
    """Whether a question is about the nodes before or after an edit."""

    BEFORE = 0
    AFTER = 1


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a gang would be placed; ``paths`` says that the scheduler's domains are paths of labels.

    ``is_complete``: the nodes of its side are all nodes of the cluster.
    """

    side: EditSide
    levels: Levels
    paths: bool
    gang: GangDemand
    is_complete: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Questions by group; a group's are answered together, the first group first.

    ``seconds`` is the time in which groups are begun. ``nodes`` are those of each side.
    """

    nodes: tuple[tuple[FitNode, ...], tuple[FitNode, ...]]
    groups: tuple[tuple[Question, ...], ...]
    seconds: float

    def answers(self) -> list[tuple[Verdict, ...]]:
        """The verdicts of as many groups as time allows, without the places of their tasks."""
        until = time.monotonic() + self.seconds
        snapshots: dict[_Index, Snapshot] = {}
        answers: list[tuple[Verdict, ...]] = []
        for group in self.groups:
            if time.monotonic() > until:
                break
            answers.append(tuple(self._answer(question, snapshots) for question in group))
        return answers

    def _answer(self, question: Question, snapshots: "dict[_Index, Snapshot]") -> Verdict:
        index = (question.side, question.levels, question.paths)
        if index not in snapshots:
            nodes = self.nodes[question.side]
            snapshots[index] = Snapshot.of(
                nodes, question.levels, paths=question.paths, is_complete=question.is_complete
            )
        return replace(judge(snapshots[index], question.gang), places={})


_Index = tuple[EditSide, Levels, bool]


def answer_job(payload: bytes) -> bytes:
    """The pickled answers to pickled questions."""
    questions: Questions = pickle.loads(payload)  # noqa: S301 -- made by the service itself
    return pickle.dumps(questions.answers())
