"""What a day of many clusters costs, computed from measured prices."""

import pytest

from bench.scale import objects
from bench.scale.day import Fleet, cores
from cluster.storable import decode
from scheduling.backends.registry import scheduler_backend
from workflows.observer.foreign_usage import see_foreign_pod
from workflows.observer.waiting_gangs import WaitingGangs
from workflows.values.observation import see_node


def test_twenty_clusters_have_the_events_of_twenty():
    rates = Fleet(clusters=20).rates(peak=False)
    assert rates["heartbeats"] == pytest.approx(100_000 / 300)
    assert rates["listed"] == pytest.approx((100_000 + 100_000 * 12 + 100_000) / 600)
    assert rates["groups"] == pytest.approx(100_000 / 8 / (4 * 3600))


def test_only_new_groups_have_a_peak():
    fleet = Fleet(clusters=1)
    usual, peak = fleet.rates(peak=False), fleet.rates(peak=True)
    assert {name for name in usual if peak[name] != usual[name]} == {"groups"}
    assert peak["groups"] == pytest.approx(5 * usual["groups"])


def test_cores_are_rates_times_prices():
    fleet = Fleet(clusters=3, nodes=600)
    prices = {"observer": {"heartbeats": 0.001}, "worker": {"groups": 0.0}}
    assert cores(fleet, prices, peak=False) == {"observer": pytest.approx(3 * 2 * 0.001), "worker": 0.0}


def test_the_observer_reads_a_node_of_the_simulation_as_a_node():
    node = see_node(decode(objects.node(19, version=7)))
    assert (node.name, node.resource_version, node.ready) == ("node-19", "7", True)
    assert (node.labels[objects.RACK], node.labels[objects.POOL_LABEL]) == ("r1", "gpu")


def test_the_observer_counts_another_tenant_s_pod_of_the_simulation():
    pod = see_foreign_pod(decode(objects.foreign_pod(3, on=2, version=7)))
    assert (pod.node, pod.kind.usage[1]) == ("node-2", 100)


def test_the_observer_reads_a_waiting_gang_of_the_simulation():
    kai = scheduler_backend("kai")
    gangs = WaitingGangs([kai], ())
    pods = [gangs.see_pod(decode(objects.waiting_pod(n, version=7))) for n in range(objects.GANG + 1)]
    assert [pod.gang[2] for pod in pods] == ["group-0"] * objects.GANG + ["group-1"]
    gangs.pods_listed(pods)
    seen = [gangs.see_object(kai.pod_group, decode(objects.foreign_group(n, version=7))) for n in range(9)]
    gangs.objects_listed(kai.pod_group.crd, filter(None, seen))
    first, second = gangs.take(most=9).gangs.values()
    assert (first.obj["queue"], first.pods[0].count, second.pods[0].count) == ("team", objects.GANG, 1)
