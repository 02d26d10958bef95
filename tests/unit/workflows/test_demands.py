"""The demands of a workflow's groups: what is sought for them at once is bounded."""

from dataclasses import replace

from scheduling.capabilities import Capability
from scheduling.topology.requirements import Requirement
from tests.unit.lifecycle.values import group, one_try
from workflows.feasibility.verdict.report import demands_of

SETS = group(
    one_try(f"t{number}", number, requirements=(Requirement("rack", f"r{number % 2}"),))
    for number in range(4)
)
FLAT = group([one_try("alone", 9)])


def test_of_many_groups_of_sets_only_the_first_are_given_another_order():
    groups = [replace(kind, name=f"g{n}") for n, kind in enumerate([FLAT, SETS] * 10)]

    demands = list(demands_of(groups, capabilities=frozenset(Capability)))

    ordered = [demand.is_orderable for demand in demands if not demand.tree.is_flat]
    assert ordered == [True] * 8 + [False] * 2
