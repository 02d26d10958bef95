"""Sentences for a verdict and for a placement, with the numbers that a reader needs next."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Literal

from pools.values.freshness import Age, Freshness
from scheduling.fit.contention import DisplacementAnswer, Preemption, PreemptionAnswer, QueuePlace
from scheduling.fit.outcome import SetOutcome
from scheduling.fit.snapshot import OTHERS
from scheduling.fit.verdict import Answer, DomainCapacity, Obstacle, Occupant, SetVerdict, Verdict
from scheduling.gang import pins, set_order
from scheduling.queues.queue_state import QueueShortage
from scheduling.sentences import agree, count_of, in_seconds, listing, plain_listing
from scheduling.topology.levels import DomainPath
from workflows.feasibility.capacity.node_snapshot import ObservedNodes
from workflows.feasibility.verdict.misfit_sentences import amount_of, misfit_sentence

ANOTHER_WORKFLOW = "another workflow"
"""The name that stands for a workflow that the reader may not list."""


NodesOf = Literal["pool", "cluster"]
"""Whose nodes a verdict is on."""


def sentence(verdict: Verdict, freshness: Freshness, *, of: NodesOf = "pool") -> str:
    """State the verdict and its cause; of old observations as of when they were made."""
    if not freshness.is_old:
        return _sentence(verdict, now=" now", of=of)
    text = _sentence(verdict, now="", of=of)
    return f"{freshness.sentence} By that, {text[0].lower()}{text[1:]}"


def _sentence(verdict: Verdict, *, now: str, of: NodesOf) -> str:
    match verdict.answer:
        case Answer.NOW:
            return _now(verdict, now=now)
        case Answer.NEVER if verdict.quota.is_lasting:
            return f"It can never start under its quotas as they are set: {quota_sentence(verdict)}"
        case Answer.NEVER:
            return f"It can never be placed on the {of}'s nodes as they are: {_never(verdict, of)}"
        case _ if verdict.quota.shortages:
            text = f"It does not fit{now}: {quota_sentence(verdict)} {_nodes_too(verdict, of)}"
            return text + _queue_around(verdict)
        case _ if verdict.obstacle is Obstacle.PRIORITY:
            return f"It does not fit{now}: {_goes_later(verdict, of)}{_preemptible(verdict)}"
        case _:
            text = (
                f"It does not fit{now}: {_not_now(verdict, of)}{_apart(verdict, of)}{_queue_around(verdict)}"
            )
            return f"{text} Beside that, {_doubts(verdict)}" if verdict.doubts else text


def _goes_later(verdict: Verdict, of: NodesOf) -> str:
    """Say which groups take the room, and what is then left."""
    place = verdict.contention.place or QueuePlace()
    groups = f"{count_of(place.groups, 'group')} of its queue {agree(place.groups, 'goes', 'go')} first"
    room = f"{_not_now(verdict, of)}{_apart(verdict, of)}"
    return f"{groups} ({listing(place.workflows, limit=3)}). After that, {room}"


def _queue_around(verdict: Verdict) -> str:
    """Say which work of the queue goes first although it is younger, and which may be preempted."""
    place = verdict.contention.place
    younger = ""
    if place and place.younger:
        verb = agree(place.younger, "goes", "go")
        younger = f" {count_of(place.younger, 'younger group')} of higher priority {verb} before it."
    return younger + _preemptible(verdict)


def _preemptible(verdict: Verdict) -> str:
    return _movable(verdict) + _reclaimable(verdict) + _to_preempt(verdict)


def _movable(verdict: Verdict) -> str:
    consolidation = verdict.contention.consolidation
    if consolidation.answer is not DisplacementAnswer.POSSIBLE:
        return ""
    workflows = listing(consolidation.workflows, limit=3)
    return (
        " The scheduler may place it after moving running pods of preemptible work, if those find another "
        f"place: {workflows}."
    )


def _reclaimable(verdict: Verdict) -> str:
    reclaim = verdict.contention.reclaim
    if reclaim.answer is not DisplacementAnswer.POSSIBLE:
        return ""
    workflows = listing(reclaim.workflows, limit=3)
    return (
        " It is within its queue's guarantee, so the scheduler may reclaim room for it from work of other "
        f"queues that is above theirs: {workflows}."
    )


def _to_preempt(verdict: Verdict) -> str:
    preemption = verdict.contention.preemption
    if preemption.answer not in (PreemptionAnswer.HELPS, PreemptionAnswer.LATER):
        return ""
    time = ""
    if preemption.spared_until is not None:
        until = _time(preemption.spared_until)
        time = f" once that has run for its queue's minimum time, by {until} at the latest"
    delay = f", after a delay of {in_seconds(preemption.delay)}" if preemption.delay else ""
    return (
        f" The scheduler may preempt work of lower priority for it{time}{delay}: {preemptible(preemption)}."
    )


def preemptible(preemption: Preemption) -> str:
    """The work that may be preempted, as far as the reader may know it."""
    words = [f'"{workflow}"' for workflow in preemption.workflows]
    if preemption.others:
        pods = f"{count_of(preemption.others, 'pod')} of others"
        words.insert(3, f"{pods}{_in(preemption.namespaces)}")
    return plain_listing(words, limit=3 + bool(preemption.others))


def _nodes_too(verdict: Verdict, of: NodesOf) -> str:
    if verdict.has_place:
        return f"The nodes have room for {_all(verdict.tasks)}."
    return f"The nodes have no place either: {_not_now(verdict, of)}{_apart(verdict, of)}"


def quota_sentence(verdict: Verdict) -> str:
    """The first bound that does not admit the group; a lasting one before others."""
    shortages = verdict.quota.shortages
    return bound_sentence(next((shortage for shortage in shortages if shortage.is_lasting), shortages[0]))


def bound_sentence(shortage: QueueShortage) -> str:
    """A bound, and the room in it, as in ``the namespace's quota "team" has room for 8 of 16 GPUs``."""
    words = partial(amount_of, shortage.resource)
    is_of_namespace = shortage.bound == "namespace"
    owner = "the namespace's quota" if is_of_namespace else "queue"
    if is_of_namespace and not shortage.is_lasting:
        room, _, _ = words(max(0.0, shortage.amount - shortage.used)).partition(" ")
        return f'{owner} "{shortage.queue}" has room for {room} of {words(shortage.requested)}.'
    bound = "guarantees" if shortage.bound == "quota" else "never allows more than"
    text = f'{owner} "{shortage.queue}" {bound} {words(shortage.amount)}'
    if shortage.bound == "quota":
        text += ", which work that is not to be preempted cannot exceed"
    if not shortage.is_lasting:
        text += f", {words(shortage.used)} of them are in use,"
    return f"{text} and the group asks for {words(shortage.requested)}."


