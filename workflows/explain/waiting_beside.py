"""How many gangs of others wait for the scheduler of a group of ours: numbers alone, for everybody."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q

from scheduling.sentences import agree, count_of
from workflows.feasibility.others.read_gangs import others_of
from workflows.models import TaskGroup


@dataclass(frozen=True, slots=True)
class WaitingBeside:
    """Gangs of others that wait, and how many of them wait for longer than the group."""

    groups: int
    longer: int

    @property
    def sentence(self) -> str:
        """Empty where none waits."""
        if not self.groups:
            return ""
        text = f"{count_of(self.groups, 'group')} of others {agree(self.groups, 'waits', 'wait')} too"
        if self.groups == 1:
            return f"{text}, and for longer." if self.longer else f"{text}, but not for longer."
        return f"{text}, {self.longer or 'none'} of them for longer."

    def as_json(self) -> dict[str, Any]:
        return {"groups": self.groups, "longer": self.longer}


def waiting_beside(group: TaskGroup) -> WaitingBeside:
    """Those that the group's backend follows. One query where it does; the group has its backend."""
    longer = Count("pk", filter=Q(created_at__lt=group.waiting_since or group.submit_time))
    counts = others_of(group.backend).order_by().aggregate(groups=Count("pk"), longer=longer)
    return WaitingBeside(**counts)
