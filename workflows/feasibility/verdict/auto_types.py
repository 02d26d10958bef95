"""What ``requirementType: auto`` is for each set of a workflow: decided once, at submission, and frozen.

Decided on the nodes that are known at that moment (``scheduling.fit.auto``). While none is known a set is
preferred: a requirement that nothing supports could keep the workflow waiting for ever.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pools.clusters.capabilities import capabilities_at
from scheduling.errors import Notice
from scheduling.fit.auto import AutoDecision, decide
from scheduling.gang.soundness import check_requirements
from scheduling.sentences import agree, count_of, plain_listing
from scheduling.topology.levels import ranks
from scheduling.topology.requirements import SetPath, broadest_first, describe
from workflows.feasibility.capacity.node_snapshot import demand_of, observed_nodes, selectors_of
from workflows.feasibility.verdict.sentences import no_nodes_reason
from workflows.values.placement import GroupValues

Types = Mapping[str, Mapping[SetPath, bool]]
"""Whether a set is required, by task group and path."""

MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class AutoTypes:
    """The types of the sets that are ``auto``, and what the user should know of them."""

    required: Types
    notices: Mapping[str, tuple[Notice, ...]]
    """By task group."""


def auto_types(groups: Sequence[GroupValues], *, cluster: str | None) -> AutoTypes:
    """Decide on every set that is ``auto``; groups whose requirements are unsound are left out."""
    undecided = [group for group in groups if _is_undecided(group)]
    if not undecided:
        return AutoTypes({}, {})
    placement = groups[0].placement
    capabilities = capabilities_at(placement.terms.scheduler_type, placement.terms.scheduler_version)
    observed = observed_nodes(
        cluster or "",
        selectors=selectors_of(undecided),
        levels=placement.terms.levels,
        capabilities=capabilities,
    )
    if no_nodes_reason(observed, reached=bool(cluster)):
        return _without_nodes(undecided)
    decisions = {
        group.name: decide(observed.snapshot, demand_of(group, capabilities=capabilities))
        for group in undecided
    }
    return AutoTypes(
        {
            name: {decision.path: decision.required for decision in of_group}
            for name, of_group in decisions.items()
        },
        {name: tuple(_notices(name, of_group)) for name, of_group in decisions.items()},
    )


def _is_undecided(group: GroupValues) -> bool:
    gang = group.gang
    return any(r.auto for task in gang.tasks for r in task.requirements) and not check_requirements(
        gang, group.placement.terms.levels
    )


def _without_nodes(groups: Sequence[GroupValues]) -> AutoTypes:
    paths = {group.name: list(dict.fromkeys(_paths(group))) for group in groups}
    notices = {
        name: (
            Notice(
                "auto_unknown",
                f'Task group "{name}": {_sets(of_group)} {agree(len(of_group), "is", "are")} "auto" and '
                f"{agree(len(of_group), 'counts', 'count')} as preferred, because no node that its tasks may "
                "use is known yet.",
            ),
        )
        for name, of_group in paths.items()
    }
    return AutoTypes({name: dict.fromkeys(of_group, False) for name, of_group in paths.items()}, notices)


def _paths(group: GroupValues) -> Iterator[SetPath]:
    rank = ranks(group.placement.terms.levels)
    for task in group.gang.tasks:
        path: SetPath = ()
        for requirement in broadest_first(task, rank):
            path = (*path, (requirement.key, requirement.group))
            if requirement.auto:
                yield path


def _notices(group: str, decisions: Sequence[AutoDecision]) -> Iterator[Notice]:
    """One notice for sets that differ in their path alone."""

    def alike(decision: AutoDecision) -> AutoDecision:
        return replace(decision, path=())

    by_kind: dict[tuple[str, AutoDecision], list[AutoDecision]] = {}
    for decision in decisions:
        by_kind.setdefault((decision.path[-1][0], alike(decision)), []).append(decision)
    for (key, decision), members in by_kind.items():
        kind = "required" if decision.required else "preferred"
        number = len(members)
        message = (
            f'Task group "{group}": {_sets([member.path for member in members])} '
            f'{agree(number, "is", "are")} "auto" and {agree(number, "counts", "count")} as {kind}: '
            f"{_because(key, decision, number)}"
        )
        yield Notice(f"auto_{kind}", message)


def _because(key: str, decision: AutoDecision, number: int) -> str:
    tasks = count_of(decision.tasks, "task") if number == 1 else f"the {decision.tasks} tasks of each"
    if not decision.domains:
        return f'no node carries label {decision.label} of key "{key}".'
    if not decision.holding:
        return (
            f"no {key} could hold {tasks} on empty, open nodes; the largest has room for {decision.largest}."
        )
    count = f"{decision.holding} of {count_of(decision.domains, key)} could hold {tasks}"
    if decision.required:
        return f"on empty, open nodes, {count}."
    return f"on empty, open nodes, {count}, but not beside the sets that were decided before."


def _sets(paths: Sequence[SetPath]) -> str:
    return plain_listing([describe(path) for path in paths], limit=MOST_NAMED)
