"""The Workload of a tree of groups, which has a template for each kind of group in it.

Groups of one parent that are alike share a template. Kubernetes 1.37 requires that composites, and groups
below them, name a Workload and a template, and does not compare them; it says that it will. So a Workload is
faithful, and a tree without a faithful one is refused.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduling.backends.base import Manifest
from scheduling.backends.kubernetes.group_tree import MAX_DEPTH, TreeGroup
from scheduling.errors import Fault, Path
from scheduling.sentences import count_of
from scheduling.topology.requirements import describe

MAX_TEMPLATES = 8
"""Of pod groups, and of composites, in one template (``WorkloadMaxPodGroupTemplates`` of 1.37.2)."""


def shape_of(group: TreeGroup) -> Hashable:
    """What tells groups apart for a Workload."""
    if not group.children:
        return (group.level, len(group.tasks))
    return (group.level, len(group.children), frozenset(map(shape_of, group.children)))


def check_tree(root: TreeGroup, *, path: Path) -> list[Fault]:
    """The faults of a tree that is too deep, or too wide for a faithful Workload."""
    faults = []
    if root.depth > MAX_DEPTH:
        message = (
            f"The sets inside each other, each required key counted, are {root.depth} levels deep with the "
            f"task group itself, and Kubernetes' scheduler holds {MAX_DEPTH}: leave a broader key out."
        )
        faults.append(Fault(path, "too_many_levels_of_sets", message))
    for group in root.walk():
        for unlike in _by_kind(group):
            if len(unlike) > MAX_TEMPLATES:
                message = (
                    f"{count_of(len(unlike), 'unlike set')} stand directly in {describe(group.path)}, and "
                    f"Kubernetes' scheduler holds {MAX_TEMPLATES}. Sets with as many tasks that require the "
                    "same keys are alike."
                )
                faults.append(Fault(path, "too_many_unlike_sets", message))
    return faults


def _by_kind(group: TreeGroup) -> Iterator[dict[Hashable, TreeGroup]]:
    """The first child of each shape: of the pod groups, and of the composites."""
    for is_composite in (False, True):
        children = [child for child in group.children if bool(child.children) == is_composite]
        yield {shape_of(child): child for child in reversed(children)}


@dataclass(frozen=True, slots=True)
class WorkloadTemplates:
    """The names of templates, by the name of each group that is made from one."""

    names: Mapping[str, str]
    root: Manifest


def templates_of(root: TreeGroup, specs: Mapping[str, Manifest]) -> WorkloadTemplates:
    """The templates of a tree; ``specs`` are those of its groups without what names other objects."""
    maker = _Maker(specs)
    return WorkloadTemplates(maker.names, maker.template([root]))


@dataclass(slots=True)
class _Maker:
    specs: Mapping[str, Manifest]
    names: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def template(self, alike: Sequence[TreeGroup]) -> Manifest:
        """One template for groups that are alike, of one place in the tree of templates."""
        name, self.count = f"t{self.count}", self.count + 1
        self.names.update({group.name: name for group in alike})
        template: Manifest = {"name": name, **self.specs[alike[0].name]}
        fields = ("podGroupTemplates", "compositePodGroupTemplates")
        children = [child for group in alike for child in group.children]
        for entry, is_composite in zip(fields, (False, True), strict=True):
            by_shape: dict[Hashable, list[TreeGroup]] = {}
            for child in children:
                if bool(child.children) == is_composite:
                    by_shape.setdefault(shape_of(child), []).append(child)
            if by_shape:
                template[entry] = [self.template(same) for same in by_shape.values()]
        return template
