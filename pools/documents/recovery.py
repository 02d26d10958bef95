"""The shape of a pool's recovery: what happens to a task group that loses a task."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from pools.documents.reading import Document, Line
from pools.values.recovery import MOST_ATTEMPTS, MOST_AVOIDED
from pools.values.recovery_words import POOL_DEFAULT, RecoveryWords, document_of, read_words

ResponseWord = Literal["requeue", "task", "fail"]

_DEFAULT = document_of(POOL_DEFAULT)


class BackoffDocument(Document):
    """The pause before an attempt that does not follow a preemption: the first, and the longest."""

    first: Line = Field(
        _DEFAULT["backoff"]["first"],
        description="The first pause, such as 30s; doubled with each further one.",
    )
    limit: Line = Field(_DEFAULT["backoff"]["limit"], description="The longest.")


class RecoveryDocument(Document):
    """What follows each kind of loss, and how often."""

    preempted: ResponseWord = _DEFAULT["preempted"].value
    node_lost: ResponseWord = _DEFAULT["node_lost"].value
    failed: ResponseWord | None = Field(
        _DEFAULT["failed"],
        description="After any failure; null: as OSMO, which ends a group by those that it does not ignore.",
    )
    unexplained: ResponseWord | None = Field(
        _DEFAULT["unexplained"], description="After a deletion that nothing explains; null: as preempted."
    )
    max: Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)] = Field(
        _DEFAULT["max"], description="Losses by failure or node that are recovered from."
    )
    max_preemptions: Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)] | None = Field(
        _DEFAULT["max_preemptions"],
        description=f"Preemptions that are recovered from; null: up to {MOST_ATTEMPTS} attempts.",
    )
    replace_patience: Line = Field(
        _DEFAULT["replace_patience"], description="How long one task may wait for a place beside its peers."
    )
    avoid_nodes: Annotated[int, Field(ge=0, le=MOST_AVOIDED)] = Field(
        _DEFAULT["avoid_nodes"],
        description="Nodes, on which the group lost a task last, that the next attempt avoids.",
    )
    backoff: BackoffDocument = BackoffDocument()


def words_of(stored: Mapping[str, Any]) -> RecoveryWords:
    """The words of a saved pool, its defaults included."""
    return read_words(RecoveryDocument.model_validate(stored).model_dump(), path=())[0]
