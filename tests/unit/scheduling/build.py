"""Short ways to write gangs, levels and requests in tests.

``gang("a b: zone! z, rack? r1", "c")`` is three tasks: ``a`` and ``b`` require one zone called ``z`` and
prefer one rack called ``r1``; ``c`` asks for nothing. ``*8`` behind the names gives each task 8 GPUs;
``rack? r1 ~60`` holds the preference as required for 60 seconds, and ``rack@ r1`` is auto.
``topology="zone! z"`` is the task group's own, which ``"c: -"`` leaves.
"""

from dataclasses import replace
from uuid import UUID

from scheduling.backends.base import GangRequest
from scheduling.capabilities import SchedulerVersion
from scheduling.gang.nvlink import NvlinkTask
from scheduling.terms import SchedulingTerms
from scheduling.topology.levels import Level, Levels
from scheduling.topology.requirements import Gang, GangTask, Requirement
from tests.builders.terms import changed

GROUP = UUID("11111111-2222-3333-4444-555555555555")
INSTALLATION = UUID("99999999-8888-7777-6666-555555555555")


def levels(keys: str) -> Levels:
    return tuple(Level(key, f"topology/{key}") for key in keys.split())


def gang(*lines: str, name: str = "g", topology: str = "") -> Gang:
    tasks = tuple(task for line in lines for task in _tasks(line))
    return Gang(name, tasks, ("groups", 0), _requirements(topology))


def _tasks(line: str):
    names, _, asked = line.partition(":")
    names, _, gpus = names.partition("*")
    leaves = asked.strip() == "-"
    requirements = () if leaves else _requirements(asked)
    for name in names.split():
        yield GangTask(name, int(gpus or 0), requirements, ("tasks", name), inherits=not leaves)


def _requirements(text: str) -> tuple[Requirement, ...]:
    return tuple(_requirement(word.strip()) for word in text.split(",") if word.strip())


def _requirement(text: str) -> Requirement:
    text, _, seconds = text.partition(" ~")
    key, _, group = text.partition(" ")
    return Requirement(
        key.rstrip("!?@"),
        group or "default",
        required=not key.endswith("?"),
        wait_seconds=float(seconds) if seconds else None,
        auto=key.endswith("@"),
    )


def request(gang: Gang, levels: Levels, *, version: SchedulerVersion | None = None, **changes) -> GangRequest:
    terms = SchedulingTerms(
        installation=INSTALLATION,
        pool="p",
        pool_revision=1,
        backend="b",
        namespace="osmo",
        scheduler_type="kai",
        scheduler_name="kai-scheduler",
        scheduler_version=str(version or ""),
        queue="osmo-pool-osmo-p",
        levels=levels,
    )
    return changed(GangRequest(group=GROUP, gang=gang, terms=terms, priority_class="osmo-normal"), **changes)


def shaped(gang, **shapes):
    """The gang with the shapes of these tasks."""
    return replace(gang, tasks=tuple(replace(task, shape=shapes.get(task.name, "")) for task in gang.tasks))


HARDWARE = {"gb200": True, "h100": False}


def nvlink_tasks(phrase):
    tasks = []
    for word in phrase.split():
        name, _, rest = word.partition(":")
        gpus, _, rest = rest.partition("@")
        platform, _, own = rest.partition("=")
        tasks.append(
            NvlinkTask(
                name=name,
                gpus=int(gpus),
                word={"": None, "true": True, "false": False}[own],
                platform=platform,
                platform_has_nvlink=HARDWARE[platform],
                path=("workflow", "groups", 0, "tasks", len(tasks)),
            )
        )
    return tasks
