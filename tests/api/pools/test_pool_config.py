"""Pools over REST: what is written is what is read, and what is wrong is refused with every fault."""

import pytest

from pools.models import Backend, ConfigRevision, Pool, TopologyKey
from tests.api.pools.conftest import POOL
from tests.factories import NodeFactory
from tests.fakes.usage import at_work

pytestmark = pytest.mark.django_db

FULL = {
    **POOL,
    "description": "The big one",
    "nvlink": True,
    "compute_domains": "claiming_groups",
    "enable_maintenance": False,
    "node_selector": {"example.com/pool": "train"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "unsupported_preferred": "warn",
    "free_preferences_after": 90,
    "node_lost_after": 600,
    "force_lost_pods": True,
    "avoid_suspect_nodes": True,
    "allow_exec": True,
    "allow_port_forward": True,
    "topology_source": "external",
    "topology_name": "dgx-floor.example",
    "default_platform": "h100",
    "platforms": {
        "h100": {
            "description": "eight GPUs",
            "nvlink": False,
            "node_selector": {"example.com/gpu": "h100"},
            "host_network_allowed": True,
            "allowed_mounts": ["/data:/mnt"],
        }
    },
    "default_exec_timeout": "8h",
    "max_exec_timeout": "2d",
    "ended_workflow_days": 30,
    "default_exit_actions": {"RESCHEDULE": "1-3,7"},
    "recovery": {
        "preempted": "requeue",
        "node_lost": "task",
        "failed": "fail",
        "unexplained": "task",
        "max": 5,
        "max_preemptions": 9,
        "replace_patience": "5m",
        "avoid_nodes": 2,
        "backoff": {"first": "10s", "limit": "1m"},
    },
    "max_recoveries": 6,
    "max_grace_period_seconds": 120,
    "resources": {"gpu": {"guarantee": 16, "maximum": -1, "weight": 2}},
}


def faults(reply):
    return {(d["path"], d["code"]) for d in reply["details"]}


def test_a_pool_reads_as_it_was_written(put, kai, ann):
    put("pool/train", FULL)
    shown = ann.get("/api/configs/pool/train").json()
    for field, value in FULL.items():
        if field == "platforms":
            assert value["h100"].items() <= shown["platforms"]["h100"].items()
        else:
            assert shown[field] == value, field
    assert shown["name"] == "train"


@pytest.mark.parametrize("query", ["", "?verbose=True"], ids=["plain", "verbose"])
def test_a_put_accepts_what_a_get_returned_and_changes_nothing(put, kai, admin, query):
    put("pool/train", FULL)
    shown = admin.get(f"/api/configs/pool/train{query}").json()
    status, reply = put("pool/train", shown)
    assert status == 200
    assert reply["revision"] == shown["revision"]
    assert ConfigRevision.objects.filter(config_type="POOL").count() == 1


def test_a_put_of_the_whole_list_accepts_what_a_get_returned(put, pool, admin):
    shown = admin.get("/api/configs/pool?verbose=True").json()["pools"]
    assert put("pool", shown)[0] == 200


def test_a_pool_that_says_nothing_of_recovery_shows_what_is_in_force(put, kai, ann):
    put("pool/train", POOL)
    shown = ann.get("/api/configs/pool/train").json()
    assert shown["recovery"] == {
        "preempted": "requeue",
        "node_lost": "requeue",
        "failed": None,  # OSMO's rule
        "unexplained": None,
        "max": 3,
        "max_preemptions": None,
        "replace_patience": "600s",
        "avoid_nodes": 0,
        "backoff": {"first": "30s", "limit": "600s"},
    }
    assert (shown["max_recoveries"], shown["max_grace_period_seconds"]) == (10, 600)


def test_a_patch_changes_one_word_of_recovery(put, kai, admin):
    put("pool/train", FULL)
    changes = {"recovery": {"failed": "requeue", "backoff": {"first": "20s"}}}
    shown = admin.patch("/api/configs/pool/train", {"configs_dict": changes}, format="json").json()
    assert shown["recovery"] == FULL["recovery"] | {
        "failed": "requeue",
        "backoff": {"first": "20s", "limit": "1m"},
    }


def test_a_patch_replaces_topology_keys_and_never_appends(pool, admin):
    keys = [{"key": "rack", "label": "example.com/rack"}]
    answer = admin.patch("/api/configs/pool/train", {"configs_dict": {"topology_keys": keys}}, format="json")
    assert answer.json()["topology_keys"] == keys
    assert TopologyKey.objects.count() == 1


def test_a_patch_swaps_two_keys(pool, admin):
    keys = POOL["topology_keys"][::-1]
    answer = admin.patch("/api/configs/pool/train", {"configs_dict": {"topology_keys": keys}}, format="json")
    assert answer.json()["topology_keys"] == keys


def test_a_patch_merges_maps_and_null_takes_away(put, kai, admin):
    put("pool/train", FULL)
    changes = {
        "node_selector": {"example.com/pool": None, "example.com/zone": "a"},
        "platforms": {"a100": {}, "h100": {"description": "new"}},
        "description": None,
    }
    shown = admin.patch("/api/configs/pool/train", {"configs_dict": changes}, format="json").json()
    assert shown["node_selector"] == {"example.com/zone": "a"}
    assert set(shown["platforms"]) == {"a100", "h100"}
    assert shown["platforms"]["h100"]["node_selector"] == {"example.com/gpu": "h100"}
    assert shown["platforms"]["h100"]["description"] == "new"
    assert shown["description"] == ""
    assert shown["nvlink"] is True


WRONG = {
    "a mistyped field, with the right one named": (
        {"topology_key": []},
        {("configs.topology_key", "unknown_field")},
    ),
    "a field unknown in a key": (
        {"topology_keys": [{"key": "rack", "label": "example.com/rack", "name": "x"}]},
        {("configs.topology_keys[0].name", "unknown_field")},
    ),
    "a field unknown in a platform": (
        {"platforms": {"p": {"nodeselector": {}}}},
        {("configs.platforms.p.nodeselector", "unknown_field")},
    ),
    "a truth that is a word": ({"nvlink": "yes"}, {("configs.nvlink", "bool_type")}),
    "a key without a label": (
        {"topology_keys": [{"key": "rack"}]},
        {("configs.topology_keys[0].label", "required")},
    ),
    "the same key twice": (
        {"topology_keys": [{"key": "a", "label": "x"}, {"key": "a", "label": "y"}]},
        {("configs.topology_keys[1].key", "duplicate_key")},
    ),
    "the same label twice": (
        {"topology_keys": [{"key": "a", "label": "x"}, {"key": "b", "label": "x"}]},
        {("configs.topology_keys[1].label", "duplicate_label")},
    ),
    "a hostname that is not the narrowest": (
        {
            "topology_keys": [
                {"key": "host", "label": "kubernetes.io/hostname"},
                {"key": "rack", "label": "example.com/rack"},
            ]
        },
        {("configs.topology_keys[0].label", "hostname_not_last")},
    ),
    "seventeen keys": (
        {"topology_keys": [{"key": f"k{i}", "label": f"l{i}"} for i in range(17)]},
        {("configs.topology_keys", "too_many_levels"), ("configs.topology_keys", "unsupported_capability")},
    ),
    "recovery that cannot be": (
        {
            "recovery": {"failed": "again", "max": -1, "tries": 2},
            "max_recoveries": -1,
            "max_grace_period_seconds": 0,
        },
        {
            ("configs.recovery.failed", "literal_error"),
            ("configs.recovery.max", "greater_than_equal"),
            ("configs.recovery.tries", "unknown_field"),
            ("configs.max_recoveries", "greater_than_equal"),
            ("configs.max_grace_period_seconds", "greater_than_equal"),
        },
    ),
    "more preemptions than any group has": (
        {"recovery": {"max_preemptions": 1_000_000}},
        {("configs.recovery.max_preemptions", "less_than_equal")},
    ),
    "attempts that are put off for more than a day": (
        {"recovery": {"backoff": {"first": "2d", "limit": "3d"}}},
        {
            ("configs.recovery.backoff.first", "over_maximum"),
            ("configs.recovery.backoff.limit", "over_maximum"),
        },
    ),
    "an unknown backend": ({"backend": "kia"}, {("configs.backend", "unknown_backend")}),
    "no backend": ({"backend": None}, {("configs.backend", "required")}),
    "a platform against its pool": (
        {"node_selector": {"a": "1"}, "platforms": {"p": {"node_selector": {"a": "2"}}}},
        {("configs.platforms.p.node_selector.a", "contradicts_pool")},
    ),
    "a platform with NVLink in a pool without": (
        {"platforms": {"p": {"nvlink": True}}},
        {("configs.platforms.p.nvlink", "nvlink_not_in_pool")},
    ),
    "a default platform that is not there": (
        {"default_platform": "p"},
        {("configs.default_platform", "unknown_platform")},
    ),
    "a timeout that is none": (
        {"max_exec_timeout": "soon"},
        {("configs.max_exec_timeout", "invalid_duration")},
    ),
    "a default timeout over the maximum": (
        {"default_exec_timeout": "2d", "max_exec_timeout": "1d"},
        {("configs.default_exec_timeout", "over_maximum")},
    ),
    "a selector that is no label": (
        {"node_selector": {"not a label!": "x"}},
        {("configs.node_selector.not a label!", "invalid_label")},
    ),
    "a toleration of nothing": (
        {"tolerations": [{}]},
        {("configs.tolerations[0].operator", "invalid_toleration")},
    ),
    "another name": ({"name": "other"}, {("configs.name", "wrong_name")}),
    "templates, which are not carried out": (
        {"common_group_templates": ["default"]},
        {("configs.common_group_templates", "not_carried")},
    ),
    "a pod template that is not there": (
        {"common_pod_template": ["default"]},
        {("configs.common_pod_template[0]", "unknown_pod_template")},
    ),
    "a default for what is counted": (
        {"common_default_variables": {"USER_GPU": 1, "USER_CPU": "many"}},
        {
            ("configs.common_default_variables.USER_GPU", "unknown_variable"),
            ("configs.common_default_variables.USER_CPU", "invalid_amount"),
        },
    ),
}


@pytest.mark.parametrize(("written", "want"), WRONG.values(), ids=WRONG)
def test_a_pool_is_refused_for(put, kai, written, want):
    status, reply = put("pool/train", {**POOL, **written})
    assert (status, faults(reply)) == (400, want)
    assert not Pool.objects.exists()
    assert not ConfigRevision.objects.filter(config_type="POOL").exists()


def test_all_faults_come_at_once(put, kai):
    status, reply = put("pool/9bad", {"backend": "kai", "nvlinks": 1, "max_exec_timeout": 3, "name": "x"})
    assert status == 400
    assert faults(reply) == {
        ("configs.name", "invalid_name"),
        ("configs.name", "wrong_name"),
        ("configs.nvlinks", "unknown_field"),
        ("configs.max_exec_timeout", "string_type"),
    }
    assert 'did you mean "nvlink"?' in {d["path"]: d["message"] for d in reply["details"]}["configs.nvlinks"]


def test_a_mistyped_field_hides_no_fault_of_the_others(put, kai):
    written = {
        "nvlinks": True,
        "topology_keys": [{"key": "a b", "label": "x"}],
        "platforms": {"p": {"nodeselector": {}, "node_selector": {"not a label!": "x"}}},
        "notify": [{"webhook": "https://example.com", "kinds": 1}],
    }
    status, reply = put("pool/train", {**POOL, **written})
    assert (status, faults(reply)) == (
        400,
        {
            ("configs.nvlinks", "unknown_field"),
            ("configs.topology_keys[0].key", "invalid_key"),
            ("configs.platforms.p.nodeselector", "unknown_field"),
            ("configs.platforms.p.node_selector.not a label!", "invalid_label"),
            ("configs.notify[0].kinds", "list_type"),
        },
    )


def test_no_fault_follows_from_a_field_that_cannot_be_read(put, kai):
    written = {
        "platform": {"gpu": {}},
        "default_platform": "gpu",
        "default_topology": {"topology": [{"key": "k"}]},
    }
    status, reply = put("pool/train", {**POOL, **written, "topology_keys": [{"key": "k", "lable": "x"}]})
    assert (status, faults(reply)) == (
        400,
        {
            ("configs.platform", "unknown_field"),
            ("configs.topology_keys[0].lable", "unknown_field"),
            ("configs.topology_keys[0].label", "required"),
        },
    )


def test_a_document_of_nothing_but_mistyped_fields_is_refused_soon(put, kai):
    """To leave each out of what is checked takes no look at all the others."""
    status, reply = put("pool/train", {**POOL, **dict.fromkeys(map(str, range(50_000)), 1)})
    assert (status, {code for _, code in faults(reply)}) == (400, {"unknown_field", "too_many_faults"})


def test_of_many_pools_none_is_saved_when_one_is_wrong(put, kai):
    status, reply = put("pool", {"a": POOL, "b": {**POOL, "topology_keys": [{"key": "!", "label": "x"}]}})
    assert status == 400
    assert faults(reply) == {("configs.b.topology_keys[0].key", "invalid_key")}
    assert not Pool.objects.exists()


def test_pools_that_are_not_named_stay(put, pool):
    assert put("pool", {"other": POOL})[0] == 200
    assert set(Pool.objects.values_list("name", flat=True)) == {"train", "other"}


def test_keys_are_refused_on_a_backend_whose_scheduler_knows_no_topology(put, kai):
    put("backend/plain", {"scheduler_settings": {"scheduler_type": "default"}})
    status, reply = put("pool/train", {**POOL, "backend": "plain"})
    assert status == 400
    assert faults(reply) == {("configs.topology_keys", "unsupported_capability")}
    assert "topology.required" in reply["message"]


def test_a_pool_with_keys_cannot_move_to_such_a_backend(put, pool, admin):
    put("backend/plain", {"scheduler_settings": {"scheduler_type": "default"}})
    answer = admin.patch("/api/configs/pool/train", {"configs_dict": {"backend": "plain"}}, format="json")
    assert answer.status_code == 400
    assert Pool.objects.get().backend.name == "kai"


def test_a_backend_under_pools_with_keys_cannot_take_such_a_scheduler(pool, admin):
    configs = {"scheduler_settings": {"scheduler_type": "default"}}
    answer = admin.post("/api/configs/backend/kai", {"configs": configs}, format="json")
    assert answer.status_code == 400
    assert faults(answer.json()) == {("configs.scheduler_settings.scheduler_type", "unsupported_capability")}
    assert '"train"' in answer.json()["message"]


def test_no_pool_is_put_on_a_disabled_backend_and_those_there_can_be_edited(put, pool, admin):
    assert put("backend/kai", {"kubeconfig": "/etc/kai", "enabled": False})[0] == 200
    assert faults(put("pool/other", POOL)[1]) == {("configs.backend", "backend_disabled")}
    assert put("pool/train", {**POOL, "description": "new"})[0] == 200


def test_an_edit_of_a_revision_that_is_gone_is_refused(put, pool, admin):
    tag = admin.get("/api/configs/pool/train")["ETag"]
    assert put("pool/train", {**POOL, "description": "one"}, HTTP_IF_MATCH=tag)[0] == 200
    status, reply = put("pool/train", {**POOL, "description": "two"}, HTTP_IF_MATCH=tag)
    assert status == 412
    assert "read it again" in reply["message"]


def test_a_deleted_pool_is_gone_and_its_history_stays(pool, admin):
    answer = admin.delete("/api/configs/pool/train", {"description": "unused"}, format="json")
    assert (answer.status_code, answer.json()) == (200, {"name": "train"})
    assert admin.get("/api/configs/pool/train").status_code == 404
    last = ConfigRevision.objects.filter(config_type="POOL").first()
    assert (last.revision, last.content, last.description, last.username) == (2, None, "unused", "root")


def test_everybody_reads_by_default_and_only_administrators_write(pool, ann):
    assert ann.get("/api/configs/pool").status_code == 200
    for verb in (ann.put, ann.patch, ann.delete):
        answer = verb("/api/configs/pool/train", {}, format="json")
        assert answer.status_code == 403
        assert answer.json()["message"] == "You hold no role that grants config:Update on 'pool/train'."


@pytest.mark.parametrize(
    "body",
    [{}, [], {"configs": []}, {"configs": "x"}, {"config": {}}, {"configs": {}, "tags": "a"}, "{"],
    ids=[
        "nothing",
        "a list",
        "a list inside",
        "a text inside",
        "another field",
        "tags that are none",
        "no JSON",
    ],
)
def test_a_body_that_is_none_is_a_400(admin, kai, body):
    for path in (
        "/api/configs/pool",
        "/api/configs/pool/train",
        "/api/configs/backend/b",
        "/api/configs/workflow",
    ):
        answer = (
            admin.put(path, body, format="json")
            if body != "{"
            else admin.put(path, body, content_type="application/json")
        )
        if (path, body) == ("/api/configs/workflow", {"configs": {}, "tags": "a"}):
            assert answer.status_code == 400
        assert answer.status_code == 400, (path, answer.json())
        assert set(answer.json()) == {"message", "error_code", "workflow_id", "details", "request_id"}


@pytest.mark.parametrize("character", ["\\u0000", "\\ud800"], ids=["a NUL", "half a surrogate pair"])
@pytest.mark.parametrize("nested", ["{}", '{"a": ' * 800 + "{}" + "}" * 800], ids=["plain", "nested"])
def test_a_character_that_cannot_be_kept_is_refused(admin, kai, character, nested):
    value = nested.replace("{}", f'"{character}"', 1)
    body = '{"configs": {"backend": "kai", "description": ' + value + "}}"
    answer = admin.put("/api/configs/pool/train", body, content_type="application/json")
    assert answer.status_code == 400
    assert "which no field accepts" in answer.json()["message"]


def test_deep_nesting_is_refused_without_a_stumble(admin, pool):
    deep = '{"configs_dict": ' + '{"a": ' * 900 + "1" + "}" * 901
    answer = admin.patch("/api/configs/pool/train", deep, content_type="application/json")
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "path", ["/api/configs/pool/%00", "/api/pool/%00/topology", "/api/pool/nope/topology"]
)
def test_an_unknown_pool_is_a_404(admin, path):
    assert admin.get(path).status_code == 404


