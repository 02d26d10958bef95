"""A verdict on nodes joined with what the queues say: the answer, the first obstacle and the sentence."""

from types import SimpleNamespace

from pools.values.freshness import NEVER_OBSERVED
from scheduling.fit.admission import admitted
from scheduling.fit.verdict import Answer, Obstacle, judge
from scheduling.queues.queue_state import QueueShortage, QuotaAnswer, QuotaVerdict
from tests.unit.scheduling import build
from tests.unit.scheduling.fit.worlds import draw, gang_demand
from workflows.feasibility.queues.queue_order import preemption_for
from workflows.feasibility.verdict.sentences import sentence

FOUR = build.gang("a b c d*8: rack! r")
FREE = "a/r1: n1 n2 n3\na/r2: n4 n5 n6 n7"
TAKEN = "a/r1: n1 n2 n3\na/r2: n4x n5x n6 n7"
FULL = "a/r1: n1 n2\na/r2: n4x n5x n6x n7x"


def short(*, bound="limit", amount=64.0, used=40.0, resource="gpu"):
    shortage = QueueShortage(
        queue="q", resource=resource, bound=bound, amount=amount, used=used, requested=32.0
    )
    return QuotaVerdict(QuotaAnswer.SHORT, (shortage,))


def judged(picture, quota=None):
    verdict = judge(draw(picture), gang_demand(FOUR))
    return admitted(verdict, quota) if quota else verdict


def test_the_queue_comes_first_although_the_nodes_have_room():
    verdict = judged(FREE, short())
    assert (verdict.answer, verdict.obstacle, verdict.proven) == (Answer.NOT_NOW, Obstacle.QUOTA, True)
    assert verdict.places == {}
    assert sentence(verdict, NEVER_OBSERVED) == (
        'It does not fit now: queue "q" never allows more than 64 GPUs, 40 GPUs of them are in use, and the '
        "group asks for 32 GPUs. The nodes have room for all 4 tasks."
    )


def test_the_nodes_are_told_too_where_they_have_no_place_either():
    verdict = judged(TAKEN, short())
    assert verdict.obstacle is Obstacle.QUOTA
    assert " The nodes have no place either: the nearest rack" in sentence(verdict, NEVER_OBSERVED)


def test_a_gang_that_asks_for_more_than_the_queue_ever_allows_never_starts():
    verdict = judged(FREE, short(amount=16.0, used=0.0))
    assert (verdict.answer, verdict.proven) == (Answer.NEVER, True)
    assert sentence(verdict, NEVER_OBSERVED) == (
        'It can never start under its quotas as they are set: queue "q" never allows more than 16 GPUs '
        "and the group asks for 32 GPUs."
    )


def test_a_guarantee_bounds_what_is_not_to_be_preempted():
    assert sentence(judged(FREE, short(bound="quota", amount=16.0)), NEVER_OBSERVED) == (
        'It can never start under its quotas as they are set: queue "q" guarantees 16 GPUs, which work '
        "that is not to be preempted cannot exceed and the group asks for 32 GPUs."
    )


def test_room_is_the_obstacle_where_the_pool_has_too_little_and_topology_where_it_is_spread():
    assert judged(TAKEN).obstacle is Obstacle.TOPOLOGY
    assert judged(FULL).obstacle is Obstacle.ROOM
    assert judged(FREE).obstacle is None


def test_never_is_for_topology_where_the_empty_pool_would_hold_it():
    assert judged("a/r1: n1 n2\na/r2: n4 n5").obstacle is Obstacle.TOPOLOGY
    assert judged("a/r1: n1\na/r2: n4 n5").obstacle is Obstacle.ROOM


def test_of_many_workflows_that_may_be_preempted_only_the_first_are_named():
    gang, snapshot = gang_demand(FOUR), draw(TAKEN)
    victims = frozenset(f"w-{n:03}" for n in range(500))
    reading = SimpleNamespace(is_complete=True, victims=victims, spared={}, preemption_delay=0)
    reading.below = lambda snapshot: {}
    reading.without = lambda workflows, shares: SimpleNamespace(
        verdict=lambda demand: QuotaVerdict(QuotaAnswer.ADMITS)
    )

    preemption = preemption_for(snapshot, gang, judge(snapshot, gang), reading)

    assert preemption.workflows == tuple(f"w-{n:03}" for n in range(20))