def no_nodes_reason(observed: ObservedNodes, *, reached: bool) -> str:
    """Why there can be no verdict; empty if a node is known."""
    if not reached:
        return "No verdict: the pool's cluster was never reached, so none of its nodes is known."
    if observed.freshness.age is Age.NEVER:
        return "No verdict: the nodes of the pool's cluster have not been listed yet."
    if not observed.snapshot.nodes:
        return "No verdict: these tasks may use none of the nodes that are known at the moment."
    return ""


def _now(verdict: Verdict, *, now: str) -> str:
    if not verdict.places:
        return f"It fits{now}: all its tasks have their nodes."
    room = f"there is room for {_all(len(verdict.places))}"
    if verdict.pins:
        room += (
            ", which its scheduler passes over or does not keep to, so node labels keep it there: "
            f"{pins.sentence(verdict.pins)}"
        )
    if verdict.order:
        room += f" with its sets placed in this order: {set_order.sentence(verdict.order)}"
    if verdict.proven:
        return f"It fits{now}: {room}."
    if verdict.doubts:
        return f"It may fit{now}: {room}, but {_doubts(verdict)}"
    if verdict.uncounted:
        unknown = plain_listing(verdict.uncounted, limit=3)
        return f"It may fit{now}: {room}, but how much of {unknown} is in use is not known."
    return (
        f"It may fit{now}: {room}, but the order in which this scheduler takes tasks is unknown, and it may "
        "put a task where another one would have to go."
    )


