"""An error stays small, however much is wrong."""

import pytest

from scheduling.errors import (
    LONGEST_PATH,
    LONGEST_STEP,
    MAX_FAULTS,
    MOST_ALLOWED,
    Fault,
    InvalidSpec,
    format_path,
)


def faults(number):
    return [Fault(("tasks", i), "type", "Wrong.", ("a",), line=i + 1, column=1) for i in range(number)]


def test_the_first_faults_are_kept_and_the_others_counted():
    kept = InvalidSpec("No.", faults(5000)).faults
    assert kept[:MAX_FAULTS] == tuple(faults(MAX_FAULTS))
    [last] = kept[MAX_FAULTS:]
    assert (last.code, last.path, last.line) == ("too_many_faults", ("tasks", MAX_FAULTS), MAX_FAULTS + 1)
    assert "4,000 more" in last.message


@pytest.mark.parametrize("number", [0, 1, MAX_FAULTS, MAX_FAULTS + 1])
def test_a_text_that_fits_is_kept_whole_also_by_an_error_made_of_an_error(number):
    assert InvalidSpec("No.", faults(number)).faults == tuple(faults(number))
    cut = InvalidSpec("No.", faults(5000))
    assert InvalidSpec("No.", cut.faults).faults == cut.faults


LABEL = "a" * 253 + "/" + "b" * 63


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (("tasks", 1, "name"), "tasks[1].name"),
        (("node_selector", LABEL), f"node_selector.{LABEL}"),
        (("configs", "x" * 9_000), "configs." + "x" * 317 + "..."),
    ],
    ids=["a place", "the longest label", "a name that nobody reads"],
)
def test_a_path_is_written_as_people_do(path, want):
    assert format_path(path) == want


def test_a_path_of_many_long_names_stays_short():
    assert len(format_path(("x" * 9_000, 1) * 20)) == LONGEST_PATH


def test_the_list_of_accepted_values_is_bounded():
    names = tuple(f"{i}" + "x" * 9_000 for i in range(20))
    kept = InvalidSpec("No.", [Fault(("tasks", i), "unknown", "No.", names) for i in range(500)]).faults
    assert [len(name) for name in kept[0].allowed] == [LONGEST_STEP] * 20
    assert sum(len(name) for fault in kept for name in fault.allowed or ()) <= MOST_ALLOWED
    assert (len(kept), kept[-1].allowed) == (500, None)
    assert InvalidSpec("No.", kept).faults == kept
