"""A webhook of Kueue that refuses our Workload, or does not answer: said as it is, and nothing stays."""

import pytest
from django.db.models import Q

from cluster.errors import RequestForbidden, from_status
from tests.builders.workloads import kueue_world, queued_gang
from tests.fakes.kinds import WORKLOAD
from tests.worker.world import fresh, statuses
from workflows.lifecycle.statuses import TaskStatus
from workflows.services.stop import request_stop

REFUSED = 'admission webhook "vworkload.kb.io" denied the request: spec.podSets[0].count: Invalid value'
DOWN = (
    'Internal error occurred: failed calling webhook "mworkload.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/mutate-workload?timeout=10s": '
)
OF_A_POLICY = (
    'Internal error occurred: failed calling webhook "policies.example.com": failed to call webhook: Post '
    '"https://policies.security.svc:443/check?timeout=10s": context deadline exceeded'
)


def unanswered(message):
    return from_status({"message": message, "reason": "InternalError"}, code=500)


SILENCES = {
    "it hangs": "context deadline exceeded",
    "it is gone": "dial tcp 10.0.0.7:9443: connect: connection refused",
    "it has no pod": 'no endpoints available for service "kueue-webhook-service"',
}


@pytest.mark.parametrize("silence", SILENCES)
def test_a_scheduler_whose_webhook_gives_no_answer_is_said_not_to_answer(db, silence):
    world = kueue_world()
    error = unanswered(DOWN + SILENCES[silence])
    world.cluster.fail(error, verb="create", kind=WORKLOAD, times=50)
    group = queued_gang(world)
    assert group.waiting_why == "scheduler_silent"
    begin = (
        'Scheduler "kueue" does not answer. Its objects could not be created in the cluster; this is tried'
    )
    assert group.waiting_reason.startswith(begin)
    words = 'webhook "mworkload.kb.io", which the API server asks first, gave no answer. Internal error'
    assert words in group.waiting_reason
    assert SILENCES[silence] in group.waiting_reason


def test_a_webhook_of_somebody_else_makes_no_scheduler_silent(db):
    world = kueue_world()
    world.cluster.fail(unanswered(OF_A_POLICY), verb="create", kind=WORKLOAD, times=50)
    group = queued_gang(world)
    assert group.waiting_why == "not_made"
    assert (
        'webhook "policies.example.com", which the API server asks first, gave no answer'
        in group.waiting_reason
    )


@pytest.mark.parametrize(
    "error", [RequestForbidden(REFUSED), unanswered(DOWN)], ids=["refuses", "does not answer"]
)
def test_the_webhooks_words_are_the_reason_and_a_stop_leaves_nothing(db, error):
    world = kueue_world()
    world.cluster.fail(error, verb="create", kind=WORKLOAD, times=50)
    group = queued_gang(world)
    assert "this is tried again, at most a minute later: " in group.waiting_reason
    assert error.message in group.waiting_reason
    assert (world.pods(), world.cluster.all(WORKLOAD)) == ([], [])
    request_stop(Q(pk=group.pk), status=TaskStatus.FAILED_CANCELED, message="cancelled", force=False)
    world.settle()
    assert set(statuses(group)) == {"FAILED_CANCELED"}
    assert fresh(group).released_at is not None
    assert {kind for kind in world.cluster.kinds() if kind != "Node"} == set()
