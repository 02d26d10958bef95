"""What each scheduler makes of one and the same request."""

import pytest

from tests.unit.scheduling.verdicts import ASKED, BACKENDS, table, verdict


@pytest.mark.parametrize("phrase", ASKED)
def test_answered(phrase):
    asked, choices, want = ASKED[phrase]
    assert " ".join(verdict(backend, asked, choices) for backend in BACKENDS) == want


def test_the_table_has_a_line_for_each_and_names_capabilities_in_full():
    lines = table().splitlines()
    assert len(lines) == len(ASKED) + 2
    assert "| rather one rack |  | accepted | refused: `topology.preferred` |" in table()
