"""A pool that gets another name under accepted work: what was accepted keeps its queue and topologies."""

import pytest

from pools import services
from pools.services import sync
from scheduling import names
from scheduling.errors import Conflict
from tests.factories import LEVELS, PoolFactory, TaskGroupFactory, installation

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="root")


def desired(pool):
    found = sync.read_desired(pool.backend.cluster_id, installation())
    return {name for _, name in found.objects}, found.kept_queues


def test_accepted_work_keeps_its_queue_under_a_pools_new_name():
    pool = PoolFactory(name="train", levels=LEVELS)
    group = TaskGroupFactory(pool=pool)
    frozen = dict(group.placement)
    before, _ = desired(pool)
    with pytest.raises(Conflict, match="1 workflow that"):
        services.rename_pool(name="train", new_name="drill", change=ADMIN, force=False)

    services.rename_pool(name="train", new_name="drill", change=ADMIN, force=True)

    group.refresh_from_db()
    assert (group.placement, group.workflow.pool_name) == (frozen, "train")
    after, kept = desired(pool)
    namespace = pool.backend.namespace
    old, new = names.queue(namespace, "train"), names.queue(namespace, "drill")
    assert frozen["queue"] == old
    assert old in kept
    assert after == before - {old} | {new}, "topologies are named by their levels"
