"""The statement that reads a pool with all that belongs to it gives what Django would read."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pools.models import Pool
from pools.selectors import pool_visible_to
from tests.factories import LEVELS, BackendFactory, PlatformFactory, PoolFactory
from web.policy import Action

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin():
    user = User.objects.create_user("root", is_staff=True)
    pool_visible_to(user, PoolFactory(name="first").name, action=Action.WORKFLOW_CREATE)
    return user


def values(row):
    return {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}


@pytest.mark.parametrize("has_cluster", [True, False])
def test_a_pool_comes_as_django_would_read_it_in_one_statement(admin, has_cluster):
    backend = BackendFactory(**({} if has_cluster else {"cluster": None}), queue_settings={"a": [1.5, None]})
    made = PoolFactory(
        name="h100",
        backend=backend,
        levels=LEVELS,
        platforms=(),
        tolerations=[{"key": "é", "tolerationSeconds": None}],
        resources={"gpu": {"maximum": 8}},
    )
    for name in ("b", "a"):
        PlatformFactory(
            pool=made,
            name=name,
            nvlink=None,
            allowed_mounts=["/data", "/x,y"],
            node_selector={"k": '"v"'},
            default_variables={"n": 1.0},
        )

    grants = CaptureQueriesContext(connection)
    with grants:
        pool = pool_visible_to(admin, "h100", action=Action.WORKFLOW_CREATE)
        keys, platforms = list(pool.topology_keys.all()), list(pool.platforms.all())
        cluster = pool.backend.cluster

    want = Pool.objects.select_related("backend__cluster").get(name="h100")
    assert [query["sql"] for query in grants if "pools_" in query["sql"]][1:] == []
    assert values(pool) == values(want)
    assert values(pool.backend) == values(want.backend)
    assert (cluster and values(cluster)) == (want.backend.cluster and values(want.backend.cluster))
    assert list(map(values, keys)) == list(map(values, want.topology_keys.all()))
    assert list(map(values, platforms)) == list(map(values, want.platforms.all()))
    assert all(row.pool is pool for row in (*keys, *platforms))
    assert not pool._state.adding
