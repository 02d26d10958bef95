"""Domains that the service chooses, for sets that a scheduler does not hold around others.

They are chosen before the pod group is made, and node labels keep all pods of the set there (``gang.pins``):
a domain in which there is room now, else one that could hold the set if it were empty. The place of gangs
that wait counts as taken, of those with a choice of their own all that were submitted earlier. Until there is
a domain, no pod group is made. While the gang waits for room, a domain that has some takes the place of one
that has none: the pod group of the former is deleted and another one made. Pods keep to the domain that their
pod group was admitted for, so nothing is chosen any more once they are made.
"""

from dataclasses import replace

from pools.clusters.capabilities import capabilities_at
from scheduling.capabilities import Capabilities
from scheduling.fit.board import Board
from scheduling.fit.contention import WaitingGang, after
from scheduling.fit.pin_choice import is_lost, pins_for
from scheduling.fit.placing import is_placed
from scheduling.gang.checks import chooses_domains
from scheduling.gang.pins import Pins, sentence
from scheduling.gang.slices import required_around
from scheduling.sentences import plain_listing
from scheduling.topology.requirements import describe
from workflows.feasibility.capacity.node_snapshot import demand_of, observed_nodes, selectors_of
from workflows.feasibility.queues.waiting_groups import MOST_GROUPS, MOST_TASKS, Selection, read_waiting
from workflows.lifecycle.pin_words import PINNED
from workflows.lifecycle.repeated_changes import renewable_at
from workflows.models import Event
from workflows.reconcile.form import edit
from workflows.reconcile.observe import observations
from workflows.reconcile.turn import StepResult, Turn
from workflows.reconcile.view.group_view import GroupView
from workflows.services.changes import Change, NewForm, Note, PinsSettled

_ANY_OTHERS = "backend.cluster_id = %(cluster)s AND owner.form -> 'pins' <> '[]' AND owner.uuid <> %(own)s"
_OTHERS = f"{_ANY_OTHERS} AND (owner.submit_time, owner.uuid) < (%(submitted)s, %(own)s)"


def choose_domain(turn: Turn) -> StepResult:
    """Choose before the gang asks for room; nothing for a gang that needs no domain, or has asked."""
    return turn if turn.view.form.pins and turn.view.row.touched_cluster else _choose(turn)


def choose_better_domain(turn: Turn) -> StepResult:
    """Choose again for a gang that waits for room, unless the choice before is recent."""
    view = turn.view
    if not view.form.pins:
        return turn
    times = Event.objects.filter(group=view.row, reason=PINNED).values_list("time", flat=True)
    at = renewable_at(list(times))
    result = _choose(turn) if at is None or at <= view.now else turn
    return turn if isinstance(result, Turn) else result  # without another one it stays in that of before


def _choose(turn: Turn) -> StepResult:
    view, terms = turn.view, turn.view.placement.terms
    capabilities = capabilities_at(terms.scheduler_type, terms.scheduler_version)
    is_made = view.row.created_in_cluster_at is not None
    if is_made or not chooses_domains(capabilities):
        return turn
    values = view.values
    free = demand_of(values.in_form(pins=()), capabilities=capabilities)
    if not free.is_pinnable:
        return turn
    snapshot = observed_nodes(
        observations.cluster_of(view),
        selectors=selectors_of([values]),
        levels=terms.levels,
        capabilities=capabilities,
        without=[view.uuid],
    ).snapshot
    left = after(snapshot, _chosen_for_others(view, capabilities))
    present = demand_of(values, capabilities=capabilities)
    if values.form.pins and is_placed(Board(left), present):
        return turn
    pins = pins_for(Board(left), free)
    if not pins and values.form.pins and not is_lost(snapshot, present):
        return turn
    pins = pins or pins_for(Board(snapshot), free) or pins_for(Board(snapshot.usable()), free)
    if pins:
        return turn if pins == values.form.pins else turn.moved(_changes(view, pins))
    sets = plain_listing(describe(node.path) for node in required_around(free.tree.root))
    return turn.learn(
        unchosen=f"No domain was found that would hold {sets} with the sets inside, even if all its usable "
        "nodes were free. Its scheduler holds no such sets by itself: it is asked for room once there is one."
    )


def _chosen_for_others(view: GroupView, capabilities: Capabilities) -> list[WaitingGang]:
    """The gangs of the cluster that wait for room in domains chosen for them, in order of submission."""
    selection = Selection(
        pool=None,
        condition=_OTHERS if view.form.pins else _ANY_OTHERS,
        parameters={
            "cluster": observations.cluster_of(view),
            "own": view.uuid,
            "submitted": view.row.submit_time,
        },
        most=MOST_GROUPS,
        most_tasks=MOST_TASKS,
    )
    groups = (read.group for read in read_waiting(selection).first if read.group)
    return [
        WaitingGang(group.workflow, demand_of(group.values, capabilities=capabilities)) for group in groups
    ]


def _changes(view: GroupView, pins: Pins) -> list[Change]:
    form = replace(view.form, pins=pins)
    before = "another domain takes the place of the one that has no room" if view.form.pins else ""
    cause = before or "its scheduler holds no sets around others, so their domain is chosen"
    message = f'Group "{view.row.name}": {cause}. Kept there by node labels from now on: {sentence(pins)}.'
    note = Note(key=f"pins:{view.now.isoformat()}", reason=PINNED, message=message)
    return [NewForm(form, edit.constraint_rows(view, form)), PinsSettled(), note]
