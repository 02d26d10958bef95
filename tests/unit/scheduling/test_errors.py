"""An error stays small, however much is wrong."""

import pytest

from scheduling.errors import MAX_FAULTS, Fault, InvalidSpec


def faults(number):
    return [Fault(("tasks", i), "type", "Wrong.", ("a",), line=i + 1, column=1) for i in range(number)]


def test_the_first_faults_are_kept_and_the_others_counted():
    kept = InvalidSpec("No.", faults(5000)).faults
    assert kept[:MAX_FAULTS] == tuple(faults(MAX_FAULTS))
    [last] = kept[MAX_FAULTS:]
    assert (last.code, last.path, last.line) == ("too_many_faults", ("tasks", MAX_FAULTS), MAX_FAULTS + 1)
    assert "4,000 more" in last.message


@pytest.mark.parametrize("number", [0, 1, MAX_FAULTS, MAX_FAULTS + 1])
def test_what_fits_is_kept_whole_also_by_an_error_made_of_an_error(number):
    assert InvalidSpec("No.", faults(number)).faults == tuple(faults(number))
    cut = InvalidSpec("No.", faults(5000))
    assert InvalidSpec("No.", cut.faults).faults == cut.faults
