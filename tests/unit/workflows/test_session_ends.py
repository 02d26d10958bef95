"""How a session ends for OSMO's client, which prints what it gets to a terminal."""

from tests.builders.hostile import HOSTILE, IN_ONE_LINE
from workflows.sessions.callers import OsmoCaller
from workflows.sessions.ends import Over


def test_the_last_sentence_steers_no_terminal():
    assert Over(HOSTILE).sentence == IN_ONE_LINE
    (message,) = OsmoCaller(lines=False).last_messages("", {"status": "Failure", "message": HOSTILE})
    assert message == f"{IN_ONE_LINE}\r\n".encode()
