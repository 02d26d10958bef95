"""What each step of the service may cost: counts that no machine changes, held by the tests of each shell.

``sql`` counts statements, savepoints included; ``calls`` requests to the cluster, one for each object;
``messages`` to workers; ``kib`` the bytes of a page. A step may cost less, and most cost one or two
statements less; lives have more room, since a slow machine reconciles more often. A commit that raises a
number says why; a commit that makes a step clearly cheaper lowers it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Counts of one step; None: not counted there."""

    sql: int | None = None
    calls: int | None = None
    messages: int | None = None
    kib: int | None = None

    def over(self, most: "Cost") -> dict[str, tuple[int, int]]:
        """What was spent beyond ``most``, with what may be."""
        pairs = {f.name: (getattr(self, f.name), getattr(most, f.name)) for f in fields(self)}
        return {
            name: (spent, limit)
            for name, (spent, limit) in pairs.items()
            if spent is not None and limit is not None and spent > limit
        }


STEPS: Mapping[str, Cost] = {
    "submission of 4 tasks": Cost(sql=24, messages=1),
    "submission of 512 tasks": Cost(sql=24, messages=1),
    "observer writes the end of 1 pod": Cost(sql=7, calls=0, messages=1),
    "observer writes the end of 50 pods": Cost(sql=7, calls=0, messages=1),
    "reconcile of 1 end in a gang of 10": Cost(sql=18, calls=0, messages=0),
    "reconcile of 1 end in a gang of 1,000": Cost(sql=18, calls=0, messages=0),
    "reconcile of 50 ends in a gang of 1,000": Cost(sql=18, calls=0, messages=0),
    "reconcile of a gang of 1,000 in which nothing changed": Cost(sql=9, calls=0, messages=0),
    "life of a group of 1 task": Cost(sql=100, calls=13, messages=3),
    "life of a group of 8 tasks with NVLink": Cost(sql=118, calls=50, messages=4),
    "page of a workflow of 4 tasks": Cost(sql=13, kib=12),
    "page of a workflow of 512 tasks": Cost(sql=13, kib=130),
}


def check(step: str, spent: Cost, detail: str = "") -> None:
    """Fail if a step costs more than its row says; ``OSMO_STEP_COSTS`` names a file for what it costs now."""
    if path := os.environ.get("OSMO_STEP_COSTS"):
        with Path(path).open("a") as report:
            report.write(f"{step}: {spent}\n{detail}\n")
    over = spent.over(STEPS[step])
    assert not over, f"{step}: {over} (spent, may be spent)\n{detail}"
