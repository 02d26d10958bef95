"""Two changes at once end as if one had come after the other."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection

from pools import services
from pools.models import Backend, ConfigRevision, Pool
from scheduling.errors import TopologyError

pytestmark = pytest.mark.django_db(transaction=True)

ADMIN = services.ConfigChange(username="root")
KEYS = [{"key": "rack", "label": "example.com/rack"}]


@pytest.fixture(autouse=True)
def backend(clusters):
    return services.put_backend(name="b", document={"kubeconfig": "/etc/kai"}, change=ADMIN).value


def together(*changes):
    """Run changes at the same moment; the faults of those that were refused."""
    start = Barrier(len(changes))

    def run(change):
        start.wait(timeout=10)
        try:
            change()
        except TopologyError as error:
            return error
        finally:
            connection.close()
        return None

    with ThreadPoolExecutor(len(changes)) as threads:
        return [error for error in threads.map(run, changes) if error]


def save_keys(name="train", backend="b"):
    document = {"backend": backend, "topology_keys": KEYS}
    services.put_pool(name=name, document=document, change=ADMIN)


def take_scheduler(kind):
    changes = {"scheduler_settings": {"scheduler_type": kind}}
    services.post_backend(name="b", changes=changes, change=ADMIN)


@pytest.mark.parametrize("_round", range(8))
def test_keys_never_meet_a_scheduler_that_cannot_hold_them(_round):
    refused = together(save_keys, lambda: take_scheduler("default"))
    assert len(refused) == 1
    assert "topology.required" in refused[0].message
    kind = Backend.objects.get().scheduler_type
    assert (kind, Pool.objects.count()) in {("kai", 1), ("default", 0)}


@pytest.mark.parametrize("_round", range(4))
def test_a_pool_is_never_left_without_its_backend(_round):
    refused = together(
        lambda: services.put_pool(name="train", document={"backend": "b"}, change=ADMIN),
        lambda: services.delete_backend(name="b", change=ADMIN, force=False),
    )
    assert len(refused) == 1
    living = Backend.objects.filter(deleted_at=None).exists()
    assert living == Pool.objects.exists()


def test_revisions_count_without_a_gap():
    changes = [lambda n=n: save_keys(f"pool{n}") for n in range(8)]
    assert together(*changes) == []
    revisions = ConfigRevision.objects.filter(config_type="POOL").order_by("revision")
    assert [row.revision for row in revisions] == list(range(1, 9))
    assert {row.name: row.revision for row in revisions} == dict(Pool.objects.values_list("name", "revision"))


def test_two_registrations_of_one_pool_are_one_pool():
    assert together(save_keys, save_keys, save_keys) == []
    assert Pool.objects.get().topology_keys.count() == 1
    assert ConfigRevision.objects.filter(config_type="POOL").count() == 1


def test_of_two_editors_of_one_revision_one_is_told():
    save_keys()
    pool = Pool.objects.get()

    def edit(text):
        services.patch_pool(
            name="train", changes={"description": text}, change=ADMIN, expected_revision=pool.revision
        )

    refused = together(lambda: edit("one"), lambda: edit("two"))
    assert len(refused) == 1
    assert Pool.objects.get().revision == pool.revision + 1


def test_two_orders_of_the_same_keys_leave_one_of_them():
    keys = [*KEYS, {"key": "host", "label": "kubernetes.io/hostname"}]
    other = [{"key": "zone", "label": "z"}, *KEYS]
    refused = together(
        *[
            lambda wanted=wanted: services.put_pool(
                name="train", document={"backend": "b", "topology_keys": wanted}, change=ADMIN
            )
            for wanted in (keys, other, keys, other)
        ]
    )
    assert refused == []
    found = [(row.key, row.position) for row in Pool.objects.get().topology_keys.order_by("position")]
    assert found in ([("rack", 0), ("host", 1)], [("zone", 0), ("rack", 1)])
