"""Which form a waiting gang takes next, and when what was proposed to it is dropped."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from scheduling.gang.gang_form import GangForm
from scheduling.gang.pins import Pin
from scheduling.gang.set_order import PartsOrder
from workflows.lifecycle.form_proposers import FormFacts, is_stale, next_form
from workflows.lifecycle.form_states import FormState
from workflows.lifecycle.patience import PatienceFacts

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
USUAL = GangForm()
SET = (("rack", "r"),)
ORDERED = replace(USUAL, order=(PartsOrder((), ((), SET)),))
PINNED = replace(USUAL, pins=(Pin(SET, ("a", "r1")),))
CUT = replace(USUAL, preference_levels=1)
FACTS = FormFacts(
    group="g",
    now=NOW,
    form=USUAL,
    proposed=None,
    constraints=(),
    waits=True,
    is_intact=True,
    is_bound=False,
    patience=None,
)
PATIENT = PatienceFacts(
    stage_begins=(0.0, 20.0),
    stage=0,
    pod_group_stage=0,
    since=NOW - timedelta(seconds=5),
    now=NOW,
    unplaced=True,
    bound=False,
    reachable=True,
    recorded=True,
    free_after=5,
)
DUE = replace(PATIENT, since=NOW - timedelta(seconds=20))


def facts(**changes):
    return replace(FACTS, **changes)


@pytest.mark.parametrize(
    ("known", "form", "behind", "reason"),
    [
        pytest.param(facts(proposed=PINNED), PINNED, FormState.PINS, "SetsPinned", id="pins"),
        pytest.param(
            facts(form=PINNED, proposed=USUAL), USUAL, FormState.PINS, "SetsUnpinned", id="no pins any more"
        ),
        pytest.param(
            facts(form=CUT, proposed=replace(PINNED, preference_levels=1), patience=DUE),
            replace(PINNED, preference_levels=1),
            FormState.PINS,
            "SetsPinned",
            id="pins before a stage that is due",
        ),
        pytest.param(facts(proposed=ORDERED), ORDERED, FormState.ORDER, "SetsOrdered", id="an order"),
        pytest.param(
            facts(proposed=ORDERED, patience=DUE),
            ORDERED,
            FormState.ORDER,
            "SetsOrdered",
            id="an order before a stage that is due",
        ),
        pytest.param(
            facts(proposed=ORDERED, patience=DUE, is_intact=False),
            replace(USUAL, stage=1),
            FormState.REACHED,
            "Relaxed",
            id="a stage that is due while an order waits for pods",
        ),
        pytest.param(
            facts(proposed=CUT, patience=DUE),
            replace(USUAL, stage=1),
            FormState.REACHED,
            "Relaxed",
            id="a stage that is due before preferences give way",
        ),
        pytest.param(
            facts(proposed=CUT, patience=PATIENT),
            CUT,
            FormState.REACHED,
            "PreferencesGaveWay",
            id="preferences that give way",
        ),
        pytest.param(
            facts(form=CUT, proposed=USUAL, patience=PATIENT),
            USUAL,
            FormState.REACHED,
            "PreferencesReturned",
            id="preferences that return",
        ),
    ],
)
def test_a_waiting_gang_takes(known, form, behind, reason):
    proposal = next_form(known)
    assert (proposal.form, proposal.behind, proposal.reason) == (form, behind, reason)
    assert not is_stale(known)


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(facts(), id="nothing is proposed or due"),
        pytest.param(facts(proposed=ORDERED, is_intact=False), id="a pod is missing for another order"),
        pytest.param(
            facts(proposed=CUT, patience=replace(PATIENT, free_after=6)), id="preferences have time left"
        ),
        pytest.param(
            facts(proposed=CUT, patience=replace(PATIENT, pod_group_stage=None, since=None)),
            id="the clock of its preferences does not run",
        ),
    ],
)
def test_a_waiting_gang_keeps_its_form_and_what_is_proposed_while(known):
    assert (next_form(known), is_stale(known)) == (None, False)


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(facts(proposed=PINNED, waits=False), id="a task has a node and it would be pinned"),
        pytest.param(facts(proposed=ORDERED, is_bound=True), id="a pod has a node and sets would be ordered"),
        pytest.param(facts(form=ORDERED, proposed=ORDERED), id="it has that form"),
    ],
)
def test_what_is_proposed_is_dropped_once(known):
    assert is_stale(known)
