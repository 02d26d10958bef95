"""A verdict in one sentence, with the numbers that somebody would ask for next."""

from collections.abc import Container, Mapping
from dataclasses import replace
from datetime import datetime

from scheduling.fit.outcome import SetOutcome
from scheduling.fit.snapshot import OTHERS
from scheduling.fit.verdict import Answer, DomainCapacity, Occupant, SetVerdict, Verdict
from scheduling.levels import Domain
from scheduling.sentences import count_of, listing
from workflows.explain.obstacles import ANOTHER_WORKFLOW
from workflows.feasibility.nodes import ObservedNodes


def sentence(verdict: Verdict) -> str:
    """Say what the verdict means."""
    match verdict.answer:
        case Answer.NOW:
            return _now(verdict)
        case Answer.NEVER:
            return f"It can never be placed on the pool's nodes as they are: {_never(verdict)}"
        case _:
            return f"It does not fit now: {_not_now(verdict)}{_elsewhere(verdict)}"


def no_nodes_reason(observed: ObservedNodes, *, reached: bool) -> str:
    """Why there can be no verdict; nothing where some node is known."""
    if not reached:
        return "No verdict: the pool's cluster was never reached, so none of its nodes is known."
    if observed.synced_at is None:
        return "No verdict: the nodes of the pool's cluster have not been listed yet."
    if not observed.snapshot.nodes:
        return "No verdict: no node is known at the moment that these tasks may use."
    return ""


def _now(verdict: Verdict) -> str:
    room = f"there is room for {_all(len(verdict.places))}"
    if verdict.proven:
        return f"It fits now: {room}."
    return (
        f"It may fit now: {room}, but this scheduler takes tasks in an order of its own, and may put some "
        "where others would have to go."
    )


def redacted(verdict: Verdict, known: Container[str]) -> Verdict:
    """The verdict for somebody who may know these names alone: who else holds a domain is one nobody."""
    sets = (
        replace(one, nearest=tuple(replace(room, holders=_known(room, known)) for room in one.nearest))
        for one in verdict.sets
    )
    return replace(verdict, sets=tuple(sets))


def _known(room: DomainCapacity, known: Container[str]) -> tuple[Occupant, ...]:
    told = [one for one in room.holders if one.name in known or one.name == OTHERS]
    others = [one for one in room.holders if one not in told]
    if others:
        ends = [one.until for one in others if one.until is not None]
        until = max(ends) if len(ends) == len(others) else None
        told.append(Occupant(ANOTHER_WORKFLOW, sum(one.nodes for one in others), until))
    return tuple(told)


def _elsewhere(verdict: Verdict) -> str:
    """That there is room enough, only not together: what people wonder about first."""
    if verdict.room < verdict.tasks or not verdict.blocked:
        return ""
    return f" The pool has room for {verdict.room} such tasks in all, but not in one place."


def _never(verdict: Verdict) -> str:
    short = [one for one in verdict.sets if not one.fit_empty]
    if not short:
        return (
            "each set fits alone on empty nodes, but there are not enough domains for all of them together."
        )
    return _too_small(short[-1])


def _too_small(one: SetVerdict) -> str:
    """Why no domain is large enough even when it is empty."""
    largest = max(one.nearest, key=lambda room: room.empty, default=None)
    hidden = _hidden(one)
    if largest is None:
        return f'no node carries label {one.label} of key "{one.key}".{hidden}'
    if one.key is None:
        room = f"the pool's nodes have room for {largest.empty} when empty"
        return f"it has {count_of(one.tasks, 'task')}, and {room}.{hidden}"
    return (
        f"{_set(one)} must share one {one.key}, and the largest, {_path(largest.path)}, has room for "
        f"{largest.empty} when empty.{hidden}"
    )


def _not_now(verdict: Verdict) -> str:
    blocked = verdict.blocked
    if not blocked:
        text = (
            f"each set has room alone, but not all together: {verdict.most_placed} tasks find a place before "
            "the scheduler gives up."
        )
        if verdict.another_order:
            text += " In another order of its sets it would fit; the scheduler places them in this one."
        return text
    one = blocked[-1]
    if not one.nearest:
        return f'no node carries label {one.label} of key "{one.key}".'
    return f"{_lacks(one, one.nearest[0])}{_hidden(one)}"


def _lacks(one: SetVerdict, room: DomainCapacity) -> str:
    where = f"the nearest {one.key}, {_path(room.path)}," if one.key else "the pool"
    who = _set(one) if one.key else count_of(one.tasks, "task")
    text = f"{where} has room for {max(0, one.tasks - room.missing)} of {who} and lacks {room.missing}"
    if room.holders:
        text += f", held by {_holders(room)}"
    if room.free_at is not None:
        text += f"; enough of that ends by {_time(room.free_at)} at the latest"
    if room.closed:
        text += f"; {room.closed} of its nodes take no work"
    return text + "."


def _holders(room: DomainCapacity) -> str:
    works = listing([one.name for one in room.holders if one.name != OTHERS], limit=3)
    others = OTHERS if any(one.name == OTHERS for one in room.holders) else ""
    return " and by ".join(filter(None, (works, others)))


def _hidden(one: SetVerdict) -> str:
    if not one.unlabelled:
        return ""
    nodes = count_of(one.unlabelled, "node")
    return f' {nodes} with room cannot be used: a label of key "{one.key}" or of a broader one is missing.'


def _set(one: SetVerdict) -> str:
    if one.alike == 1:
        return count_of(one.tasks, "task")
    return f"{count_of(one.tasks, 'task')} (in each of {one.alike} sets)"


def _all(count: int) -> str:
    return "its task" if count == 1 else f"all {count} tasks"


def _path(path: Domain | tuple[str, ...]) -> str:
    return '"' + "/".join(value or "" for value in path) + '"'


def _time(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def missed_requirements(found: tuple[SetOutcome, ...]) -> list[str]:
    """What was missed of what a gang asked for, one sentence each."""
    return [_missed(one) for one in found if one.outside or len(one.domains) > 1]


def _missed(one: SetOutcome) -> str:
    verb = "must" if one.required else "should"
    count = count_of(sum(one.domains.values()) + one.outside, "task")
    return f"{count} that {verb} share one {one.level} stand in {_spread(one.domains, one.outside)}."


def _spread(domains: Mapping[tuple[str, ...], int], outside: int) -> str:
    named = [f"{_path(path)} ({count})" for path, count in list(domains.items())[:5]]
    more = [f"{len(domains) - 5} more"] if len(domains) > 5 else []
    bare = [f"nodes without the label ({outside})"] if outside else []
    return ", ".join([*named, *more, *bare])
