"""What keeps a pod off all nodes, or off one, beside resources; named after upstream's files."""

import dataclasses

import pytest

from localcluster.standins.affinity import Match
from localcluster.standins.kai import reader
from localcluster.standins.kai.values import GPU, PodTerm
from localcluster.standins.quantities import UNIT
from tests.standins.worlds import group, message, node, placed, pod, pods, run, shape, world

HEAD = "Scheduling conditions were not met for pod ns/p000:"
HOST = "kubernetes.io/hostname"


def gang(count=2, picture="a/r1: n1 n2", *, cluster=None, **more):
    members = tuple(dataclasses.replace(each, **more) for each in pods(count))
    return world(picture, gpus=8, groups=(group(min_member=count),), pods=members, **(cluster or {}))


def test_predicates_go_a_volume_claim_that_does_not_exist():
    """Seen on running v0.13 and v0.17."""
    snapshot = gang(volume_claims=("data",))

    decisions = run(snapshot)

    assert placed(decisions) == {}
    assert f'{HEAD}\nVolumeBinding: persistentvolumeclaim "data" not found.' in message(decisions)
    assert "Resources were found for 0 pods while 2 are required" in message(decisions)
    told = {each.pod.name: each.message for each in decisions.pod_conditions}
    assert told["p000"].startswith(HEAD)


def test_predicates_go_a_volume_claim_that_is_there_and_one_that_is_being_deleted():
    there = dataclasses.replace(gang(volume_claims=("data",)), volume_claims={("ns", "data"): False})
    assert len(placed(run(there))) == 2

    leaving = dataclasses.replace(there, volume_claims={("ns", "data"): True})
    assert 'persistentvolumeclaim "data" is being deleted' in message(run(leaving))


def test_config_maps_go_missing_config_maps_are_named_together():
    """Seen on running v0.13 and v0.17 for one of them."""
    snapshot = gang(config_maps=("a", "b", "c"), cluster={"config_maps": frozenset({("ns", "b")})})

    assert f"{HEAD}\nConfigMap: Missing required configmaps: [a c]." in message(run(snapshot))


def test_predicates_go_all_that_fails_is_reported_at_once():
    text = message(run(gang(volume_claims=("data",), config_maps=("a",))))

    assert "VolumeBinding: " in text
    assert "ConfigMap: " in text


