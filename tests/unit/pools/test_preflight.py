"""The checks of a preflight, by table: facts in, one result each."""

from dataclasses import replace

import pytest

from pools.clusters.probe import Probe
from pools.preflight.checks import LABELS_TO_OFFER, check_cluster, check_installation
from pools.preflight.facts import InstallationFacts
from pools.preflight.report import PreflightReport, as_json, as_text
from pools.preflight.rights import OPTIONAL_ROLES, QUEUE_RULE, account_of, rights_of
from scheduling.backends.base import Purpose
from scheduling.backends.kubernetes import KUBERNETES
from scheduling.conformance import FeatureFinding
from scheduling.preflight import Unread
from scheduling.topology.levels import Level
from tests.builders.hostile import HOSTILE, IN_ONE_LINE
from tests.unit.pools.preflights import (
    CLIQUE,
    EVERY_RIGHT,
    GOOD,
    INSTALLED,
    LEVELS,
    POOL,
    PROBE,
    REFUSED,
    scheduler,
)


def finding(purpose, *, found):
    return FeatureFinding("PodGroup.spec", purpose, found, "the served schema has no PodGroup.spec")


def pools(**more):
    return {"pools": (replace(POOL, **more),)}


def probe(**more):
    return {"probe": replace(PROBE, **more)}


def installed(**more):
    return {"installed": INSTALLED | more}


def without(*rights):
    return {right: granted and str(right) not in rights for right, granted in EVERY_RIGHT.items()}


CASES = {
    "a scheduler too old": (probe(refusal="KAI 0.13 or later is needed."), "scheduler", "failed", "0.13"),
    "a version nobody may read": (probe(doubt="It is forbidden."), "scheduler", "unknown", "forbidden"),
    "a scheduler backend that is gone": ({"scheduler": None}, "scheduler", "failed", "not installed"),
    "a field that would be lost": (
        probe(findings=(finding(Purpose.TOPOLOGY, found=False),)),
        "conformance",
        "failed",
        "no PodGroup.spec",
    ),
    "a field nobody could try": (
        probe(findings=(finding(Purpose.SCHEDULER, found=None),)),
        "conformance",
        "unknown",
        "PodGroup.spec",
    ),
    "no ComputeDomains for a pool with NVLink": (
        probe(compute_domains=False),
        "compute_domains",
        "failed",
        "train",
    ),
    "no ComputeDomains and no need": (
        probe(compute_domains=False) | pools(nvlink=False),
        "compute_domains",
        "passed",
        "No pool needs them",
    ),
    "an old ComputeDomain": (
        probe(findings=(finding(Purpose.NVLINK, found=False),)),
        "compute_domains",
        "failed",
        "train",
    ),
    "no class of channels": ({"device_class": False}, "device_class", "failed", "DeviceClass"),
    "a class nobody may read": ({"device_class": REFUSED}, "device_class", "unknown", "forbidden"),
    "a node without a channel": ({"channels": frozenset({"n0"})}, "channels", "failed", "channel: n1."),
    "channels nobody may read": ({"channels": REFUSED}, "channels", "unknown", "forbidden"),
    "no clique on any node": (pools(labels={"example.com/rack": 2}), "clique_label", "failed", CLIQUE),
    "a label no node carries": (
        pools(labels={CLIQUE: 2}),
        "pool_labels",
        "failed",
        "carries example.com/rack.",
    ),
    "a label some nodes lack": (
        pools(labels={"example.com/rack": 1, CLIQUE: 2}),
        "pool_labels",
        "passed",
        "lack example.com/rack (1 of 2)",
    ),
    "a selector that matches nothing": (pools(nodes=0), "pool_labels", "failed", "no node"),
    "nodes nobody has listed": ({"pools": REFUSED}, "pool_labels", "unknown", "not known"),
    "no pool yet": ({"pools": ()}, "pool_labels", "passed", "No pool"),
    "a right that is missing": (
        {"rights": without("create secrets")},
        "rights",
        "failed",
        "lacks 1 right: create secrets in osmo.",
    ),
    "rights nobody may review": ({"rights": REFUSED}, "rights", "unknown", "forbidden"),
    "other tenants' pods": (
        {"rights": {r: g and (r.in_namespace or r.resource != "pods") for r, g in EVERY_RIGHT.items()}},
        "optional_rights",
        "passed",
        "counts as free",
    ),
    "no shard for pod groups without a label": (
        installed(shards=({"metadata": {"name": "blue"}, "spec": {"partitionLabelValue": "blue"}},)),
        "kai_shard",
        "failed",
        "there is blue (blue)",
    ),
    "no shard of the backend's value": (
        {"shard": "green"},
        "kai_shard",
        "failed",
        "with node-pool green; there is default (no label)",
    ),
    "shards nobody may read": (installed(shards=REFUSED), "kai_shard", "unknown", "forbidden"),
    "evictions without a condition": (
        installed(schedulers=(scheduler(),)),
        "kai_eviction_condition",
        "failed",
        "kai-scheduler-default",
    ),
    "a flag that is off": (
        installed(schedulers=(scheduler("--update-pod-eviction-condition=false"),)),
        "kai_eviction_condition",
        "failed",
        "hard to recognise",
    ),
    "shards that the cluster does not serve": (
        installed(shards=Unread("GET /apis/kai.scheduler/v1: 404", is_served=False)),
        "kai_shard",
        "unknown",
        "does not serve KAI's shards",
    ),
    "flags nobody may read": (
        installed(schedulers=REFUSED),
        "kai_eviction_condition",
        "unknown",
        "forbidden",
    ),
    "the flags of another scheduler": (
        installed(schedulers=(scheduler("--update-pod-eviction-condition", name="other"),)),
        "kai_eviction_condition",
        "unknown",
        "not known",
    ),
    "a binder that may not bind claims": (
        installed(binder=({"metadata": {"name": "kai-binder"}, "rules": []},)),
        "kai_binder",
        "failed",
        "no pod with NVLink",
    ),
    "a binder on an older Kubernetes": (
        installed(binder=()) | probe(kubernetes_version="v1.35.2"),
        "kai_binder",
        "passed",
        "1.35",
    ),
    "a binder nobody may read": (installed(binder=REFUSED), "kai_binder", "unknown", "forbidden"),
    "a clock ahead": ({"clock": 42.0}, "cluster_clock", "failed", "42 s ahead of"),
    "a clock behind": ({"clock": -42.0}, "cluster_clock", "failed", "42 s behind"),
}


