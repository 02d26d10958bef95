"""The shape of the default topology of a pool or a platform: what task groups get that name no key."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from pools.documents.reading import Document, Line
from pools.models import Pool
from scheduling.topology.defaults import DefaultTopology
from scheduling.topology.levels import MAX_LEVELS
from scheduling.topology.requirements import RequirementWord
from scheduling.topology.segments import LEAST_SEGMENT, listed


class DefaultEntryDocument(Document):
    """A requirement, as in the topology of a task group."""

    key: Line = Field(description="One of the pool's topology keys.")
    group: Line = "default"
    requirementType: RequirementWord = "required"  # noqa: N815 -- OSMO's field
    waitSeconds: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(  # noqa: N815
        None, description="Seconds for which a preference is required first."
    )


class DefaultSegmentDocument(Document):
    """A level of segments, as that of a task group."""

    size: Annotated[int, Field(ge=LEAST_SEGMENT, le=2**31 - 1)]
    key: Line = Field(description="One of the pool's topology keys.")
    requirementType: RequirementWord = "required"  # noqa: N815 -- OSMO's field
    waitSeconds: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(  # noqa: N815
        None, description="Seconds for which a preference is required first."
    )


class DefaultTopologyDocument(Document):
    """``pack``, or the others; on a platform an empty topology alone is none, whatever its pool has."""

    pack: bool = Field(False, description="Preferred at every key of the pool.")
    topology: Annotated[list[DefaultEntryDocument], Field(max_length=MAX_LEVELS)] | None = Field(
        None, description="As the topology of a task group."
    )
    segment: (
        Annotated[
            list[DefaultSegmentDocument],
            BeforeValidator(listed),
            Field(min_length=1, max_length=MAX_LEVELS),
        ]
        | None
    ) = Field(
        None, description="As that of a task group: it cuts the tasks of `count`. One level, or a list."
    )

    @property
    def is_none(self) -> bool:
        """Whether it says that nothing is to be added."""
        return self.topology == [] and not self.segment and not self.pack


def value_of(document: DefaultTopologyDocument) -> DefaultTopology:
    """The default that a sound document describes."""
    return DefaultTopology.from_json(document.model_dump())


def default_content(document: DefaultTopologyDocument | None) -> dict[str, Any] | None:
    """What is stored and shown: the fields that say something, and of their entries what they say."""
    if document is None or document.is_none:
        return None if document is None else {"topology": []}
    fields = {name for name in ("pack", "topology", "segment") if getattr(document, name)}
    return document.model_dump(include=fields, exclude_none=True)


def default_of(stored: Mapping[str, Any] | None) -> DefaultTopology | None:
    """The default of a saved pool or platform."""
    return None if stored is None else value_of(DefaultTopologyDocument.model_validate(stored))


def defaults_of(pool: Pool) -> tuple[DefaultTopology, ...]:
    """The default of a saved pool and those of its platforms."""
    stored = (pool.default_topology, *(row.default_topology for row in pool.platforms.all()))
    return tuple(default for content in stored if (default := default_of(content)))
