"""How many gangs of others wait beside a group of ours, in a sentence."""

import pytest

from workflows.explain.waiting_beside import WaitingBeside

SENTENCES = {
    "none waits": (0, 0, ""),
    "one, and longer": (1, 1, "1 group of others waits too, and for longer."),
    "one, since later": (1, 0, "1 group of others waits too, but not for longer."),
    "some of several longer": (3, 2, "3 groups of others wait too, 2 of them for longer."),
    "several, since later": (3, 0, "3 groups of others wait too, none of them for longer."),
}


@pytest.mark.parametrize(("groups", "longer", "want"), SENTENCES.values(), ids=SENTENCES)
def test_the_sentence_counts_as_people_do(groups, longer, want):
    assert WaitingBeside(groups, longer).sentence == want
