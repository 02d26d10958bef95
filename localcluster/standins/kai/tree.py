"""The tree of sub-groups of one pod group, built as KAI builds it, mistakes included.

A sub-group with children is an inner group and its ``minMember`` is ignored; one without is a leaf, and
pods live in leaves. The names of parents are lower-cased before they are looked up, those of sub-groups
are not, so a parent ``ZoneA`` is never found. When the list cannot be parsed (unknown parent, a name
twice) KAI falls back to one leaf called ``default`` without constraint and with a minimum of one; every
labelled pod is then dropped. A pod without label belongs to ``default`` ("Pods outside the tree").

Source: KAI v0.13 ``subgroup_info/factory.go``. From v0.15 on a leaf without ``minMember`` is optional.
"""

from dataclasses import dataclass

from localcluster.standins.kai.values import Constraint, PodGroup, SubGroup, Version
from localcluster.standins.kai.versions import VERSIONS

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    min_member: int
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    constraint: Constraint | None
    children: tuple["Inner | Leaf", ...]

    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves below, in the order they are placed."""
        leaves: list[Leaf] = []
        for child in self.children:
            leaves.extend(child.leaves() if isinstance(child, Inner) else (child,))
        return tuple(leaves)


class _BadTreeError(ValueError):
    """KAI logs this and carries on with the fall-back tree."""


def tree_of(group: PodGroup, *, version: Version) -> Inner:
    """Build the tree, with children in the order in which this version places them."""
    try:
        root = _parse(group, version=version)
    except _BadTreeError:
        return Inner("", None, (Leaf(DEFAULT, 1),))
    if root.leaves():
        return root
    least = 1 if group.min_member is None else group.min_member
    if not VERSIONS[version].optional_leaves:
        least = max(least, 1)
    return Inner("", root.constraint, (Leaf(DEFAULT, least),))


def _parse(group: PodGroup, *, version: Version) -> Inner:
    by_name: dict[str, SubGroup] = {}
    children: dict[str, list[str]] = {}
    for sub in group.subgroups:
        if sub.name in by_name:
            raise _BadTreeError(f"sub-group {sub.name} twice")
        by_name[sub.name] = sub
        children.setdefault(_parent(sub), []).append(sub.name)
    for sub in group.subgroups:
        parent = _parent(sub)
        if parent and parent not in by_name:
            raise _BadTreeError(f"parent {parent} of {sub.name} not found")
    return Inner("", group.constraint, _children("", by_name=by_name, children=children, version=version))


def _parent(sub: SubGroup) -> str:
    return (sub.parent or "").lower()


def _children(
    name: str, *, by_name: dict[str, SubGroup], children: dict[str, list[str]], version: Version
) -> tuple[Inner | Leaf, ...]:
    """Build what stands below ``name``; groups in a cycle hang on nothing and are never reached."""
    built: list[Inner | Leaf] = []
    for child in sorted(children.get(name, ())):
        sub = by_name[child]
        if child in children:
            below = _children(child, by_name=by_name, children=children, version=version)
            built.append(Inner(child, sub.constraint, below))
        else:
            least = sub.min_member or 0
            least = least if VERSIONS[version].optional_leaves else max(least, 1)
            built.append(Leaf(child, least, sub.constraint))
    if VERSIONS[version].inner_first:
        built.sort(key=lambda node: isinstance(node, Leaf))  # stable: by name within each kind
    return tuple(built)
