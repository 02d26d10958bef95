"""A gang of others while a facet reads it: what is not examined, what keeps it waiting, at last its demand.

Whatever cannot be read is noted and left out, so a demand asks for no more than the gang does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scheduling.fit.demand import Demand
from scheduling.fit.gang_demand import GangDemand
from scheduling.foreign import written
from scheduling.foreign.gang import (
    ForeignGang,
    GangKept,
    NotRead,
    PodKept,
    PodsKept,
    SharedDomain,
    UnreadPart,
)
from scheduling.foreign.part_tree import MOST_DEPTH, MOST_TASKS, Part, tree_of
from scheduling.sentences import agree, count_of, plain_listing
from scheduling.topology.levels import Levels

MOST_NOTES = 20
"""Sentences of each kind that are kept."""


@dataclass(slots=True)
class GangReading:
    """A gang while it is read."""

    gang: GangKept

    words: str
    """The kind and the name of its object."""

    part_word: str
    """What its parts are called."""

    unread: list[UnreadPart] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    shared_domains: list[SharedDomain] = field(default_factory=list)
    owner: tuple[str, str] = ("", "")
    queue: str = ""
    priority: str = ""
    rank: int | None = None
    report: str = ""
    is_partial: bool = False
    """Whether the demand is not known, because pods are missing or too many."""

    def read(self, read: Callable[[Mapping[str, Any]], ForeignGang]) -> ForeignGang:
        """Read the gang by its object; one that is no object as it was kept is malformed."""
        obj = self.gang.obj
        if self.gang.problem:
            self.note(NotRead.MALFORMED, self.gang.problem)
        elif obj is None:
            self.note(NotRead.MISSING, f"{self.words} does not exist, although pods name it.")
        else:
            try:
                if not any(written.TOO_LARGE in entry for entry in (obj, *self.gang.above) if entry):
                    return read(obj)
                self.head(obj)
                message = f"{self.words}, or what stands above it, is too large to be read."
                self.note(NotRead.TOO_LARGE, message)
            except written.UnreadableRow as error:
                self.note(NotRead.MALFORMED, f"What was stored of {self.words} cannot be read: {error}")
        return self.undemanded()

    def note(self, code: NotRead, message: str) -> None:
        """Say that something is not examined."""
        if len(self.unread) < MOST_NOTES:
            self.unread.append(UnreadPart(code, message))

    def blame(self, message: str) -> None:
        """Say what keeps the gang waiting for ever."""
        if len(self.faults) < MOST_NOTES and message not in self.faults:
            self.faults.append(message)

    def head(self, obj: Mapping[str, Any]) -> None:
        """Read what every kind of object has: its owner, its problems and the scheduler's own words."""
        kind, name = (*written.strict_texts(obj.get("owner", [])), "", "")[:2]
        self.owner = (kind, name)
        self.queue = written.strict(obj.get("queue", ""), str)
        self.priority = written.strict(obj.get("priority", ""), str)
        self.report = written.sentence(written.strict(obj.get("report", ""), str))
        for problem in written.strict_texts(obj.get("problems", [])):
            self.note(NotRead.MALFORMED, problem)

    def pods(self, pods: Sequence[PodsKept]) -> None:
        """Note what is not examined of pods, and take from them what the object does not say.

        The number of the object's priority is that of pods of the same class.
        """
        ranks = {entry.pod.priority for entry in pods if entry.pod.priority_class == self.priority != ""}
        self.rank = ranks.pop() if len(ranks) == 1 else None
        for entry in pods:
            self.owner = self.owner if any(self.owner) else entry.pod.owner
            self.priority = self.priority or entry.pod.priority_class
            self.report = self.report or written.sentence(entry.pod.report)
        conditions = sorted({condition for entry in pods for condition in entry.pod.unread})
        if conditions:
            named = written.sentence(plain_listing(conditions, limit=8))
            message = f"What its pods ask beside room is not examined: {named}."
            self.note(NotRead.POD_CONDITIONS, message)
        if gated := sum(entry.count for entry in pods if entry.pod.gates):
            wait = agree(gated, "waits", "wait")
            message = f"{count_of(gated, 'pod')} {wait} until somebody removes their scheduling gates."
            self.note(NotRead.GATES, message)

    def chosen(
        self, pods: Sequence[PodsKept], minimum: int, *, words: str, omitted: int
    ) -> list[tuple[PodKept, int]]:
        """As many of a part's waiting pods as its minimum; fewer, with a note, where there are fewer."""
        waiting = sum(entry.count for entry in pods)
        if waiting < minimum:
            self.is_partial = True
            if omitted:
                self.note(NotRead.TOO_LARGE, f"More pods of {words} wait than are read.")
            else:
                message = (
                    f"{words} needs {count_of(minimum, 'pod')}, of which {waiting:,} "
                    f"{agree(waiting, 'waits', 'wait')}; the others are placed, or not made yet."
                )
                self.note(NotRead.PODS, message[0].upper() + message[1:])
        elif waiting > minimum and len(pods) > 1:
            message = (
                f"Which {minimum} of the {waiting} unlike pods of {words} are placed first is not known."
            )
            self.note(NotRead.PODS, message)
        chosen = []
        for entry in pods:
            chosen.append((entry.pod, min(entry.count, minimum)))
            minimum -= chosen[-1][1]
        return [(pod, count) for pod, count in chosen if count]

    def demanded(
        self,
        root: Part,
        levels: Levels,
        *,
        minimum: int,
        counts_largest: bool = False,
        is_best_fit: bool = False,
        cut: int | None = None,
        demand_of: Callable[[PodKept], Demand] = PodKept.demand,
    ) -> ForeignGang:
        """The gang with the demand of its parts, if that is known."""
        if not root.size and not self.is_partial:
            self.note(NotRead.PODS, f"No pod that {self.words} has to have is waiting.")
        elif root.size > MOST_TASKS or root.depth() > MOST_DEPTH:
            most = f"{MOST_TASKS:,} pods, or {MOST_DEPTH} {self.part_word}s inside each other"
            self.note(NotRead.TOO_LARGE, f"{self.words} has more than {most}.")
            self.is_partial = True
        gang = self.undemanded(minimum=minimum)
        if self.is_partial or not root.size:
            return gang
        tree, demands = tree_of(self.gang.name, root, levels, word=self.part_word, demand_of=demand_of)
        demand = GangDemand(tree, demands, counts_largest, cut=cut, is_best_fit=is_best_fit)
        size, gpus = tree.root.size, tree.root.gpus
        return replace(gang, tasks=size, gpus=gpus, levels=levels, demand=demand)

    def next_pod(self, pods: Sequence[PodsKept], *, counts_largest: bool = False) -> ForeignGang:
        """The gang with the demand of one pod: others of it are placed, or none has to be with others."""
        self.is_partial = False
        if pods:
            message = f"Pods of {self.words} are placed one by one beside others; one of them is examined."
            self.note(NotRead.PODS, message)
        part = Part("", pods=[(entry.pod, 1) for entry in pods[:1] if entry.count])
        return self.demanded(part, (), minimum=0, counts_largest=counts_largest)

    def undemanded(self, *, minimum: int = 0) -> ForeignGang:
        """The gang without a demand."""
        return ForeignGang(
            namespace=self.gang.namespace,
            name=self.gang.name,
            owner=self.owner,
            queue=self.queue,
            priority=self.priority,
            rank=self.rank,
            minimum=minimum,
            unread=tuple(self.unread),
            faults=tuple(self.faults),
            shared_domains=tuple(self.shared_domains),
            report=self.report,
        )
