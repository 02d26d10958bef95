"""What servers use of the machine, from /proc: with everything that they started.

A server's family is found by parents, because PostgreSQL's backends lead sessions of their own.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from localcluster.supervisor import Supervisor

SERVICE = ("web", "worker", "beat", "observer")


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB; ``pss`` counts a page that several processes share once."""

    rss: int
    pss: int


def memory(supervisor: Supervisor) -> dict[str, Memory]:
    """The bytes that every server has in memory now."""
    return {name: _memory(family) for name, family in _families(supervisor).items()}


def most_memory(supervisor: Supervisor, name: str) -> Memory:
    """The bytes that the largest process of a server has in memory now."""
    return max((_memory([pid]) for pid in _families(supervisor)[name]), key=lambda memory: memory.rss)


def cpu_seconds(supervisor: Supervisor) -> dict[str, float]:
    """CPU time of every server so far, without processes that have ended unless they were waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    return {name: _ticks(family) / ticks for name, family in _families(supervisor).items()}


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds between two readings, for servers that spent any."""
    spent_by = {name: round(after[name] - before[name], 2) for name in before if name in after}
    return {name: seconds for name, seconds in spent_by.items() if seconds}


def _families(supervisor: Supervisor) -> dict[str, set[int]]:
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            parents[int(path.name)] = int(_stat(path)[1])
    return {child.command.name: _family(child.pid, parents) for child in supervisor.children}


def _family(leader: int, parents: Mapping[int, int]) -> set[int]:
    family, size = {leader}, 0
    while len(family) > size:
        size = len(family)
        family |= {pid for pid, parent in parents.items() if parent in family}
    return family


def _memory(family: Iterable[int]) -> Memory:
    sizes = []
    for pid in family:
        with suppress(FileNotFoundError, ProcessLookupError):
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            sizes.append((_kib(rollup, "Rss"), _kib(rollup, "Pss")))
    rss, pss = map(sum, zip(*sizes, strict=True)) if sizes else (0, 0)
    return Memory(rss // 1024, pss // 1024)


def _ticks(family: Iterable[int]) -> int:
    total = 0
    for pid in family:
        with suppress(FileNotFoundError, ProcessLookupError):
            total += sum(map(int, _stat(Path(f"/proc/{pid}"))[11:15]))  # own and waited for, user and system
    return total


def _stat(path: Path) -> list[str]:
    """The fields of proc(5) stat from the third on; the second, a name in brackets, may hold anything."""
    return (path / "stat").read_text().rpartition(")")[2].split()


def _kib(rollup: str, field: str) -> int:
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith(f"{field}:"))
