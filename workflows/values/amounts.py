"""Amounts that tasks request and nodes have: GPUs, cores, bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from cluster.quantities import quantity
from scheduling.fit import snapshot as fit
from scheduling.kubernetes_syntax import GPU

STORAGE = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class Amounts:
    """``cpu`` counts cores, which may be parts; memory and storage bytes."""

    gpu: int = 0
    cpu: Decimal = Decimal(0)
    memory: int = 0
    storage: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(
            self.gpu + other.gpu,
            self.cpu + other.cpu,
            self.memory + other.memory,
            self.storage + other.storage,
        )

    def times(self, number: int) -> "Amounts":
        return Amounts(self.gpu * number, self.cpu * number, self.memory * number, self.storage * number)

    def without(self, used: "Amounts") -> "Amounts":
        """The difference, never below zero."""
        return Amounts(
            max(0, self.gpu - used.gpu),
            max(Decimal(0), self.cpu - used.cpu),
            max(0, self.memory - used.memory),
            max(0, self.storage - used.storage),
        )


NO_AMOUNTS = Amounts()


def allocatable(written: Mapping[str, object]) -> Amounts:
    """A node's allocatable amounts; they are text where a real API server wrote them."""
    return Amounts(
        gpu=int(_number(str(written.get(GPU, "0")))),
        cpu=_number(str(written.get("cpu", "0"))),
        memory=int(_number(str(written.get("memory", "0")))),
        storage=int(_number(str(written.get(STORAGE, "0")))),
    )


def whole_amounts(written: Mapping[str, object]) -> dict[str, int]:
    """Amounts of any resources, by their names."""
    return {name: int(_number(str(amount))) for name, amount in written.items()}


def requested(gpu: int | None, cpu: int | None, memory: str | None, storage: str | None) -> Amounts:
    """The amounts that a task requests, from its frozen spec; an amount that it leaves out is zero."""
    return Amounts(
        gpu=gpu or 0,
        cpu=Decimal(cpu or 0),
        memory=int(_number(memory or "0")),
        storage=int(_number(storage or "0")),
    )


def fit_amounts(of: Amounts, *, pods: int, channels: int) -> fit.ResourceVector:
    """The amounts as verdicts count them."""
    return fit.amounts(
        gpu=of.gpu,
        cpu=int(of.cpu * 1000),
        memory=of.memory,
        storage=of.storage,
        pods=pods,
        channels=channels,
    )


def is_zero(amount: object) -> bool:
    return not _number(str(amount))


@lru_cache(maxsize=4096)
def _number(text: str) -> Decimal:
    """Read a quantity; a malformed one from a cluster counts as zero, since no request may fail for it."""
    try:
        return quantity(text)
    except ValueError:
        return Decimal(0)