def test_names_with_nul_in_a_query_are_refused_by_their_parameter(ann, pool):
    answer = ann.get("/api/pool?pools=%00")
    assert answer.status_code == 400
    assert faults(answer.json()) == {("pools", "unreadable")}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"topology_name": "floor"}, ("topology_name", "name_of_managed_topology")),
        ({"topology_source": "external"}, ("topology_name", "invalid_topology_name")),
        (
            {"topology_source": "external", "topology_name": "Floor_1"},
            ("topology_name", "invalid_topology_name"),
        ),
        (
            {"topology_source": "external", "topology_name": "floor", "topology_keys": []},
            ("topology_keys", "no_keys"),
        ),
        ({"local_queue": "Team_1"}, ("local_queue", "invalid_queue")),
        ({"topology_source": "borrowed"}, ("topology_source", "literal_error")),
        ({"unsupported_preferred": "ignore"}, ("unsupported_preferred", "literal_error")),
    ],
)
def test_the_owner_of_a_topology_must_be_given_wholly(put, kai, changes, fault):
    status, reply = put("pool/train", {**POOL, **changes})
    assert status == 400
    assert (f"configs.{fault[0]}", fault[1]) in faults(reply)


@pytest.mark.parametrize(
    ("secret", "code"),
    [
        ("osmo-0123-files-0", "reserved_secret_name"),
        ("user-0123-token", "reserved_secret_name"),
        ("kube-system/token", "invalid_secret_name"),
        ("../token", "invalid_secret_name"),
        ("", "invalid_secret_name"),
        ("a" * 201, "invalid_secret_name"),
        ("hub", "twice"),
    ],
)
def test_a_pool_shares_only_secrets_that_are_nobodys(put, kai, secret, code):
    status, reply = put("pool/train", {**POOL, "shared_credentials": ["hub", secret]})
    assert status == 400
    assert faults(reply) == {("configs.shared_credentials[1]", code)}


