"""Topology levels of a pool: the users' names and the node labels behind them.

A tuple of levels runs broadest first (zone before rack); a level's index is its rank, 0 the broadest. A
pool's list, cut at each level, becomes KAI's Topology objects, whose schema refuses duplicates, more than 16
levels and a hostname anywhere but last (KAI v0.13 and v0.17, ``topology_types.go``). The checks here refuse
at configuration whatever the API server would refuse later, and keys that would be ambiguous for users.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduling.errors import Fault, Notice, Path, in_order
from scheduling.kubernetes_syntax import is_label_key

CLIQUE_LABELS = frozenset({"nvidia.com/gpu.clique", "nvidia.com/gpu-clique"})
"""Node labels that name an NVLink clique; real nodes carry the first."""

CLIQUE_LABEL = "nvidia.com/gpu.clique"
"""The label GPU feature discovery sets; the one to offer."""

NO_CLIQUE = (
    "",
    "00000000-0000-0000-0000-000000000000",
    "00000000-0000-0000-0000-000000000000.0",
    "N/A",
    "NA",
    "None",
    "none",
    "unknown",
)
"""Values of a clique label that mean none; GPU feature discovery writes zeros for NVLink within a node."""

HOSTNAME_LABEL = "kubernetes.io/hostname"
MAX_LEVELS = 16
MAX_KEY = 63
MAX_LABEL = 316

KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Level:
    """One level: ``key`` is the user's word, ``label`` the node label that names its domains."""

    key: str
    label: str


Levels = tuple[Level, ...]

DomainPath = tuple[str | None, ...]
"""A node's place: one label value per level, broadest first; None where the node lacks the label."""


def check_levels(levels: Sequence[Level], *, path: Path) -> list[Fault]:
    """Find every fault in a pool's ordered list; ``path`` is the list's place in the document."""
    faults: list[Fault] = []
    if len(levels) > MAX_LEVELS:
        faults.append(
            Fault(path, "too_many_levels", f"A pool has at most {MAX_LEVELS} keys, not {len(levels)}.")
        )
    keys: dict[str, int] = {}
    labels: dict[str, int] = {}
    for i, level in enumerate(levels):
        faults += _check_key(level.key, first=keys.setdefault(level.key, i), at=i, path=path)
        faults += _check_label(level.label, first=labels.setdefault(level.label, i), at=i, path=path)
        if level.label == HOSTNAME_LABEL and i != len(levels) - 1:
            message = f"{HOSTNAME_LABEL} names single nodes, so nothing can be narrower: move it to the end."
            faults.append(Fault((*path, i, "label"), "hostname_not_last", message))
    return in_order(faults)


def _check_key(key: str, *, first: int, at: int, path: Path) -> Iterator[Fault]:
    where = (*path, at, "key")
    if not KEY.fullmatch(key):
        message = (
            f"{key[:MAX_KEY]!r} is no key: 1 to {MAX_KEY} letters, digits, '_', '.', '/' and '-', "
            "beginning and ending with a letter or digit."
        )
        yield Fault(where, "invalid_key", message, allowed=(KEY.pattern,))
    if first != at:
        yield Fault(where, "duplicate_key", f"Key {key!r} is already that of level {first}.")


def _check_label(label: str, *, first: int, at: int, path: Path) -> Iterator[Fault]:
    where = (*path, at, "label")
    if not is_label_key(label):
        message = (
            f"{label[:MAX_LABEL]!r} is no Kubernetes label key: an optional lower-case DNS name and '/', "
            "then 1 to 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit."
        )
        yield Fault(
            where, "invalid_label", message, allowed=("topology.kubernetes.io/zone", "example.com/rack")
        )
    if first != at:
        yield Fault(where, "duplicate_label", f"Label {label!r} is already that of level {first}.")


def ranks(levels: Sequence[Level]) -> dict[str, int]:
    """Each key's rank, 0 the broadest."""
    return {level.key: rank for rank, level in enumerate(levels)}


def clique_rank(levels: Sequence[Level]) -> int | None:
    """The rank of the level that names an NVLink clique, if the pool has one."""
    return next((rank for rank, level in enumerate(levels) if is_clique(level)), None)


def look_alike(label: str, node_labels: Collection[str]) -> str | None:
    """A label on nodes that differs from an absent one only in letter case or ``.``, ``-``, ``_``."""
    if label in node_labels:
        return None
    shape = _shape(label)
    return min((other for other in node_labels if _shape(other) == shape), default=None)


def _shape(label: str) -> str:
    prefix, slash, name = label.rpartition("/")
    return prefix.lower() + slash + re.sub(r"[-_.]", "", name).lower()


def check_look_alikes(levels: Sequence[Level], node_labels: Collection[str], *, path: Path) -> list[Notice]:
    """Warn of labels that no node carries while a look-alike exists (``gpu-clique``, ``gpu.clique``)."""
    return [
        Notice(
            "label_look_alike",
            f"No node carries {level.label}, but nodes carry {other}: is that the label meant by key "
            f'"{level.key}"?',
            (*path, i, "label"),
        )
        for i, level in enumerate(levels)
        if (other := look_alike(level.label, node_labels))
    ]


def domain_of(labels: Mapping[str, str], levels: Sequence[Level]) -> DomainPath:
    """The place of a node with these labels; a clique label's values that mean none are alike, empty."""
    return tuple(
        "" if value in NO_CLIQUE and is_clique(level) else value
        for level in levels
        for value in (labels.get(level.label),)
    )


def is_clique(level: Level) -> bool:
    return level.label in CLIQUE_LABELS


def has_domain(value: str | None, level: Level) -> bool:
    """Whether a node with this value in its place is in a domain of the level.

    A node of no NVLink clique is in none, and carries the label nevertheless: that hides it from nobody.
    """
    return value is not None and not (value == "" and is_clique(level))


def domains_of(labels: Mapping[str, str], levels: Sequence[Level]) -> DomainPath:
    """The same place with None for each level at which the node is in no domain."""
    place = domain_of(labels, levels)
    return tuple(
        value if has_domain(value, level) else None for value, level in zip(place, levels, strict=True)
    )
