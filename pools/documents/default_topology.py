"""The shape of the default topology of a pool or a platform: what task groups get that name no key."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from pools.documents.reading import Document, Line
from pools.models import Pool
from scheduling.topology.defaults import DefaultTopology
from scheduling.topology.levels import MAX_LEVELS
from scheduling.topology.requirements import Requirement, RequirementWord


class DefaultEntryDocument(Document):
    """A requirement, as in the topology of a task group."""

    key: Line = Field(description="One of the pool's topology keys.")
    group: Line = "default"
    requirementType: RequirementWord = "required"  # noqa: N815 -- OSMO's field
    waitSeconds: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(  # noqa: N815
        None, description="Seconds for which a preference is required first."
    )


class DefaultTopologyDocument(Document):
    """Either of its fields."""

    pack: bool = Field(False, description="Preferred at every key of the pool.")
    topology: Annotated[list[DefaultEntryDocument], Field(max_length=MAX_LEVELS)] = Field(
        [], description="As the topology of a task group."
    )


def value_of(document: DefaultTopologyDocument) -> DefaultTopology:
    """The default that a sound document describes."""
    requirements = (
        Requirement.written(
            entry.key, group=entry.group, word=entry.requirementType, wait_seconds=entry.waitSeconds
        )
        for entry in document.topology
    )
    return DefaultTopology(topology=tuple(requirements), pack=document.pack)


def default_content(document: DefaultTopologyDocument | None) -> dict[str, Any] | None:
    """What is stored and shown: the field that says something, and of its entries what they say."""
    if document is None:
        return None
    field = "pack" if document.pack else "topology"
    return document.model_dump(include={field}, exclude_none=True)


def default_of(stored: Mapping[str, Any] | None) -> DefaultTopology | None:
    """The default of a saved pool or platform."""
    return None if stored is None else value_of(DefaultTopologyDocument.model_validate(stored))


def defaults_of(pool: Pool) -> tuple[DefaultTopology, ...]:
    """The default of a saved pool and those of its platforms."""
    stored = (pool.default_topology, *(row.default_topology for row in pool.platforms.all()))
    return tuple(default for content in stored if (default := default_of(content)))
