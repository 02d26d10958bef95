"""Every text of KAI becomes the reason that it means, and room is said of nothing else."""

from pathlib import Path

import pytest

from scheduling.backends.kai import texts
from tests.unit.scheduling.kai_texts import GANG, NODES, TEXTS, Written, page, reasons

PAGE = Path("docs/reference/kai-texts.md")


@pytest.mark.parametrize("written", TEXTS, ids=lambda written: written.phrase)
def test_each_text_becomes_its_reason(written):
    own = [reason for reason in reasons(written) if reason.raw]
    assert tuple(reason.code for reason in own) == tuple(dict.fromkeys(written.codes)) or (
        tuple(reason.code for reason in own) == written.codes
    )
    assert own[0].message == written.sentence


@pytest.mark.parametrize("written", TEXTS, ids=lambda written: written.phrase)
def test_a_lack_of_room_is_said_of_nothing_else(written):
    room = {"NotEnoughRoom", "DomainTooSmall", "TopologyNotSatisfied"}
    if room.isdisjoint(written.codes):
        assert not any(
            "room" in reason.message for reason in reasons(written) if reason.code != "Unschedulable"
        )


def test_there_are_thirty_texts_or_more():
    assert len(TEXTS) >= 30
    assert len({written.phrase for written in TEXTS}) == len(TEXTS)


def test_the_page_lists_them():
    assert PAGE.read_text(encoding="utf-8") == page()


def test_nodes_of_other_pools_behind_a_gangs_count_are_room():
    """They never match, and the pool's own nodes, which are full, are in no list of KAI's."""
    gang = "Resources were found for 0 pods while 4 are required for gang scheduling."
    cause = "no nodes with enough resources were found: 4 node(s) didn't match Pod's node affinity/selector."
    text = f"{gang} Additional pods cannot be scheduled due to: {cause}"
    assert texts.of_room(text)
    assert texts.of_room(f"{text}.")
    assert not texts.of_room(f"{text} 1 node(s) is unschedulable")


SELECTOR = "node(s) didn't match Pod's node affinity/selector"
OF_OTHERS = (
    f"1 node is unschedulable. \n3 {SELECTOR}.",
    f"2 node has NotReady condition. \n3 {SELECTOR}.",
    "node is unschedulable.",
)


@pytest.mark.parametrize("closed", OF_OTHERS)
def test_closed_nodes_of_other_pools_are_no_reason(closed):
    """KAI asks whether a node is closed before it compares labels."""
    written = Written(phrase="", text=GANG + NODES + closed, codes=(), sentence="")
    (reason,) = reasons(written, any_closed=False)
    assert (reason.code, reason.raw) == ("NotEnoughRoom", written.text)


@pytest.mark.parametrize("known", [True, None])
@pytest.mark.parametrize("closed", OF_OTHERS)
def test_closed_nodes_that_may_be_the_pools_own_are_a_reason(closed, known):
    written = Written(phrase="", text=GANG + NODES + closed, codes=(), sentence="")
    assert "NodesClosed" in [reason.code for reason in reasons(written, any_closed=known)]


def test_a_lack_of_room_beside_closed_nodes_of_other_pools_is_the_reason():
    short = "1 node is unschedulable. \n2 node(s) didn't have enough resources: GPUs."
    written = Written(phrase="", text=GANG + NODES + short, codes=(), sentence="")
    assert {reason.code for reason in reasons(written, any_closed=False)} == {"NotEnoughRoom"}