@pytest.mark.parametrize("mount", ["data", "/a/..", "/a:/../b", "/a:/b:/c", "/a:", "/a:b", "/a\n", "/a\t:/b"])
@pytest.mark.parametrize("field", ["allowed_mounts", "default_mounts"])
def test_a_mount_is_one_that_a_cluster_takes(put, kai, field, mount):
    status, reply = put("pool/train", {**POOL, "platforms": {"gpu": {field: ["/ok:/x", mount]}}})
    assert status == 400
    assert faults(reply) == {(f"configs.platforms.gpu.{field}[1]", "invalid_mount")}


@pytest.mark.parametrize("scheduler", ["kubernetes", "kueue"])
def test_a_scheduler_without_topology_objects_of_pools_has_none_to_name(put, kai, scheduler):
    """Kueue has Topologies, and finds them from the pool's queue."""
    put("backend/native", {"kubeconfig": "/etc/kai", "scheduler_settings": {"scheduler_type": scheduler}})
    document = {**POOL, "backend": "native", "topology_source": "external", "topology_name": "floor"}
    status, reply = put("pool/train", document)
    assert status == 400
    assert ("configs.topology_source", "no_topology_objects") in faults(reply)
    assert any("takes no Topology object that a pool could name" in d["message"] for d in reply["details"])


