"""What a backend's scheduler can hold: its row, read against the table of its scheduler backend.

A cluster that was never probed or reached counts as the oldest supported version, so nothing is promised that
its scheduler might not keep.
"""

from dataclasses import dataclass

from pools.models import Backend
from scheduling.backends.registry import installed
from scheduling.capabilities import MEANING, Capabilities, Capability, SchedulerVersion


def capabilities_of(backend: Backend) -> Capabilities:
    return capabilities_at(backend.scheduler_type, backend.scheduler_version)


def capabilities_at(scheduler_type: str, version: str) -> Capabilities:
    """The capabilities of a scheduler; ``version`` empty: not known."""
    scheduler = installed().get(scheduler_type)
    if scheduler is None:  # its package was taken away: it can hold nothing
        return Capabilities(scheduler_type, frozenset(), 0)
    return scheduler.capabilities(SchedulerVersion.parse_known(version))


@dataclass(frozen=True, slots=True)
class BackendCapability:
    """One capability of a backend. ``needs`` is the scheduler version that has it; None: no version."""

    capability: str
    is_supported: bool
    needs: str | None
    meaning: str


def table_of(backend: Backend) -> tuple[BackendCapability, ...]:
    """Every capability, for REST and the admin page: the table that refusals read."""
    scheduler = installed().get(backend.scheduler_type)
    needs = scheduler.needs if scheduler else {}
    capabilities = capabilities_of(backend)
    return tuple(
        BackendCapability(
            str(capability),
            capability in capabilities,
            str(needs[capability]) if capability in needs else None,
            MEANING[capability],
        )
        for capability in Capability
    )