TOP = "Max GPU resources available in a single node in the default node-pool is topped at 8."
TOO_LARGE = {
    "more GPUs than a node has": (
        {GPU: 16 * UNIT, "pods": UNIT},
        f"requires GPU: 16, CPU: 0 (cores), memory: 0 (GB), pods: 1. {TOP}",
    ),
    "more cores": (
        {"cpu": 17 * UNIT, "pods": UNIT},
        "Max CPU resources available in a single node in the default node-pool is topped at 16 cores.",
    ),
    "a resource that no node has": (
        {"example.com/nic": UNIT, "pods": UNIT},
        "No node in the default node-pool has example.com/nic resources.",
    ),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_max_node_resources_go_a_pod_larger_than_any_node(case):
    requests, want = TOO_LARGE[case]
    large = dataclasses.replace(shape(), requests=tuple(sorted(requests.items())))

    text = message(run(gang(shape=large)))

    assert "MaxNodePoolResources: The pod ns/p000 requires " in text
    assert want in text


def test_max_node_resources_go_cordoned_nodes_count_and_those_of_another_shard_do_not():
    snapshot = gang(1, "a/r1: n1", shape=shape(16))
    large = node("big", gpus=16, unschedulable=True)
    text = message(run(dataclasses.replace(snapshot, nodes=(*snapshot.nodes, large))))
    assert "MaxNodePoolResources" not in text

    away = node("big", {"kai.scheduler/node-pool": "blue"}, gpus=16)
    text = message(run(dataclasses.replace(snapshot, nodes=(*snapshot.nodes, away))))
    assert "MaxNodePoolResources" in text


def test_predicates_go_host_ports_that_are_in_use():
    listening = shape(ports=(("TCP", 9000),))
    snapshot = gang(3, shape=listening)

    decisions = run(snapshot)

    assert placed(decisions) == {}
    assert "2 node(s) didn't have free ports for the requested pod ports" in message(decisions)
    other = dataclasses.replace(shape(), ports=(("UDP", 9000),))
    udp = dataclasses.replace(snapshot.pods[2], shape=other)
    assert len(placed(run(dataclasses.replace(snapshot, pods=(*snapshot.pods[:2], udp))))) == 3


def term(*, anti=False, key=HOST, **labels):
    selector = tuple(Match(name, "In", (value,)) for name, value in labels.items())
    return PodTerm(anti, key, selector)


MINE = (("app", "mine"),)


def test_predicates_go_anti_affinity_spreads_a_gang_over_nodes():
    lonely = shape(terms=(term(anti=True, app="mine"),))
    assert sorted(placed(run(gang(2, shape=lonely, labels=MINE))).values()) == ["n1", "n2"]

    decisions = run(gang(3, shape=lonely, labels=MINE))
    assert placed(decisions) == {}
    assert "2 node(s) didn't match pod anti-affinity rules" in message(decisions)


def test_predicates_go_the_anti_affinity_of_a_pod_that_is_there_counts_too():
    shy = pod(
        "shy",
        group="shy",
        state="releasing",
        node="n1",
        is_kai=False,
        shape=shape(0, terms=(term(anti=True, app="mine"),)),
    )
    snapshot = gang(1, "a/r1: n1", labels=MINE)

    decisions = run(dataclasses.replace(snapshot, pods=(shy, *snapshot.pods)))

    assert placed(decisions) == {}
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in message(decisions)


def test_predicates_go_affinity_keeps_a_gang_in_the_domain_of_its_first_pod():
    """The first of its kind may go anywhere; the fuller rack is too small for all, so they go to none."""
    close = shape(8, terms=(term(key="topo/rack", app="mine"),))
    picture = "a/r1: n1 n2\na/r2: n3 n4 n5"

    assert len(placed(run(gang(2, picture, shape=close, labels=MINE)))) == 2
    decisions = run(gang(3, picture, shape=close, labels=MINE))
    assert placed(decisions) == {}
    assert "3 node(s) didn't match pod affinity rules" in message(decisions)


def test_predicates_go_affinity_to_pods_that_are_nowhere_holds_on_no_node():
    fond = shape(terms=(term(app="theirs"),))

    assert "2 node(s) didn't match pod affinity rules" in message(run(gang(1, shape=fond, labels=MINE)))


def test_a_pods_needs_are_read_from_its_spec():
    reference = {"name": "env", "key": "k"}
    body = {
        "metadata": {
            "namespace": "ns",
            "name": "p",
            "uid": "u",
            "creationTimestamp": "t",
            "labels": {"app": "mine"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "scratch", "ephemeral": {}},
                {"name": "settings", "configMap": {"name": "mounted"}},
                {"name": "unused", "configMap": {"name": "unmounted"}},
                {
                    "name": "all",
                    "projected": {
                        "sources": [
                            {"configMap": {"name": "projected"}},
                            {"configMap": {"name": "kube-root-ca.crt"}},
                        ]
                    },
                },
            ],
            "containers": [
                {
                    "name": "main",
                    "ports": [{"containerPort": 1, "hostPort": 9000}, {"containerPort": 2}],
                    "volumeMounts": [{"name": "settings"}, {"name": "all"}],
                    "envFrom": [{"configMapRef": {"name": "from"}}],
                    "env": [
                        {"name": "A", "valueFrom": {"configMapKeyRef": reference}},
                        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "may", "optional": True}}},
                    ],
                }
            ],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "mine"}}}
                    ]
                }
            },
        },
    }

    read = reader.pod(body)

    assert read.volume_claims == ("claim", "p-scratch")
    assert read.config_maps == ("env", "from", "mounted", "projected")
    assert read.shape.ports == (("TCP", 9000),)
    assert read.shape.terms == (term(anti=True, app="mine"),)
    assert read.labels == (("app", "mine"),)