def test_a_pool_on_kueue_names_a_queue_through_every_door(put, kai, admin):
    put("backend/queued", {"kubeconfig": "/etc/kai", "scheduler_settings": {"scheduler_type": "kueue"}})
    document = {**POOL, "backend": "queued", "nvlink": False, "local_queue": "team"}
    status, reply = put("pool/train", document)
    assert (status, reply.get("local_queue")) == (200, "team"), reply
    answer = admin.patch("/api/configs/pool/train", {"configs_dict": {"local_queue": None}}, format="json")
    assert answer.json()["local_queue"] == ""
    back = {"config_type": "POOL", "revision": reply["revision"]}
    assert admin.post("/api/configs/history/rollback", back, format="json").status_code == 200
    assert admin.get("/api/configs/pool/train").json()["local_queue"] == "team"


def test_a_scheduler_without_local_queues_has_none_to_name(put, kai):
    status, reply = put("pool/train", {**POOL, "local_queue": "team"})
    assert (status, faults(reply)) == (400, {("configs.local_queue", "no_local_queues")})


def test_a_backend_keeps_its_scheduler_while_a_pool_names_a_queue_of_it(put, kai):
    queued = {"kubeconfig": "/etc/kai", "scheduler_settings": {"scheduler_type": "kueue"}}
    put("backend/queued", queued)
    put("pool/train", {"backend": "queued", "local_queue": "team"})
    status, reply = put("backend/queued", {**queued, "scheduler_settings": {"scheduler_type": "kai"}})
    assert (status, faults(reply)) == (
        400,
        {("configs.scheduler_settings.scheduler_type", "no_local_queues")},
    )


