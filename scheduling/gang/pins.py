"""Sets that are kept in one domain by node labels instead of by a constraint.

KAI passes over a domain that lacks room for as many of a set's largest task as the set has tasks, so below a
constraint it may miss a place that holds tasks of unlike sizes (observed on v0.13 and v0.17). Pinned to that
domain, the set needs no constraint: each of its pods asks for nodes with the domain's labels, and KAI counts
nothing (observed too). A pin holds for pods that are made again as well.

The labels are those of all levels down to the required one, since a domain is a path. A narrower preference
of a pinned set has no effect. ``fit.pin_choice`` decides which domain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduling import names
from scheduling.gang.tree import ConstraintNode, ConstraintTree
from scheduling.sentences import plain_listing
from scheduling.topology.requirements import SetPath, describe, path_in


@dataclass(frozen=True, slots=True)
class Pin:
    """A set and its domain: label values from the broadest level to the one that it requires."""

    path: SetPath
    domain: tuple[str, ...]


Pins = tuple[Pin, ...]


def pinned(tree: ConstraintTree, pins: Pins) -> ConstraintTree:
    """The tree with these sets pinned. Raises ValueError for pins of another gang."""
    if not pins:
        return tree
    domains = {pin.path: pin.domain for pin in pins}
    if unknown := domains.keys() - {node.path for node in tree.root.walk()}:
        raise ValueError(f'"{tree.gang.name}" has no set {describe(min(unknown))} to be pinned.')
    return replace(tree, root=_pinned(tree.root, domains))


def _pinned(node: ConstraintNode, domains: Mapping[SetPath, tuple[str, ...]]) -> ConstraintNode:
    sets = tuple(_pinned(sub, domains) for sub in node.sets)
    return replace(node, domain=domains.get(node.path, ()), sets=sets)


def node_labels(tree: ConstraintTree) -> dict[str, dict[str, str]]:
    """The labels that pins ask of each task's node, by the task's name; tasks without any are left out."""
    by_task: dict[str, dict[str, str]] = {}
    for node in tree.root.walk():  # broader sets first
        if node.domain:
            labels = {level.label: value for level, value in zip(tree.levels, node.domain, strict=False)}
            for task in node.all_tasks():
                by_task[task.name] = by_task.get(task.name, {}) | labels
    return by_task


def digest_of(pins: Pins) -> str:
    """A mark of pins, for annotations; empty for none."""
    return names.digest(to_json(pins), length=16) if pins else ""


def to_json(pins: Pins) -> list[dict[str, Any]]:
    """Values of JSON alone; ``from_json`` is its inverse."""
    return [
        {"set": [{"key": key, "group": group} for key, group in pin.path], "domain": list(pin.domain)}
        for pin in pins
    ]


def from_json(value: Sequence[Mapping[str, Any]]) -> Pins:
    return tuple(Pin(path_in(entry["set"]), tuple(entry["domain"])) for entry in value)


def sentence(pins: Pins) -> str:
    """The pins in words: ``rack "r" in a/r1``."""
    return plain_listing(f"{describe(pin.path)} in {'/'.join(pin.domain)}" for pin in pins)
