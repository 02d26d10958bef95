"""What a scheduler backend inherits whose table of capabilities says all that it can hold.

The table is the same for checking and for rendering, and so is the version it is read at. What was accepted
is what is rendered, and a rendering refuses by itself what a check let pass on other choices of the pool.
"""

from collections.abc import Collection, Mapping

from scheduling.backends.base import Checked, Feature, GangRequest
from scheduling.capabilities import Capabilities, Capability, SchedulerVersion, supported_at
from scheduling.checks import SplitGangs, UnsupportedPreferred, check_gang
from scheduling.errors import InvalidSpec, UnsupportedCapability
from scheduling.levels import Domain, Levels
from scheduling.requirements import Gang
from scheduling.tree import ConstraintTree


class ByTable:
    """``capabilities`` and ``check`` of a scheduler backend, and the tree to render from."""

    name: str
    oldest: SchedulerVersion
    needs: Mapping[Capability, SchedulerVersion]
    max_levels: int
    features: tuple[Feature, ...] = ()

    def capabilities(self, version: SchedulerVersion | None) -> Capabilities:
        return Capabilities(self.name, supported_at(self.needs, version or self.oldest), self.max_levels)

    def check(
        self,
        gang: Gang,
        levels: Levels,
        *,
        capabilities: Capabilities,
        split_gangs: SplitGangs,
        domains: Collection[Domain] | None = None,
        unsupported_preferred: UnsupportedPreferred = "refuse",
        queue_timeout: float | None = None,
    ) -> Checked:
        faults, notices, _ = check_gang(
            gang,
            levels,
            capabilities=capabilities,
            split_gangs=split_gangs,
            domains=domains,
            unsupported_preferred=unsupported_preferred,
            queue_timeout=queue_timeout,
        )
        return Checked(tuple(faults), tuple(notices))

    def tree(self, request: GangRequest) -> ConstraintTree:
        """The tree of what is held. Raises where a requirement would be lost.

        The pool's word on splitting gangs was asked at submission.
        """
        faults, _, tree = check_gang(
            request.gang,
            request.levels,
            capabilities=self.capabilities(request.version),
            split_gangs="warn",
            domains=None,
            unsupported_preferred=request.unsupported_preferred,
        )
        if tree is None:
            raise InvalidSpec(
                f'Task group "{request.gang.name}" asks for topology that cannot be read.', faults
            )
        if faults:
            raise UnsupportedCapability(f'Task group "{request.gang.name}" cannot be held.', faults)
        return tree