def result_of(facts, check):
    return next(result for result in check_cluster(facts) if result.check == check)


def test_what_a_cluster_does_not_serve_is_no_missing_right():
    change, check, *_ = CASES["shards that the cluster does not serve"]
    assert "Grant" not in result_of(replace(GOOD, **change), check).to_do


def test_a_good_cluster_passes_every_check():
    results = check_cluster(GOOD)
    assert {str(result.status) for result in results} == {"passed"}
    assert [result.to_do for result in results if result.to_do] == []


@pytest.mark.parametrize("case", CASES)
def test_each_fault_has_its_result_and_a_sentence_on_what_to_do(case):
    change, check, status, text = CASES[case]
    result = result_of(replace(GOOD, **change), check)
    assert (str(result.status), text in result.message) == (status, True), result
    assert result.message.endswith(".")
    if status != "passed":
        assert result.to_do.endswith((".", ")"))


@pytest.mark.parametrize("case", CASES)
def test_one_fault_fails_no_other_check(case):
    change, check, _, _ = CASES[case]
    related = {"clique_label", "pool_labels"} if check in {"clique_label", "pool_labels"} else {check}
    others = [result for result in check_cluster(replace(GOOD, **change)) if result.check not in related]
    assert [result for result in others if result.status == "failed"] == []


def test_a_look_alike_is_named():
    (level, wrong) = LEVELS[0], Level("clique", "nvidia.com/gpu-clique")
    result = result_of(replace(GOOD, **pools(levels=(level, wrong))), "pool_labels")
    assert (str(result.status), CLIQUE in result.to_do) == ("failed", True)


def test_labels_of_topograph_and_clouds_are_suggested_once_they_are_on_nodes():
    label = "network.topology.nvidia.com/spine"
    result = result_of(replace(GOOD, **pools(labels={**POOL.labels, label: 2})), "unused_labels")
    assert (str(result.status), label in result.to_do) == ("passed", True)
    assert all("/" in label for label in LABELS_TO_OFFER)


def test_a_cluster_that_does_not_answer_fails_once_and_leaves_the_rest_unknown():
    first, *others = check_cluster(replace(GOOD, probe=Probe(problem="no connection", reason="Unreachable")))
    assert (first.check, str(first.status)) == ("reachable", "failed")
    assert {str(result.status) for result in others} == {"unknown"}


@pytest.mark.parametrize(
    ("username", "account"),
    [
        ("system:serviceaccount:osmo-topology:worker", "worker"),
        ("system:serviceaccount:osmo:release-osmo-topology-web", "web"),
        ("system:serviceaccount:osmo:somebody", ""),
        ("worker", ""),
        ("administrator", ""),
    ],
)
def test_the_account_of_credentials(username, account):
    assert account_of(username) == account


@pytest.mark.parametrize(("granted", "want"), [(False, "failed"), (True, "passed")])
def test_a_backend_with_queues_of_our_own_needs_their_rights(granted, want):
    rights = dict.fromkeys(QUEUE_RULE.rights(), granted)
    result = result_of(replace(GOOD, rights={**EVERY_RIGHT, **rights}), "queue_rights")
    assert str(result.status) == want
    assert granted or "deploy/rbac/kueue-queues.yaml" in result.to_do


def test_a_backend_without_queues_of_our_own_is_not_asked_for_their_rights():
    """The observer needs some of them for itself, and may lack them."""
    lacking = {right: right.group != "kueue.x-k8s.io" for right in EVERY_RIGHT}
    assert "queue_rights" not in {result.check for result in check_cluster(replace(GOOD, rights=lacking))}


