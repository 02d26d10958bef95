"""Single platforms over REST, new names, and names that Kubernetes would refuse."""

import re

import pytest

from pools import selectors
from pools.models import ConfigRevision, Pool
from pools.services.pool_objects import pool_objects
from tests.api.pools.conftest import client_of
from web.models import Profile

pytestmark = pytest.mark.django_db

H100 = {"node_selector": {"example.com/gpu": "h100"}}


def rename(admin, path, new_name, **more):
    body = {"new_name": new_name, **more}
    answer = admin.put(f"/api/configs/pool/{path}/rename", body, format="json")
    return answer.status_code, answer.json()


def test_a_platform_is_added_shown_and_replaced_whole(admin, put, pool):
    assert put("pool/train/platform/h100", {**H100, "description": "fast"})[0] == 200
    status, reply = put("pool/train/platform/h100", H100)
    assert (status, reply["description"]) == (200, "")
    shown = admin.get("/api/configs/pool/train/platform").json()
    assert list(shown) == ["h100"]
    assert shown["h100"] == admin.get("/api/configs/pool/train/platform/h100").json() == reply
    missing = admin.get("/api/configs/pool/train/platform/h200")
    assert missing.status_code == 404
    assert "h100" in missing.json()["message"]


def test_faults_of_a_platform_have_paths_in_its_own_document(put, pool):
    status, reply = put("pool/train/platform/h100", {"node_selector": {"gpu": "not a value!"}, "x": 1})
    assert status == 400
    assert [entry["path"] for entry in reply["details"]] == ["configs.node_selector.gpu", "configs.x"]


def test_a_platform_of_nothing_is_refused_and_takes_none_away(admin, put, pool):
    put("pool/train/platform/h100", H100)
    assert put("pool/train/platform/h100", None)[0] == 400
    assert admin.get("/api/configs/pool/train/platform/h100").json()["node_selector"] == H100["node_selector"]


def test_a_platform_gets_another_name_and_the_default_follows(admin, put, kai):
    put("pool/train", {"backend": "kai", "platforms": {"h100": H100}, "default_platform": "h100"})
    assert rename(admin, "train/platform/h100", "h200")[0] == 200
    shown = admin.get("/api/configs/pool/train").json()
    assert (shown["default_platform"], list(shown["platforms"])) == ("h200", ["h200"])
    assert shown["platforms"]["h200"]["node_selector"] == H100["node_selector"]
    assert rename(admin, "train/platform/h100", "x")[0] == 404
    put("pool/train/platform/other", {})
    status, reply = rename(admin, "train/platform/other", "h200")
    assert (status, [entry["path"] for entry in reply["details"]]) == (400, ["new_name"])


def test_a_pool_gets_another_name_with_everything_it_has(admin, pool):
    ann = client_of(username="ann")
    assert ann.post("/api/profile/settings", {"pool": "train"}, format="json").status_code == 200
    status, reply = rename(admin, "train", "drill", description="better name")
    assert (status, reply["name"], reply["revision"]) == (200, "drill", 2)
    assert "osmo-train" in reply["warnings"][0]
    shown = admin.get("/api/configs/pool/drill").json()
    assert shown["topology_keys"] == pool["topology_keys"]
    assert admin.get("/api/configs/pool/train").status_code == 404
    rows = ConfigRevision.objects.filter(config_type="POOL").order_by("revision")
    assert [(row.name, row.content is None, row.description) for row in rows[1:]] == [
        ("drill", False, "better name"),
        ("train", True, "better name"),
    ]
    assert Profile.objects.get().pool == "drill"


def test_a_pool_with_living_workflows_keeps_its_name_unless_forced(admin, pool, running):
    running.living = 2
    status, reply = rename(admin, "train", "drill")
    assert (status, "2 workflows" in reply["message"]) == (409, True)
    Pool.objects.update(notify=[{"webhook": "https://example.org/", "kinds": ["ended"], "waits_after": 3600}])
    status, reply = rename(admin, "train", "drill", force=True)
    news = 'The targets of "drill" hear no more of the workflows that run on under "train".'
    assert (status, reply["warnings"][1]) == (200, news)


@pytest.mark.parametrize("new_name", ["other", "not a name", "", 7, "x" * 64])
def test_a_pool_keeps_its_name_where_the_new_one_is_unusable(admin, put, pool, new_name):
    put("pool/other", {"backend": "kai"})
    status, reply = rename(admin, "train", new_name)
    assert (status, [entry["path"] for entry in reply["details"]]) == (400, ["new_name"])
    assert set(Pool.objects.values_list("name", flat=True)) == {"train", "other"}


def test_names_that_kubernetes_refuses_are_mapped_and_stay_apart(admin, put, kai):
    names = ["heterogeneous_pool", "heterogeneous-pool", "A.b_C", "a.b-c", "a-b-c"]
    for name in names:
        assert (
            put(f"pool/{name}", {"backend": "kai", "topology_keys": [{"key": "r", "label": "a/r"}]})[0] == 200
        )
    objects = [
        manifest["metadata"]["name"]
        for pool in Pool.objects.select_related("backend").prefetch_related("topology_keys")
        for manifest in pool_objects(pool, selectors.installation())
        if manifest["kind"] == "Queue" and manifest["spec"].get("parentQueue")
    ]
    assert len(set(objects)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in objects)
    assert [admin.get(f"/api/configs/pool/{name}").json()["name"] for name in names] == names


def test_a_changed_list_is_replaced_as_osmos_client_sends_it(admin, pool):
    """``config update POOL P`` sends what differs, a changed list whole."""
    rack = [{"key": "rack", "label": "example.com/rack"}]
    changes = {"topology_keys": rack, "resources": {"gpu": {"weight": 2}}}
    body = {"configs_dict": changes, "description": "fewer", "tags": []}
    reply = admin.patch("/api/configs/pool/train", body, format="json").json()
    assert reply["topology_keys"] == rack
    assert reply["resources"]["gpu"]["weight"] == 2
