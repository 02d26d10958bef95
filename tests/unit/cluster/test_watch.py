"""Following a kind: what the consumer learns after everything that can happen to a watch."""

import itertools
import threading

from cluster.errors import ClusterUnreachable, Expired, RequestForbidden, TooManyRequests
from cluster.kinds import POD
from cluster.watch import BACKOFF_MAX, Changed, Deleted, Disconnected, Reconnected, Synced, Watch, backoff
from tests.fakes.cluster import FakeCluster


def pod(name):
    return {"metadata": {"name": name, "namespace": "osmo"}, "spec": {}}


def name_of(obj):
    return obj["metadata"]["name"]


def watching(cluster, **options):
    waits = options.pop("waits", [])
    return Watch(cluster, POD, reduce=name_of, wait=waits.append, **options)


def said(events, count):
    return list(itertools.islice(events, count))


def kinds_of(events):
    return [type(event).__name__ for event in events]


def test_it_begins_with_everything_there_is_and_goes_on_with_changes():
    cluster = FakeCluster()
    cluster.create(POD, pod("a"))
    events = watching(cluster).events()
    assert next(events).items == ("a",)

    cluster.create(POD, pod("b"))
    assert next(events) == Changed("b")
    cluster.delete(POD, "a", namespace="osmo", uid=None)
    assert next(events) == Deleted("a")


def test_a_list_may_be_reduced_further_than_changes():
    cluster = FakeCluster()
    cluster.create(POD, pod("a"))
    events = watching(cluster, reduce_listed=lambda obj: f"listed {name_of(obj)}").events()
    assert next(events).items == ("listed a",)
    cluster.delete(POD, "a", namespace="osmo", uid=None)
    assert next(events) == Deleted("a")


def test_a_cut_stream_goes_on_where_it_was_without_a_list():
    cluster = FakeCluster()
    events = watching(cluster).events()
    next(events)
    cluster.create(POD, pod("a"))
    assert next(events) == Changed("a")

    cluster.cut_watches()
    cluster.create(POD, pod("b"))
    assert kinds_of(said(events, 3)) == ["Disconnected", "Reconnected", "Changed"]
    assert [call.verb for call in cluster.calls].count("list") == 1


def test_after_410_the_consumer_gets_everything_anew():
    cluster = FakeCluster()
    cluster.create(POD, pod("a"))
    events = watching(cluster).events()
    next(events)

    cluster.remove(POD, "a", namespace="osmo")
    cluster.create(POD, pod("b"))
    cluster.compact()
    assert next(events).items == ("b",)


def test_a_server_that_always_says_410_is_not_hammered():
    cluster = FakeCluster()
    waits = []
    cluster.fail(Expired("too old", status=410), verb="watch", times=4)
    events = watching(cluster, waits=waits).events()
    assert kinds_of(said(events, 4)) == ["Synced", "Synced", "Disconnected", "Reconnected"]
    assert kinds_of(said(events, 1)) == ["Synced"]
    assert len(waits) == 1


def test_an_outage_is_told_once_and_waited_out_with_growing_pauses():
    cluster = FakeCluster()
    waits = []
    cluster.fail(ClusterUnreachable("refused"), verb="list", times=5)
    events = watching(cluster, waits=waits).events()
    assert kinds_of(said(events, 3)) == ["Disconnected", "Reconnected", "Synced"]
    assert len(waits) == 5
    assert waits[-1] > waits[0]


def test_a_missing_right_is_an_outage_like_any_other():
    cluster = FakeCluster()
    cluster.fail(RequestForbidden("pods is forbidden", status=403), verb="list")
    first, second, _ = said(watching(cluster).events(), 3)
    assert isinstance(first, Disconnected)
    assert isinstance(first.error, RequestForbidden)
    assert isinstance(second, Reconnected)


def test_a_right_that_is_withdrawn_during_an_outage_is_told_and_a_list_may_be_asked_for():
    cluster = FakeCluster()
    watch = watching(cluster)
    events = watch.events()
    next(events)
    cluster.fail(ClusterUnreachable("refused"), verb="watch", times=2)
    cluster.fail(RequestForbidden("pods is forbidden", status=403), verb="watch", times=2)
    cut, forbidden = said(events, 2)
    assert (type(cut.error), type(forbidden.error)) == (ClusterUnreachable, RequestForbidden)
    watch.relist()
    assert said(events, 1) == [Reconnected(list_follows=True)]
    assert kinds_of(said(events, 1)) == ["Synced"]


def test_the_server_may_ask_for_a_longer_pause():
    cluster = FakeCluster()
    waits = []
    cluster.fail(TooManyRequests("slow down", status=429, retry_after=77), verb="list")
    said(watching(cluster, waits=waits).events(), 3)
    assert waits == [77]


def test_everything_is_listed_again_from_time_to_time():
    cluster = FakeCluster()
    clock = itertools.count(0, 400)
    events = watching(cluster, now=lambda: next(clock), watch_seconds=1).events()
    assert kinds_of(said(events, 2)) == ["Synced", "Synced"]


def test_stop_ends_a_blocked_read():
    cluster = FakeCluster()
    watch = watching(cluster)
    events = watch.events()
    next(events)
    threading.Timer(0.05, watch.stop).start()
    assert list(events) == []


def test_stop_before_the_first_event_is_heeded():
    watch = watching(FakeCluster())
    watch.stop()
    assert list(watch.events()) == []


def test_of_each_object_only_what_is_asked_for_is_kept():
    cluster = FakeCluster()
    cluster.create(POD, pod("a"))
    assert next(watching(cluster).events()) == Synced(("a",), str(cluster._version))


def test_pauses_grow_to_a_limit_and_differ_between_clients():
    pauses = [backoff(attempt, spread=0.999) for attempt in range(1, 50)]
    assert pauses == sorted(pauses)
    assert max(pauses) <= BACKOFF_MAX
    assert backoff(3, spread=0.0) < backoff(3, spread=0.9)