@pytest.mark.parametrize("role", OPTIONAL_ROLES, ids=lambda role: role.check)
def test_what_only_some_backends_need_is_asked_of_those_and_what_is_missing_is_named(role):
    """A right that other backends need too is no sign that this one asks for the others."""
    assert role.check not in {result.check for result in check_cluster(GOOD)}
    asked = {right: EVERY_RIGHT.get(right, False) for right in role.rights()}
    refused = result_of(replace(GOOD, rights=EVERY_RIGHT | asked), role.check)
    assert str(refused.status) == "failed"
    assert str(min(right for right, granted in asked.items() if not granted)) in refused.message
    assert f"deploy/rbac/{role.file}" in refused.to_do
    granted = result_of(replace(GOOD, rights=EVERY_RIGHT | dict.fromkeys(asked, True)), role.check)
    assert str(granted.status) == "passed"


@pytest.mark.parametrize("account", ["web", "observer"])
def test_the_worker_alone_keeps_queues(account):
    asked = dict.fromkeys(QUEUE_RULE.rights(), False)
    facts = replace(
        GOOD, rights={**EVERY_RIGHT, **asked}, username=f"system:serviceaccount:osmo-topology:{account}"
    )
    assert "queue_rights" not in {result.check for result in check_cluster(facts)}


def test_an_account_needs_its_own_rights_alone_and_knows_none_of_the_others():
    web = replace(
        GOOD,
        username="system:serviceaccount:osmo-topology:web",
        rights={right: right in rights_of("web", optional=False) for right in EVERY_RIGHT},
    )
    assert str(result_of(web, "rights").status) == "passed"
    others = result_of(web, "other_rights")
    assert (str(others.status), "worker and observer" in others.message) == ("unknown", True)


def test_another_scheduler_has_none_of_kais_checks():
    facts = replace(GOOD, scheduler=KUBERNETES, scheduler_type="kubernetes", installed={})
    assert not [result for result in check_cluster(facts) if result.check.startswith("kai_")]


INSTALLATION = InstallationFacts(database=180004, bounded=True, pending=(), clock=0.1, broker="master")
SERVERS = {
    "a database that is away": ({"database": Unread("connection refused")}, "database", "failed"),
    "a database that is too old": ({"database": 130011}, "database", "failed"),
    "a database that bounds no statement": ({"bounded": False}, "database", "failed"),
    "migrations to apply": ({"pending": ("pools.0042_x",)}, "migrations", "failed"),
    "migrations unread": ({"pending": REFUSED}, "migrations", "unknown"),
    "a clock that is off": ({"clock": -9.0}, "database_clock", "failed"),
    "no clock": ({"clock": REFUSED}, "database_clock", "unknown"),
    "a broker that is away": ({"broker": REFUSED}, "broker", "failed"),
    "Redis Sentinel": ({"broker": "sentinel"}, "broker", "failed"),
    "Redis Cluster": ({"broker": "cluster"}, "broker", "failed"),
    "a replica of Redis": ({"broker": "slave"}, "broker", "failed"),
}


@pytest.mark.parametrize("case", SERVERS)
def test_the_services_own_servers(case):
    change, check, status = SERVERS[case]
    assert {str(result.status) for result in check_installation(INSTALLATION)} == {"passed"}
    results = check_installation(replace(INSTALLATION, **change))
    assert {result.check: str(result.status) for result in results if result.status != "passed"} == {
        check: status
    }


def test_a_report_is_as_good_as_its_worst_check():
    good = tuple(check_installation(INSTALLATION))
    unknown = tuple(check_installation(replace(INSTALLATION, clock=REFUSED)))
    failed = tuple(check_installation(replace(INSTALLATION, broker=REFUSED)))
    reports = [PreflightReport(good, (("east", results),)) for results in (good, unknown, failed)]
    assert [(str(report.status), report.exit_code) for report in reports] == [
        ("passed", 0),
        ("unknown", 0),
        ("failed", 1),
    ]
    assert as_json(reports[2])["counts"] == {"passed": 7, "failed": 1, "unknown": 0}
    assert any("failed" in line and "broker" in line for line in as_text(reports[2]))


def test_the_words_of_a_cluster_forge_no_line_of_a_report():
    report = PreflightReport(
        (replace(check_installation(INSTALLATION)[0], message=HOSTILE, to_do=HOSTILE),), ()
    )
    lines = list(as_text(report))
    assert [line.endswith(IN_ONE_LINE) for line in lines] == [False, True, True, False]


def test_kubernetes_scheduler_is_to_score_gpus():
    facts = replace(GOOD, scheduler=KUBERNETES, scheduler_type="kubernetes", scheduler_name="stock")
    (result,) = [found for found in check_cluster(facts) if found.check == "kubernetes_scoring"]
    assert str(result.status) == "passed"
    assert "nvidia.com/gpu" in result.to_do
    assert "profile stock" in result.to_do
