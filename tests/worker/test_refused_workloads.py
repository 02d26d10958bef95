"""A webhook of Kueue that refuses our Workload, or does not answer: said as it is, and nothing stays."""

import pytest
from django.db.models import Q

from cluster.errors import RequestForbidden, ServerFault
from tests.builders.workloads import kueue_world, queued_gang
from tests.fakes.kinds import WORKLOAD
from tests.worker.world import fresh, statuses
from workflows.lifecycle.statuses import TaskStatus
from workflows.services.stop import request_stop

REFUSED = 'admission webhook "vworkload.kb.io" denied the request: spec.podSets[0].count: Invalid value'
DOWN = 'failed calling webhook "mworkload.kb.io": dial tcp 127.0.0.1:9443: connect: connection refused'


@pytest.mark.parametrize("error", [RequestForbidden(REFUSED), ServerFault(DOWN)], ids=["refuses", "is down"])
def test_the_webhooks_words_are_the_reason_and_a_stop_leaves_nothing(db, error):
    world = kueue_world()
    world.cluster.fail(error, verb="create", kind=WORKLOAD, times=50)
    group = queued_gang(world)
    assert "this is tried again: " in group.waiting_reason
    assert error.message in group.waiting_reason
    assert (world.pods(), world.cluster.all(WORKLOAD)) == ([], [])
    request_stop(Q(pk=group.pk), status=TaskStatus.FAILED_CANCELED, message="cancelled", force=False)
    world.settle()
    assert set(statuses(group)) == {"FAILED_CANCELED"}
    assert fresh(group).released_at is not None
    assert {kind for kind in world.cluster.kinds() if kind != "Node"} == set()
