"""Events of many tasks as few lines, with nothing lost that differs."""

from datetime import UTC, datetime, timedelta

import pytest

from pages.workflows.timeline import LONG, MOST_MESSAGES, EventText, timeline

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def said(seconds=0, *, about="t0", reason="RUNNING", message=None, warning=False, source="osmo-topology"):
    return EventText(
        time=NOON + timedelta(seconds=seconds),
        about=about,
        source=source,
        warning=warning,
        reason=reason,
        message=f"Task {about} is RUNNING." if message is None else message,
    )


def test_an_event_that_512_tasks_share_is_one_line():
    (line,) = timeline(said(about=f"t{number}") for number in range(512))
    assert (line.count, line.about, line.text) == (512, "t0, t1, t2 and 509 more", "Task t0 is RUNNING.")
    assert (line.messages, line.more) == ((), 0)


def test_lines_stand_in_order_of_their_first_event_though_others_come_between():
    lines = timeline([said(), said(reason="Pulled"), said(1, about="t1")])
    assert [(line.reason, line.count) for line in lines] == [("RUNNING", 2), ("Pulled", 1)]


def test_a_merged_line_says_until_when_if_the_second_differs():
    (line,) = timeline([said(), said(3, about="t1")])
    assert (line.time, line.until) == (NOON, NOON + timedelta(seconds=3))
    (line,) = timeline([said(), said(0.2, about="t1")])
    assert line.until is None


def test_the_same_a_minute_later_is_a_line_of_its_own():
    assert [line.count for line in timeline([said(), said(60)])] == [1, 1]


def test_where_messages_differ_the_line_holds_each():
    (line,) = timeline(
        said(about=f"t{n}", reason="Scheduled", message=f"To node {n}.") for n in range(MOST_MESSAGES + 2)
    )
    assert line.messages[:2] == (("t0", "To node 0."), ("t1", "To node 1."))
    assert (len(line.messages), line.more) == (MOST_MESSAGES, 2)


def test_a_long_message_is_there_in_full():
    long = "x" * (LONG + 1)
    (line,) = timeline([said(message=long)])
    assert len(line.text) < len(long) + 2
    assert line.messages == (("", long),)


@pytest.mark.parametrize(
    ("message", "second", "lines"),
    [
        pytest.param("No room for t0.", "No room for t1.", 1, id="but for the task's name"),
        pytest.param(f"Pod {'a' * 32}-0 waits.", f"Pod {'b' * 32}-0 waits.", 1, id="but for the pod's"),
        pytest.param("No room.", "No such image.", 2, id="something else"),
        pytest.param("t0", "t01", 2, id="a longer name is no name"),
    ],
)
def test_warnings_are_one_line_only_if_they_say_the_same(message, second, lines):
    events = [said(message=message, warning=True), said(about="t1", message=second, warning=True)]
    assert len(timeline(events)) == lines


def test_nothing_is_an_empty_timeline():
    assert timeline([]) == ()