def test_a_pool_with_somebody_elses_topology_is_told_what_that_costs(put, kai):
    status, reply = put("pool/train", {**POOL, "topology_source": "external", "topology_name": "floor"})
    assert status == 200
    assert any("used as it is and never written" in said for said in reply["warnings"])


@pytest.mark.parametrize(("scheduler", "is_idle"), [("kai", True), ("kueue", False), ("default", True)])
def test_a_word_on_preferences_that_a_scheduler_does_not_need_is_told_to_have_no_effect(
    put, kai, scheduler, is_idle
):
    put("backend/other", {"kubeconfig": "/etc/kai", "scheduler_settings": {"scheduler_type": scheduler}})
    pool = {"backend": "other", "unsupported_preferred": "warn"}
    status, reply = put("pool/wordy", pool)
    assert (status, any("has no effect" in line for line in reply["warnings"])) == (200, is_idle)


@pytest.mark.parametrize("changes", [{"topology_keys": []}, {"backend": "other"}], ids=["keys", "backend"])
def test_an_edit_says_what_accepted_work_keeps(put, kai, pool, changes):
    put("backend/other", {"kubeconfig": "/etc/kai"})
    with at_work() as usage:
        usage.unreleased = 3
        _, reply = put("pool/train", {**POOL, **changes})
    (said,) = [line for line in reply["warnings"] if "keep their accepted configuration" in line]
    assert "1 workflow with 3 task groups" in said
    assert "for backend kai with topology_keys zone (example.com/zone): this change of" in said


