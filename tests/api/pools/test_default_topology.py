"""The default topology of a pool and its platforms at every door: saved, shown, refused and kept."""

import pytest
from django.test import Client

from pools.models import ConfigRevision, Pool
from tests.api.pools.conftest import POOL
from tests.factories import BackendFactory

pytestmark = pytest.mark.django_db

PACK = {"pack": True}
RACK = {"key": "rack", "group": "default", "requirementType": "required"}
NEAR = {"topology": [RACK | {"requirementType": "preferred", "waitSeconds": 60}]}
PLATFORMS = {"h100": {"default_topology": NEAR}, "gb200": {}}


def faults(reply):
    return {(fault["path"], fault["code"]) for fault in reply["details"]}


def patch(admin, **changes):
    return admin.patch("/api/configs/pool/train", {"configs_dict": changes}, format="json")


def shown(client):
    """The default of the pool and of its platforms, as configuration and as any user of the pool has them."""
    defaults = []
    for pool in (
        client.get("/api/configs/pool/train").json(),
        client.get("/api/pool").json()["pools"]["train"],
    ):
        platforms = {name: row["default_topology"] for name, row in pool["platforms"].items()}
        defaults.append((pool["default_topology"], platforms))
    assert defaults[0] == defaults[1]
    return defaults[0]


def test_a_pool_has_no_default_unless_it_is_written(pool, admin):
    assert shown(admin) == (None, {})


@pytest.mark.parametrize(
    ("written", "want"),
    [
        (PACK, PACK),
        (PACK | {"topology": []}, PACK),
        (NEAR, NEAR),
        (NEAR | {"pack": False}, NEAR),
        ({"topology": [{"key": "zone"}]}, {"topology": [RACK | {"key": "zone"}]}),
        (
            {"topology": [{"key": "zone", "requirementType": "auto"}]},
            {"topology": [RACK | {"key": "zone", "requirementType": "auto"}]},
        ),
        (
            {"segment": {"size": 9, "key": "rack"}},
            {"segment": [{"size": 9, "key": "rack", "requirementType": "required"}]},
        ),
        (
            {
                "topology": [{"key": "zone"}],
                "segment": [{"size": 9, "key": "rack", "requirementType": "preferred"}],
            },
            {
                "topology": [RACK | {"key": "zone"}],
                "segment": [{"size": 9, "key": "rack", "requirementType": "preferred"}],
            },
        ),
        (None, None),
    ],
)
def test_a_default_reads_as_it_was_written_of_pool_and_platform(put, kai, admin, written, want):
    document = {**POOL, "default_topology": written, "platforms": {"h100": {"default_topology": written}}}
    assert put("pool/train", document)[0] == 200
    assert shown(admin) == (want, {"h100": want})
    revision = Pool.objects.get().revision
    assert put("pool/train", admin.get("/api/configs/pool/train").json())[0] == 200
    assert Pool.objects.get().revision == revision


NO_KEY = 'The pool has no topology key "row". Its keys, broadest first: zone, rack.'

