"""What each scheduler makes of one and the same request."""

import pytest

from localcluster.directories import CHECKOUT
from pools.values.recovery_words import RecoveryWords, check_responses
from scheduling.backends.kai import Kai
from scheduling.capabilities import (
    QUEUE_CAPABILITIES,
    SHARE_CAPABILITIES,
    Capability,
    SchedulerVersion,
    check_queue_settings,
    check_share,
)
from tests.unit.scheduling.verdicts import ASKED, BACKENDS, use_cases, verdict

PAGE = CHECKOUT / "docs" / "reference" / "schedulers.md"


@pytest.mark.parametrize("phrase", ASKED)
def test_answered(phrase):
    asked, choices, want = ASKED[phrase]
    assert " ".join(verdict(backend, asked, choices) for backend in BACKENDS) == want


def test_the_page_of_schedulers_has_the_table_of_the_use_cases():
    """Write it anew with ``python -m tests.unit.scheduling.verdicts``."""
    assert use_cases() in PAGE.read_text()


def test_kai_and_composites_hold_the_use_cases_and_kueue_the_fourth_without_what_is_broader():
    answers = [[cell.strip() for cell in line.split("|")[3:8]] for line in use_cases().splitlines()[2:]]
    assert [(kai, composites, kueue) for kai, _, composites, _, kueue in answers] == [
        *[("accepted", "accepted", "accepted")] * 3,
        ("accepted", "accepted", "refused: `topology.nested`"),
        ("accepted", "accepted", "accepted, with warnings: preference_ignored"),
    ]


@pytest.mark.parametrize("capability", Capability)
def test_every_capability_decides_something(capability):
    """Without it some request is answered differently, so the list holds nothing that no check reads."""

    class Flat(Kai):
        needs = {need: since for need, since in Kai.needs.items() if need != Capability.TOPOLOGY_NESTED}

    class Less(Kai):
        needs = {need: since for need, since in Kai.needs.items() if need != capability}

    class LessFlat(Flat):
        needs = {need: since for need, since in Flat.needs.items() if need != capability}

    shares = dict.fromkeys(SHARE_CAPABILITIES, 7)
    settings = dict.fromkeys(QUEUE_CAPABILITIES, "5m")
    recovery = RecoveryWords({"node_lost": "task"})

    def configured(backend):
        capabilities = backend.capabilities(SchedulerVersion(0, 17))
        return (
            *check_share(shares, {}, capabilities=capabilities, path=()),
            *check_queue_settings(settings, {}, capabilities=capabilities, path=()),
            *check_responses([recovery], capabilities=capabilities),
        )

    answers = [(configured(Kai()), configured(Less()))]
    for whole, part in ((Kai(), Less()), (Flat(), LessFlat())):
        answers += [(verdict(whole, *asked[:2]), verdict(part, *asked[:2])) for asked in ASKED.values()]
    assert any(with_it != without for with_it, without in answers)
