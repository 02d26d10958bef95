"""Backends over REST."""

import pytest

from cluster.connection import Access
from cluster.gateway import ClusterGateway
from pools.models import Backend, ConfigRevision
from tests.api.pools.conftest import POOL

pytestmark = pytest.mark.django_db

OSMO = {
    "description": "",
    "k8s_uid": "whatever",
    "dashboard_url": "https://dash.example",
    "grafana_url": "",
    "tests": [],
    "scheduler_settings": {
        "scheduler_type": "kai",
        "scheduler_name": "kai-scheduler",
        "scheduler_timeout": 30,
    },
    "node_conditions": {"rules": {}, "prefix": "osmo.example/"},
    "router_address": "wss://router.example",
}
"""A body as OSMO's client posts it."""


def faults(reply):
    return {(d["path"], d["code"]) for d in reply["details"]}


def post(admin, name, configs, **more):
    answer = admin.post(f"/api/configs/backend/{name}", {"configs": configs, **more}, format="json")
    return answer.status_code, answer.json()


def test_a_backend_is_posted_as_osmo_writes_it(admin, cluster):
    status, reply = post(admin, "kai", OSMO, description="first", tags=["new"])
    assert status == 200, reply
    for field, value in OSMO.items():
        if field != "k8s_uid":
            assert reply[field] == value
    assert reply["k8s_uid"] == cluster.kube_system_uid()
    assert (reply["online"], reply["version"], reply["warnings"]) == (True, "v1.37.2", [])
    revision = ConfigRevision.objects.get()
    assert (revision.description, revision.tags, revision.username) == ("first", ["new"], "root")


def test_a_field_that_nothing_reads_is_accepted_with_a_warning_where_it_is_not_osmos_default(admin):
    status, reply = post(admin, "a", {"tests": ["nccl"], "scheduler_settings": {"scheduler_timeout": 60}})
    assert (status, reply["tests"], reply["scheduler_settings"]["scheduler_timeout"]) == (200, ["nccl"], 60)
    timeout, tests = reply["warnings"]
    assert '"scheduler_timeout" is accepted but not carried out' in timeout
    assert '"tests" is accepted but not carried out' in tests


@pytest.mark.parametrize(
    ("configs", "want"),
    [
        (
            {"scheduler_settings": {"scheduler_typ": "kueue"}, "queue_settings": {"own_queues": True}},
            ("configs.scheduler_settings.scheduler_typ", "unknown_field"),
        ),
        (
            {"scheduler_settings": {"scheduler_typ": "kueue"}, "queue_settings": {"local_queues": ["a"]}},
            ("configs.scheduler_settings.scheduler_typ", "unknown_field"),
        ),
        ({"kubeconfig": 5, "context": "c"}, ("configs.kubeconfig", "string_type")),
        (
            {"queue_settings": {"node_pool": 5, "node_pool_label": "a/b"}},
            ("configs.queue_settings.node_pool", "string_type"),
        ),
    ],
)
def test_no_fault_follows_from_a_field_of_a_backend_that_cannot_be_read(admin, configs, want):
    status, reply = post(admin, "a", configs)
    assert (status, faults(reply)) == (400, {want})


@pytest.mark.parametrize("scheduler", ["kai", "kubernetes", "kueue"])
def test_a_backend_follows_gangs_of_others_if_somebody_says_so(admin, scheduler):
    kind = {"scheduler_settings": {"scheduler_type": scheduler}}
    assert post(admin, "a", kind)[1]["follow_others"] is False
    assert post(admin, "a", {**kind, "follow_others": True})[1]["follow_others"] is True


def test_gangs_of_others_are_not_followed_where_the_scheduler_has_none_to_read(admin):
    kind = {"scheduler_settings": {"scheduler_type": "default"}}
    status, reply = post(admin, "a", {**kind, "follow_others": True})
    assert (status, faults(reply)) == (400, {("configs.follow_others", "no_gangs_of_others")})
    assert "It is for kai, kubernetes, kueue" in str(reply)


def test_a_backend_says_whether_its_drivers_daemons_have_dns_names(admin):
    assert post(admin, "a", {})[1]["imex_dns_names"] is True
    assert post(admin, "a", {"imex_dns_names": False})[1]["imex_dns_names"] is False
    status, reply = post(admin, "a", {"imex_dns_names": "perhaps"})
    assert (status, {path for path, _ in faults(reply)}) == (400, {"configs.imex_dns_names"})


def test_the_list_has_every_backend(admin, ann):
    post(admin, "b", {})
    post(admin, "a", {})
    shown = ann.get("/api/configs/backend").json()["backends"]
    assert [entry["name"] for entry in shown] == ["a", "b"]
    assert shown[0]["capabilities"]["topology.required"] is True
    by_name = {row["capability"]: row for row in shown[0]["capability_table"]}
    assert {name: row["held"] for name, row in by_name.items()} == {
        name: held for name, held in shown[0]["capabilities"].items() if name != "max_levels"
    }
    assert by_name["topology.required"]["needs"] == "0.13"
    assert "one domain" in by_name["topology.required"]["meaning"]
    assert shown[0]["k8s_namespace"] == "osmo"


