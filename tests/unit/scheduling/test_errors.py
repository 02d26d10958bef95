"""An error stays small, however much is wrong."""

import pytest

from scheduling.errors import LONGEST_PATH, MAX_FAULTS, Fault, InvalidSpec, format_path


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


LABEL = "a" * 253 + "/" + "b" * 63


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (("tasks", 1, "name"), "tasks[1].name"),
        (("node_selector", LABEL), f"node_selector.{LABEL}"),
        (("configs", "x" * 9_000), "configs." + "x" * 320 + "..."),
    ],
    ids=["a place", "the longest label", "a name that nobody reads"],
)
def test_a_path_is_written_as_people_do(path, want):
    assert format_path(path) == want


def test_a_path_of_many_long_names_stays_short():
    assert len(format_path(("x" * 9_000, 1) * 20)) == LONGEST_PATH + len("...")
