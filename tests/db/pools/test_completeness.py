"""What is known of a cluster's kinds of objects, and writes about several of them at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import connection, transaction
from django.utils import timezone

from pools.models import Cluster
from pools.values.completeness import NODES, OTHERS, Completeness, where_known
from tests.builders.completeness import completeness, note_lists
from tests.builders.waiting import until


@pytest.fixture
def cluster():
    return Cluster.objects.create(uid="c")


@pytest.mark.django_db
def test_a_kind_is_unknown_until_it_was_listed(cluster):
    assert completeness("queues.example.com") == Completeness()
    note_lists({"queues.example.com": ""}, at=(at := timezone.now()))
    assert completeness("queues.example.com") == Completeness(synced_at=at)


@pytest.mark.django_db
def test_a_problem_takes_the_place_of_the_last_list(cluster):
    note_lists({OTHERS: ""})
    note_lists({OTHERS: "you may not list pods"})
    assert completeness(OTHERS) == Completeness(problem="you may not list pods")
    assert not Cluster.objects.filter(where_known(OTHERS)).exists()


@pytest.mark.django_db
def test_a_kind_that_becomes_unknown_leaves_the_map(cluster):
    note_lists({NODES: "", OTHERS: "refused"})
    note_lists({OTHERS: None})
    assert set(Cluster.objects.get().completeness) == {NODES}


@pytest.mark.django_db(transaction=True)
def test_two_writers_of_different_kinds_lose_nothing_of_each_other(cluster):
    written = Event()

    def write_later():
        try:
            assert written.wait(60)
            note_lists({OTHERS: ""})
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(write_later)
        with transaction.atomic():
            note_lists({NODES: ""})
            written.set()
            until(_one_waits_for_a_lock)
        other.result(60)
    assert completeness(NODES).is_known
    assert completeness(OTHERS).is_known


def _one_waits_for_a_lock():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_locks"
            " WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
        )
        return cursor.fetchone()[0]