def test_a_post_changes_what_is_given_and_a_put_replaces(admin, put):
    post(admin, "kai", {**OSMO, "kubeconfig": "/etc/kai"})
    assert post(admin, "kai", {"description": "new"})[1]["kubeconfig"] == "/etc/kai"
    assert put("backend/kai", {})[1]["kubeconfig"] == ""


def test_a_put_accepts_what_a_get_returned(admin, put):
    post(admin, "kai", OSMO)
    shown = admin.get("/api/configs/backend/kai").json()
    status, reply = put("backend/kai", shown)
    assert (status, reply["revision"]) == (200, shown["revision"])


def test_another_scheduler_brings_its_own_name(admin):
    post(admin, "kai", OSMO | {"scheduler_settings": {}})
    changes = {"scheduler_settings": {"scheduler_type": "default"}}
    assert post(admin, "kai", changes)[1]["scheduler_settings"]["scheduler_name"] == "default-scheduler"
    changes["scheduler_settings"] = {"scheduler_type": "kai", "scheduler_name": "my-kai"}
    assert post(admin, "kai", changes)[1]["scheduler_settings"]["scheduler_name"] == "my-kai"


WRONG = {
    "an unknown scheduler": (
        {"scheduler_settings": {"scheduler_type": "kia"}},
        {("configs.scheduler_settings.scheduler_type", "unknown_scheduler")},
    ),
    "a kubeconfig itself": ({"kubeconfig": "apiVersion: v1"}, {("configs.kubeconfig", "invalid_path")}),
    "a context of no file": ({"context": "c"}, {("configs.context", "context_without_kubeconfig")}),
    "a namespace in capitals": ({"k8s_namespace": "Osmo"}, {("configs.k8s_namespace", "invalid_namespace")}),
    "two namespaces": (
        {"k8s_namespace": "a", "namespace": "b"},
        {("configs.namespace", "contradiction")},
    ),
    "a field nobody knows": ({"kubconfig": "/x"}, {("configs.kubconfig", "unknown_field")}),
    "a link that is none": (
        {"dashboard_url": "javascript:alert(1)"},
        {("configs.dashboard_url", "invalid_url")},
    ),
    "a router of plain HTTP": (
        {"router_address": "https://router.example"},
        {("configs.router_address", "invalid_url")},
    ),
    "a router that is another's name": (
        {"router_address": "wss://osmo.example@evil.example"},
        {("configs.router_address", "invalid_url")},
    ),
    "no time at all": (
        {"scheduler_settings": {"scheduler_timeout": 0}},
        {("configs.scheduler_settings.scheduler_timeout", "greater_than_equal")},
    ),
    "rules that no computer can read": (
        {"node_conditions": {"rules": {"a{99999999999}": "True", "(" * 100 + ")" * 100: "True"}}},
        {
            ("configs.node_conditions.rules.a{99999999999}", "invalid_rule"),
            ("configs.node_conditions.rules." + "(" * 100 + ")" * 100, "invalid_rule"),
        },
    ),
    "another name": ({"name": "x"}, {("configs.name", "wrong_name")}),
}


@pytest.mark.parametrize(("written", "want"), WRONG.values(), ids=WRONG)
def test_a_backend_is_refused_for(admin, put, written, want):
    for status, reply in (post(admin, "kai", written), put("backend/kai", written)):
        assert (status, faults(reply)) == (400, want)
    assert not Backend.objects.exists()


def test_the_namespace_may_be_given_by_its_short_name(put):
    assert put("backend/kai", {"namespace": "train"})[1]["k8s_namespace"] == "train"


def test_a_file_that_cannot_be_read_is_registered_with_a_warning(put, clusters):
    clusters["/nowhere/kubeconfig"] = ClusterGateway(Access("/nowhere/kubeconfig"))
    status, reply = put("backend/kai", {"kubeconfig": "/nowhere/kubeconfig"})
    assert status == 200
    assert "/nowhere/kubeconfig" in reply["warnings"][0]
    assert reply["online"] is False


def test_a_backend_that_a_pool_uses_is_not_deleted(pool, admin):
    answer = admin.delete("/api/configs/backend/kai", {"force": True}, format="json")
    assert answer.status_code == 409
    assert "train" in answer.json()["message"]
    admin.delete("/api/configs/pool/train")
    assert admin.delete("/api/configs/backend/kai").status_code == 200
    assert admin.get("/api/configs/backend/kai").status_code == 404


def test_a_deleted_backend_leaves_its_name(put, admin, kai):
    admin.delete("/api/configs/backend/kai")
    assert put("backend/kai", {"kubeconfig": "/etc/kai"})[0] == 200
    assert put("pool/train", POOL)[0] == 200
    assert Backend.objects.filter(name="kai").count() == 2
