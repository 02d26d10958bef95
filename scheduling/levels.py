"""Topology levels of a pool: what users call them and which node label stands behind each.

A tuple of levels runs broadest first (zone before rack); a level's place in it is its rank, 0 the
broadest.
"""

from dataclasses import dataclass

CLIQUE_LABELS = frozenset({"nvidia.com/gpu.clique", "nvidia.com/gpu-clique"})
"""Node labels that name an NVLink clique; real nodes carry the first."""

HOSTNAME_LABEL = "kubernetes.io/hostname"
MAX_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Level:
    """One level: ``key`` is the user's word, ``label`` the node label that names its domains."""

    key: str
    label: str


Levels = tuple[Level, ...]
