"""What keeps a pod off all nodes beside resources; named after upstream's files."""

import dataclasses

from localcluster.standins.kai import reader
from tests.standins.worlds import group, message, placed, pods, run, world

HEAD = "Scheduling conditions were not met for pod ns/p000:"


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
                    "volumeMounts": [{"name": "settings"}, {"name": "all"}],
                    "envFrom": [{"configMapRef": {"name": "from"}}],
                    "env": [
                        {"name": "A", "valueFrom": {"configMapKeyRef": reference}},
                        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "may", "optional": True}}},
                    ],
                }
            ],
        },
    }

    read = reader.pod(body)

    assert read.volume_claims == ("claim", "p-scratch")
    assert read.config_maps == ("env", "from", "mounted", "projected")
    assert read.labels == (("app", "mine"),)