def _doubts(verdict: Verdict) -> str:
    count = sum(verdict.doubts.values())
    reasons = plain_listing(list(verdict.doubts), limit=3)
    return (
        f"how many free GPUs {count_of(count, 'node')} {agree(count, 'has', 'have')} is not known: {reasons}."
    )


def redacted(verdict: Verdict, visible: Container[str], *, names_others: bool = False) -> Verdict:
    """The verdict with only the visible workflows by name; all other holders of a domain become one.

    ``names_others``: the reader may know whose the pods of other tenants are.
    """
    sets = (
        replace(
            entry,
            nearest=tuple(
                replace(domain, holders=_holders_for(domain, visible, names_others=names_others))
                for domain in entry.nearest
            ),
        )
        for entry in verdict.sets
    )
    place = verdict.contention.place
    preemption = verdict.contention.preemption
    movable, reclaim = verdict.contention.consolidation, verdict.contention.reclaim
    contention = replace(
        verdict.contention,
        consolidation=replace(movable, workflows=_names(movable.workflows, visible)),
        reclaim=replace(reclaim, workflows=_names(reclaim.workflows, visible)),
        preemption=replace(
            preemption,
            workflows=_names(preemption.workflows, visible),
            namespaces=preemption.namespaces if names_others else (),
        ),
        place=place and replace(place, workflows=_names(place.workflows, visible)),
    )
    return replace(verdict, sets=tuple(sets), contention=contention)


def _names(workflows: Sequence[str], visible: Container[str]) -> tuple[str, ...]:
    """The visible names, each once; one word for all others."""
    named = tuple(dict.fromkeys(name for name in workflows if name in visible))
    return named if len(named) == len(set(workflows)) else (*named, ANOTHER_WORKFLOW)


def _holders_for(
    domain: DomainCapacity, visible: Container[str], *, names_others: bool
) -> tuple[Occupant, ...]:
    named = [holder for holder in domain.holders if holder.name in visible or holder.name == OTHERS]
    hidden = [holder for holder in domain.holders if holder not in named]
    if not names_others:
        named = [replace(holder, namespaces=()) for holder in named]
    if hidden:
        ends = [holder.until for holder in hidden if holder.until is not None]
        until = max(ends) if len(ends) == len(hidden) else None
        named.append(Occupant(ANOTHER_WORKFLOW, sum(holder.nodes for holder in hidden), until))
    return tuple(named)


def _apart(verdict: Verdict, of: NodesOf) -> str:
    """Say that there is enough room, although not in one place; readers ask that first."""
    if verdict.room < verdict.tasks or not verdict.blocked:
        return ""
    return f" The {of} has room for {verdict.room} such tasks in all, but not in one place."


def _never(verdict: Verdict, of: NodesOf) -> str:
    if verdict.misfit is not None:
        return misfit_sentence(verdict.misfit)
    too_large = [entry for entry in verdict.sets if not entry.fit_empty]
    if not too_large:
        return (
            "each set fits alone on empty nodes, but there are not enough domains for all of them together."
        )
    return _too_large(too_large[-1], of)


def _too_large(entry: SetVerdict, of: NodesOf) -> str:
    """Why no domain is large enough for the set, even when empty."""
    largest = max(entry.nearest, key=lambda domain: domain.empty, default=None)
    if largest is None:
        return f'no node carries label {entry.label} of key "{entry.key}".'
    if entry.key is None:
        room = f"the {of}'s nodes have room for {largest.empty} when empty"
        return f"it has {count_of(entry.tasks, 'task')}, and {room}."
    return (
        f"{_set(entry)} must share one {entry.key}, and the largest, {_path(largest.path)}, has room for "
        f"{largest.empty} when empty."
    )


