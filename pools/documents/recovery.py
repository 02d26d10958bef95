"""The shape of a pool's recovery: what happens to a task group that loses a task."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from pools.documents.reading import Document, Line
from pools.values.recovery import MOST_AVOIDED
from pools.values.recovery_words import POOL_DEFAULT, RecoveryWords, document_of, read_words

ResponseWord = Literal["requeue", "task", "fail"]

_DEFAULT = document_of(POOL_DEFAULT)


class BackoffDocument(Document):
    """The pause before an attempt that does not follow a preemption: the first, and the longest."""

    first: Line = _DEFAULT["backoff"]["first"]
    limit: Line = _DEFAULT["backoff"]["limit"]


class RecoveryDocument(Document):
    """What follows each kind of loss, and how often."""

    preempted: ResponseWord = _DEFAULT["preempted"].value
    node_lost: ResponseWord = _DEFAULT["node_lost"].value
    failed: ResponseWord = _DEFAULT["failed"].value
    unexplained: ResponseWord | None = _DEFAULT["unexplained"]
    max: Annotated[int, Field(ge=0, le=1000)] = _DEFAULT["max"]
    max_preemptions: Annotated[int, Field(ge=0, le=1_000_000)] | None = _DEFAULT["max_preemptions"]
    replace_patience: Line = _DEFAULT["replace_patience"]
    avoid_nodes: Annotated[int, Field(ge=0, le=MOST_AVOIDED)] = _DEFAULT["avoid_nodes"]
    backoff: BackoffDocument = BackoffDocument()


def words_of(stored: Mapping[str, Any]) -> RecoveryWords:
    """The words of a saved pool, its defaults included."""
    return read_words(RecoveryDocument.model_validate(stored).model_dump(), path=())[0]
