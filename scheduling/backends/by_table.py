"""The base of scheduler backends whose capabilities fully describe what they can hold.

Checking and rendering read the same table of capabilities, at the same version, so whatever was accepted can
be rendered. Rendering checks once more: a gang that was checked under other options of its pool is refused
instead of losing a requirement.
"""

from collections.abc import Collection, Mapping
from typing import Any

from scheduling.backends.base import Checked, GangRequest, Manifest, PoolRequest, ResourceKind
from scheduling.capabilities import Capabilities, Capability, SchedulerVersion, supported_at
from scheduling.errors import Fault, InvalidSpec, UnsupportedCapability
from scheduling.gang.checks import PreferenceWord, check_gang
from scheduling.gang.tree import ConstraintTree
from scheduling.topology.levels import DomainPath, Levels
from scheduling.topology.requirements import Gang


class ByTable:
    """What ``Rendering`` is by a table, of pools without objects; and the tree to render from."""

    name: str
    oldest: SchedulerVersion
    needs: Mapping[Capability, SchedulerVersion]
    max_levels: int
    pool_kinds: tuple[ResourceKind, ...] = ()
    prefers_by_affinity = False

    def capabilities(self, version: SchedulerVersion | None) -> Capabilities:
        supported = supported_at(self.needs, version or self.oldest)
        return Capabilities(self.name, supported, self.max_levels, version=version)

    def check(
        self,
        gang: Gang,
        levels: Levels,
        *,
        capabilities: Capabilities,
        domains: Collection[DomainPath] | None = None,
        unsupported_preferred: PreferenceWord = "refuse",
        queue_timeout: float | None = None,
    ) -> Checked:
        faults, notices, tree = check_gang(
            gang,
            levels,
            capabilities=capabilities,
            domains=domains,
            unsupported_preferred=unsupported_preferred,
            queue_timeout=queue_timeout,
            prefers_by_affinity=self.prefers_by_affinity,
        )
        if tree is not None and not faults:
            faults = self.bounds(tree, capabilities)
        return Checked(tuple(map(self.advised, faults)), tuple(notices))

    def bounds(self, tree: ConstraintTree, capabilities: Capabilities) -> list[Fault]:
        """The faults of a gang whose parts the scheduler can hold one by one. None."""
        del tree, capabilities
        return []

    def advised(self, fault: Fault) -> Fault:
        """A fault with the scheduler's own advice. As it is."""
        return fault

    def pool_objects(self, request: PoolRequest) -> tuple[Manifest, ...]:
        """None."""
        del request
        return ()

    def above(self, pool_object: Mapping[str, Any]) -> str:
        """Empty: no object has a parent."""
        del pool_object
        return ""

    def tree(self, request: GangRequest) -> ConstraintTree:
        """The constraint tree to render. Raises instead of dropping a requirement."""
        faults, _, tree = check_gang(
            request.gang,
            request.terms.levels,
            capabilities=self.capabilities(request.terms.version),
            domains=None,
            unsupported_preferred=request.terms.unsupported_preferred,
            prefers_by_affinity=self.prefers_by_affinity,
        )
        if tree is None:
            raise InvalidSpec(
                f'Task group "{request.gang.name}" asks for topology that cannot be read.', faults
            )
        if faults:
            raise UnsupportedCapability(f'Task group "{request.gang.name}" cannot be held.', faults)
        return tree
