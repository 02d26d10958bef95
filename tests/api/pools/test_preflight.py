"""The preflight over REST: for those who may read backends, and about the backends that they may read."""

import pytest
from django.core.management import CommandError, call_command

from cluster.kinds import CONFIG_MAP
from tests.fakes.kai import kai_cluster
from web.limits import throttles
from web.models import Role

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clusters_of_a_day(monkeypatch):
    monkeypatch.setattr(throttles, "CHECKS_PER_MINUTE", 1000)


def by_check(checks):
    return {entry["check"]: entry["status"] for entry in checks}


def test_it_checks_the_installation_and_each_backend(admin, kai, pool):
    answer = admin.get("/api/preflight")
    assert answer.status_code == 200
    report = answer.json()
    assert by_check(report["installation"])["database"] == "passed"
    assert by_check(report["installation"])["migrations"] == "passed"
    (entry,) = report["backends"]
    assert entry["backend"] == "kai"
    checks = by_check(entry["checks"])
    assert (checks["reachable"], checks["cluster_clock"], checks["scheduler"]) == ("passed",) * 3
    assert checks["pool_labels"] == "failed"  # the cluster has no node
    assert report["status"] == "failed"
    assert report["counts"]["failed"] == sum(
        check["status"] == "failed" for part in (report["installation"], entry["checks"]) for check in part
    )


def test_the_configuration_of_kueue_is_read_from_its_config_map(admin, put, clusters):
    cluster = clusters["/etc/west"] = kai_cluster(uid="33333333-3333-3333-3333-333333333333")
    settings = {"kubeconfig": "/etc/west", "scheduler_settings": {"scheduler_type": "kueue"}}
    assert put("backend/west", settings)[0] == 200

    def status():
        (entry,) = admin.get("/api/preflight?backend=west").json()["backends"]
        return by_check(entry["checks"])["kueue_topology"]

    assert status() == "unknown"
    text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nfeatureGates: {TopologyAwareScheduling: false}"
    metadata = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    cluster.put(CONFIG_MAP, {"metadata": metadata, "data": {"controller_manager_config.yaml": text}})
    assert status() == "failed"


def test_one_backend_alone_and_one_that_is_not_there(admin, put, kai, clusters):
    clusters["/etc/west"] = kai_cluster(uid="33333333-3333-3333-3333-333333333333")
    assert put("backend/west", {"kubeconfig": "/etc/west"})[0] == 200
    report = admin.get("/api/preflight?backend=west").json()
    assert [entry["backend"] for entry in report["backends"]] == ["west"]
    absent = admin.get("/api/preflight?backend=nowhere")
    assert (absent.status_code, "west" in str(absent.json()["details"])) == (400, True)
    assert admin.get("/api/preflight?backends=west").status_code == 400


def test_a_backend_that_the_caller_may_not_read_is_not_checked(ann, kai, settings):
    settings.DEFAULT_ROLES = ["reader"]
    Role.objects.create(
        name="reader", policies=[{"actions": ["config:Read"], "resources": ["backend/other"]}]
    )
    report = ann.get("/api/preflight").json()
    assert report["backends"] == []
    refused = ann.get("/api/preflight?backend=kai")
    assert (refused.status_code, refused.json()["details"][0]["code"]) == (400, "unknown_backend")


def test_a_caller_who_asks_too_often_waits(admin, kai, monkeypatch):
    monkeypatch.setattr(throttles, "CHECKS_PER_MINUTE", 1)
    answers = [admin.get("/api/preflight").status_code for _ in range(3)]
    assert answers[-1] == 429


def test_the_command_knows_a_backend_that_is_not_there_from_a_cluster_that_was_not_checked(kai):
    with pytest.raises(CommandError, match='There is no backend "east"'):
        call_command("preflight", "--backend", "east")