def test_an_edit_that_touches_no_accepted_work_says_nothing_of_it(put, pool):
    with at_work() as usage:
        usage.unreleased = 3
        _, reply = put("pool/train", {**POOL, "description": "bigger"})
    assert not any("keep their accepted configuration" in line for line in reply["warnings"])


def test_a_pool_cannot_move_to_a_scheduler_that_cannot_hold_its_keys(put, pool):
    put("backend/plain", {"kubeconfig": "/etc/kai", "scheduler_settings": {"scheduler_type": "default"}})
    status, reply = put("pool/train", {**POOL, "backend": "plain"})
    assert status == 400
    assert ("configs.topology_keys", "unsupported_capability") in faults(reply)


def test_a_body_without_its_envelope_is_refused_in_whole_sentences(admin):
    answer = admin.put("/api/configs/pool/train", {"backend": "plain"}, format="json")
    assert answer.status_code == 400
    assert answer.json()["message"] == (
        'The request was refused. backend: There is no field "backend" here; '
        'configs: The configuration is given as "configs".'
    )


TEAM = {"key": "example.com/team", "effect": "NoSchedule"}
TAINTED = {
    "a node is open": ([[TEAM], []], {}, ""),
    "all nodes are tainted": (
        [[TEAM], [TEAM]],
        {},
        "tolerations: All 2 nodes of the pool carry taints that its pods do not tolerate",
    ),
    "the pool tolerates the taint": ([[TEAM]], {"tolerations": [{"operator": "Exists"}]}, ""),
    "its platforms do not": (
        [[TEAM]],
        {"platforms": {"a": {}, "b": {"tolerations": [{"key": TEAM["key"], "operator": "Exists"}]}}},
        'platforms[0].tolerations: The only node of platform "a" carries taints',
    ),
    "the taint says that a node is cordoned": (
        [[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]],
        {},
        "",
    ),
    "no node is known": ([], {}, ""),
}


@pytest.mark.parametrize("case", TAINTED)
def test_a_pool_whose_nodes_it_does_not_tolerate_is_warned(put, kai, case):
    nodes, changes, start = TAINTED[case]
    for taints in nodes:
        NodeFactory(cluster=Backend.objects.get().cluster, taints=taints)
    status, reply = put("pool/train", {**POOL, **changes})
    assert status == 200, reply
    tainted = [message for message in reply["warnings"] if "taints that" in message]
    assert [message[: len(start)] for message in tainted] == ([start] if start else [])