def _not_now(verdict: Verdict, of: NodesOf) -> str:
    blocked = verdict.blocked
    if not blocked:
        several = sum(entry.alike for entry in verdict.sets if entry.key) > 1
        parts = (
            "each set has room alone, but not all of them together"
            if several
            else ("its tasks have room one by one, but not beside each other")
        )
        placed = count_of(verdict.most_placed, "task")
        text = f"{parts}: the scheduler places {placed} before it gives up."
        if verdict.another_order:
            text += " It would fit with its sets in another order, but no such order could be chosen."
        return text
    entry = blocked[-1]
    if not entry.nearest:
        return f'no node carries label {entry.label} of key "{entry.key}".'
    return _lacks(entry, entry.nearest[0], of)


def _lacks(entry: SetVerdict, domain: DomainCapacity, of: NodesOf) -> str:
    place = f"the nearest {entry.key}, {_path(domain.path)}," if entry.key else f"the {of}"
    tasks = _set(entry) if entry.key else count_of(entry.tasks, "task")
    text = (
        f"{place} has room for {max(0, entry.tasks - domain.missing)} of {tasks} and lacks {domain.missing}"
    )
    if domain.holders:
        text += f", held by {_holders(domain)}"
    if domain.free_at is not None:
        text += f"; enough of it is free by {_time(domain.free_at)} at the latest"
    return f"{text}{_channelless(domain)}."


def _channelless(domain: DomainCapacity) -> str:
    nodes = domain.without_channel
    return f"; {nodes} of its nodes {agree(nodes, 'has', 'have')} no NVLink channel" if nodes else ""


def _holders(domain: DomainCapacity) -> str:
    workflows = listing([holder.name for holder in domain.holders if holder.name != OTHERS], limit=3)
    others = [f"{OTHERS}{in_namespaces(holder)}" for holder in domain.holders if holder.name == OTHERS]
    return " and by ".join(filter(None, (workflows, *others)))


def in_namespaces(holder: Occupant) -> str:
    """Whose pods they are, behind a noun; empty for a workflow's, and where the reader may not know it."""
    return _in(holder.namespaces)


def _in(namespaces: Sequence[str]) -> str:
    noun = agree(len(namespaces), "namespace", "namespaces")
    return f" in {noun} {listing(namespaces, limit=3)}" if namespaces else ""


def _set(entry: SetVerdict) -> str:
    tasks = count_of(entry.tasks, "task")
    return tasks if entry.alike == 1 else f"{tasks} (in each of {entry.alike} sets)"


def _all(count: int) -> str:
    return "its task" if count == 1 else f"all {count} tasks"


def _path(path: DomainPath | tuple[str, ...]) -> str:
    return '"' + "/".join(value or "" for value in path) + '"'


def _time(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M} UTC"


def missed_requirements(outcomes: tuple[SetOutcome, ...]) -> list[str]:
    """One sentence for each requirement that a placement missed."""
    return [_missed(outcome) for outcome in outcomes if outcome.outside or len(outcome.domains) > 1]


def _missed(outcome: SetOutcome) -> str:
    verb = "must" if outcome.required else "should"
    count = count_of(sum(outcome.domains.values()) + outcome.outside, "task")
    places = _spread(outcome.domains, outcome.outside)
    return f"{count} that {verb} share one {outcome.level} stand in {places}."


def _spread(domains: Mapping[tuple[str, ...], int], outside: int) -> str:
    unlabelled = [f"nodes without the label ({outside})"] if outside else []
    places = [f"{_path(path)} ({count})" for path, count in domains.items()]
    return plain_listing([*unlabelled, *places], limit=6)