REFUSED = {
    "an unknown field": ({"packed": True}, {(".packed", "unknown_field")}),
    "nothing in it": ({}, {("", "empty")}),
    "no packing": ({"pack": False}, {("", "empty")}),
    "both forms, with a key that is none": (
        {"pack": True, "topology": [{"key": "rack"}, {"key": "row"}]},
        {("", "both_forms")},
    ),
    "keys that the pool lacks": (
        {"topology": [{"key": "row"}, {"key": "aisle", "requirementType": "preferred"}]},
        {(".topology[0].key", "unknown_key"), (".topology[1].key", "unknown_key")},
    ),
    "one key twice": (
        {"topology": [{"key": "rack"}, {"key": "rack", "requirementType": "auto"}]},
        {(".topology[1].key", "duplicate_key")},
    ),
    "packed, with a segment": (PACK | {"segment": {"size": 2, "key": "rack"}}, {("", "both_forms")}),
    "no segment": ({"segment": []}, {(".segment", "too_short")}),
    "a segment of one task, by text": (
        {"segment": [{"size": 1, "key": "rack"}, {"size": "4", "key": "rack"}]},
        {(".segment[0].size", "greater_than_equal"), (".segment[1].size", "int_type")},
    ),
    "a segment at a key that the pool lacks": (
        {"segment": {"size": 2, "key": "row"}},
        {(".segment.key", "unknown_key")},
    ),
    "segments that do not divide": (
        {"segment": [{"size": 9, "key": "zone"}, {"size": 4, "key": "rack"}]},
        {(".segment[1].size", "segment")},
    ),
    "a segment broader than the topology above it": (
        {"topology": [{"key": "rack"}], "segment": {"size": 2, "key": "zone"}},
        {(".segment.key", "not_narrower_than_group")},
    ),
    "no key": ({"topology": [{"requirementType": "preferred"}]}, {(".topology[0].key", "required")}),
    "a type that is none": (
        {"topology": [{"key": "rack", "requirementType": "soft"}]},
        {(".topology[0].requirementType", "literal_error")},
    ),
    "a requirement that waits": (
        {"topology": [{"key": "rack", "waitSeconds": 5}]},
        {(".topology[0].waitSeconds", "wait_on_required")},
    ),
    "no mapping": ("pack", {("", "model_type")}),
    "packed by a word": ({"pack": "yes"}, {(".pack", "bool_type")}),
    "more entries than keys can be": (
        {"topology": [{"key": f"k{i}"} for i in range(17)]},
        {(".topology", "too_long")},
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_default_cannot_say_is_refused_in_pool_and_platform_at_once(put, kai, case):
    written, want = REFUSED[case]
    document = {**POOL, "default_topology": written, "platforms": {"h100": {"default_topology": written}}}
    status, reply = put("pool/train", document)
    places = ("configs.default_topology", "configs.platforms.h100.default_topology")
    assert status == 400
    assert faults(reply) == {(place + path, code) for place in places for path, code in want}
    assert not Pool.objects.exists()


def test_a_platform_may_say_that_it_has_no_default_and_a_pool_may_not(put, kai, admin):
    leaves = {"topology": []}
    document = {**POOL, "default_topology": PACK, "platforms": {"h100": {"default_topology": leaves}}}
    assert put("pool/train", document)[0] == 200
    assert shown(admin) == (PACK, {"h100": leaves})
    status, reply = put("pool/train", {**POOL, "default_topology": leaves})
    assert (status, faults(reply)) == (400, {("configs.default_topology", "empty")})


def test_a_key_that_a_default_lacks_is_answered_with_the_pools_keys(put, kai):
    _, reply = put("pool/train", {**POOL, "default_topology": {"topology": [{"key": "row"}]}})
    (fault,) = reply["details"]
    assert (fault["message"], fault["allowed"]) == (NO_KEY, ["zone", "rack"])


def test_a_key_that_a_default_names_cannot_be_removed_and_the_refusal_names_the_place(put, kai, admin):
    document = {**POOL, "default_topology": {"topology": [{"key": "zone"}]}, "platforms": PLATFORMS}
    assert put("pool/train", document)[0] == 200
    answer = patch(admin, topology_keys=POOL["topology_keys"][:1])
    assert faults(answer.json()) == {
        ("configs_dict.platforms.h100.default_topology.topology[0].key", "unknown_key")
    }
    assert len(admin.get("/api/configs/pool/train").json()["topology_keys"]) == 2


def test_any_key_of_a_packed_pool_can_be_removed(put, kai, admin):
    assert put("pool/train", {**POOL, "default_topology": PACK})[0] == 200
    for keys in (POOL["topology_keys"][:1], []):
        assert patch(admin, topology_keys=keys).status_code == 200


@pytest.fixture
def plain(put):
    assert put("backend/plain", {"scheduler_settings": {"scheduler_type": "default"}})[0] == 200


@pytest.mark.parametrize(
    ("default", "path", "capability"),
    [
        (PACK, "pack", "topology.preferred"),
        ({"topology": [{"key": "rack"}]}, "topology[0].requirementType", "topology.required"),
        (
            {"topology": [{"key": "rack", "requirementType": "auto"}]},
            "topology[0].requirementType",
            "topology.required",
        ),
        (
            {"topology": [{"key": "rack", "requirementType": "preferred"}]},
            "topology[0].requirementType",
            "topology.preferred",
        ),
    ],
    ids=["pack", "required", "auto", "preferred"],
)
def test_a_scheduler_without_topology_refuses_every_default_by_the_capability(
    put, plain, default, path, capability
):
    status, reply = put("pool/new", {"backend": "plain", "default_topology": default})
    lacking = [fault for fault in reply["details"] if fault["code"] == "unsupported_capability"]
    assert (status, [fault["path"] for fault in lacking]) == (400, [f"configs.default_topology.{path}"])
    assert capability in lacking[0]["message"]


def test_a_pool_with_a_default_is_not_moved_to_such_a_scheduler_and_its_own_is_not_changed_to_one(
    put, kai, plain, admin
):
    assert put("pool/train", {"backend": "kai", "default_topology": PACK})[0] == 200
    answer = patch(admin, backend="plain")
    assert faults(answer.json()) == {("configs_dict.default_topology.pack", "unsupported_capability")}
    settings = {"kubeconfig": "/etc/kai", "scheduler_settings": {"scheduler_type": "default"}}
    status, reply = put("backend/kai", settings)
    (fault,) = reply["details"]
    assert (status, fault["path"]) == (400, "configs.scheduler_settings.scheduler_type")
    assert fault["message"].startswith('Pool "train" of this backend has a default topology. ')


def test_patience_in_a_default_needs_a_scheduler_that_relaxes(put):
    native = BackendFactory(scheduler_type="kubernetes", scheduler_version="1.37")
    document = {**POOL, "backend": native.name, "platforms": PLATFORMS}
    _, reply = put("pool/train", document)
    (fault,) = reply["details"]
    assert fault["path"] == "configs.platforms.h100.default_topology.topology[0].waitSeconds"
    assert "topology.relax_pending" in fault["message"]


def test_a_patch_replaces_one_form_by_the_other_if_it_resets_the_first(put, kai, admin):
    assert put("pool/train", {**POOL, "default_topology": PACK})[0] == 200
    assert faults(patch(admin, default_topology=NEAR).json()) == {
        ("configs_dict.default_topology", "both_forms")
    }
    assert patch(admin, default_topology={"pack": None, **NEAR}).json()["default_topology"] == NEAR
    assert patch(admin, default_topology=None).json()["default_topology"] is None


def test_a_change_of_the_default_is_history_and_a_rollback_brings_it_back(put, kai, admin):
    put("pool/train", {**POOL, "default_topology": PACK})
    patch(admin, default_topology=None)
    revisions = ConfigRevision.objects.filter(config_type="POOL").order_by("revision")
    assert [row.content["default_topology"] for row in revisions] == [PACK, None]
    first = revisions[0].revision
    answer = admin.post(
        "/api/configs/history/rollback", {"config_type": "POOL", "revision": first}, format="json"
    )
    assert answer.status_code == 200, answer.json()
    assert shown(admin)[0] == PACK


def test_an_export_and_its_import_keep_every_default(put, kai, admin):
    document = {**POOL, "default_topology": PACK, "platforms": PLATFORMS}
    assert put("pool/train", document)[0] == 200
    file = admin.get("/api/configs/file").json()["file"]
    patch(admin, default_topology=None, platforms=None)
    assert shown(admin) == (None, {})
    answer = admin.put("/api/configs/file", {"file": file}, format="json")
    assert answer.status_code == 200, answer.json()
    assert shown(admin) == (PACK, {"h100": NEAR, "gb200": None})


def test_a_platform_keeps_its_default_when_it_is_renamed(put, kai, admin):
    put("pool/train", {**POOL, "platforms": PLATFORMS})
    answer = admin.put("/api/configs/pool/train/platform/h100/rename", {"new_name": "hopper"}, format="json")
    assert answer.status_code == 200, answer.json()
    assert shown(admin)[1] == {"hopper": NEAR, "gb200": None}


def test_a_change_says_what_accepted_work_keeps(pool, admin, running):
    running.unreleased = 3
    reply = patch(admin, default_topology=PACK).json()
    assert any("this change of default_topology does not affect them" in line for line in reply["warnings"])


def test_the_page_of_a_pool_says_what_groups_get(put, kai, admin):
    put("pool/train", {**POOL, "default_topology": PACK, "platforms": PLATFORMS})
    browser = Client()
    browser.force_login(admin.handler._force_user)
    page = " ".join(browser.get("/ui/pools/train").content.decode().split())
    assert (
        "preferred at zone, rack; required for 60 seconds, then preferred at rack (on platform h100)" in page
    )
    patch(admin, default_topology=None, platforms=None)
    assert "names no topology key gets" not in browser.get("/ui/pools/train").content.decode()
