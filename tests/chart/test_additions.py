"""Objects that an administrator adds to the release, and a release that is rendered where no cluster is."""

import pytest

from tests.chart.objects import PROCESSES, named, of_kind, ours, pod_of
from tests.chart.values import TABLE


def secret(content):
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "{{ .Release.Name }}-key", "namespace": "{{ .Release.Namespace }}"},
        "stringData": {"secret-key": content},
    }


def annotations(objects):
    pods = [ours(objects)[name]["spec"]["template"]["metadata"] for name in PROCESSES]
    return [pod.get("annotations", {}) for pod in pods]


def test_further_objects_stand_in_the_release_with_its_values(render):
    notes = named(render(TABLE["everything"]), "ConfigMap", "train-notes")
    assert notes["metadata"]["namespace"] == "osmo-system"
    assert notes["data"] == {"address": "https://osmo.example.com"}


def test_pods_start_again_when_a_secret_of_the_release_changes_and_only_then(render):
    first, same, other = (
        annotations(render({"extraObjects": [secret(content)], "web": {"replicas": replicas}}))
        for content, replicas in (("a" * 32, 2), ("a" * 32, 3), ("b" * 32, 2))
    )
    assert first == same
    assert all(
        pod["checksum/secrets"] != now["checksum/secrets"] for pod, now in zip(first, other, strict=True)
    )


def test_a_release_without_secrets_of_its_own_has_no_word_of_them(render):
    assert annotations(render()) == [{}] * len(PROCESSES)


def test_the_number_of_replicas_of_a_web_that_follows_its_load_is_not_the_releases(render):
    objects = render(TABLE["web that follows its load"])
    (scaler,) = of_kind(objects, "HorizontalPodAutoscaler")
    web = ours(objects)["web"]
    assert scaler["spec"]["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": web["metadata"]["name"],
    }
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 4)
    assert "replicas" not in web["spec"]
    assert pod_of(web)["topologySpreadConstraints"]
    assert ours(objects)["worker"]["spec"]["replicas"] == 2
    assert not of_kind(render(), "HorizontalPodAutoscaler")


@pytest.mark.parametrize("case", [case for case in TABLE if case != "the quickstart"])
def test_two_renderings_without_a_cluster_are_the_same(helm, render, case):
    first = render(TABLE[case])
    helm.forget()
    assert render(TABLE[case]) == first
