"""What a backend's scheduler can hold: its row, read against the table of its scheduler backend.

A cluster that was never probed or reached counts as the oldest supported version, so nothing is promised that
its scheduler might not keep.
"""

from dataclasses import dataclass, replace

from pools.documents.backend import queues_of, version_of
from pools.models import Backend
from scheduling.backends.registry import installed
from scheduling.capabilities import MEANING, Capabilities, Capability, SchedulerVersion


def capabilities_of(backend: Backend) -> Capabilities:
    own_queues = queues_of(backend).own
    return capabilities_at(backend.scheduler_type, version_of(backend), own_queues=own_queues)


def capabilities_at(scheduler_type: str, version: str, *, own_queues: bool = False) -> Capabilities:
    """The capabilities of a scheduler; ``version`` empty: not known.

    ``own_queues``: with those that it has in queues of the service's own alone, which no gang needs.
    """
    scheduler = installed().get(scheduler_type)
    if scheduler is None:  # its package was taken away: it can hold nothing
        return Capabilities(scheduler_type, frozenset(), 0)
    capabilities = scheduler.rendering.capabilities(SchedulerVersion.parse_known(version))
    if own_queues:
        return replace(capabilities, held=capabilities.held | owned_capabilities(scheduler_type))
    return capabilities


def owned_capabilities(scheduler_type: str) -> frozenset[Capability]:
    """The capabilities that a scheduler has in queues of the service's own alone."""
    scheduler = installed().get(scheduler_type)
    queues = scheduler.joined_queues if scheduler else None
    return queues.owned_capabilities if queues else frozenset()


def counts_by_flavor(scheduler_type: str, *, backend: Backend) -> bool:
    """Whether queues that this scheduler's gangs join on a backend count use in each flavor by itself."""
    scheduler = installed().get(scheduler_type)
    queues = scheduler.joined_queues if scheduler else None
    version = SchedulerVersion.parse_known(version_of(backend))
    return queues is not None and queues.counts_by_flavor(version)


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
    needs = scheduler.rendering.needs if scheduler else {}
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
