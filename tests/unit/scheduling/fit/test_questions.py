"""Many verdicts at a time, as a job for another process."""

import pickle
from dataclasses import replace

from scheduling.fit.questions import EditSide, Question, Questions, answer_job
from scheduling.fit.verdict import Answer, judge
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.worlds import POOL, draw, gang_demand

GANG = gang_demand(build.gang("a b c d*8: rack! r"))
BEFORE = draw("a/r1: n1 n2x n3 n4\na/r2: n5 n6 n7")
AFTER = draw("a/r1: n1 n2x n3 n4\na/r2: n5 n6 n7 n8")
PAIR = (Question(EditSide.BEFORE, POOL, True, GANG), Question(EditSide.AFTER, POOL, True, GANG))


def answers(*groups, seconds=60.0):
    questions = Questions(nodes=(BEFORE.nodes, AFTER.nodes), groups=groups, seconds=seconds)
    return pickle.loads(answer_job(pickle.dumps(questions)))


def test_each_question_is_answered_on_its_side():
    (pair, alone) = answers(PAIR, PAIR[1:])
    assert [verdict.answer for verdict in pair] == [Answer.NOT_NOW, Answer.NOW]
    assert [verdict.answer for verdict in alone] == [Answer.NOW]


def test_an_answer_is_the_verdict_without_places():
    ((_, after),) = answers(PAIR)
    assert after == replace(judge(AFTER, GANG), places={})


def test_groups_for_which_no_time_is_left_are_not_begun():
    assert answers(PAIR, seconds=-1.0) == []
