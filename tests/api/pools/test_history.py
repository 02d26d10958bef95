"""The history of configuration over REST: who changed what, sets as OSMO shows them, and going back."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from pools.models import ConfigRevision, Pool
from tests.api.pools.conftest import POOL
from tests.fakes.usage import at_work
from web.models import Role

pytestmark = pytest.mark.django_db

RACK = [{"key": "rack", "label": "example.com/rack"}]


def get(client, path, **query):
    answer = client.get(f"/api/configs/{path}", query)
    return answer.status_code, answer.json()


def post(client, path, body, **headers):
    answer = client.post(f"/api/configs/history/{path}", body, format="json", **headers)
    return answer.status_code, answer.json()


def roll_back(client, revision, config_type="POOL", **more):
    body = {"config_type": config_type, "revision": revision, **more}
    return post(client, "rollback", body)


@pytest.fixture
def story(admin, put, pool):
    """POOL 1: train made. 2: other made. 3: train loses its zone. 4: other deleted."""
    assert put("pool/other", {"backend": "kai", "description": "second"})[0] == 200
    changes = {"configs_dict": {"topology_keys": RACK}, "description": "no zones here", "tags": ["v2"]}
    assert admin.patch("/api/configs/pool/train", changes, format="json").status_code == 200
    assert admin.delete("/api/configs/pool/other").status_code == 200


def keeper(*policies):
    """Somebody who holds one role with these (actions, resources)."""
    entries = [{"actions": list(actions), "resources": list(where)} for actions, where in policies]
    Role.objects.create(name="keeper", policies=entries)
    user = User.objects.create_user("keeper")
    user.role_assignments.create(role="keeper")
    client = APIClient()
    client.force_authenticate(user)
    return client


def test_a_row_says_who_when_why_and_shows_the_whole_set_after_it(admin, story):
    status, reply = get(admin, "history", config_types="POOL")
    assert status == 200
    rows = reply["configs"]
    assert [(row["revision"], row["name"], row["username"]) for row in rows] == [
        (1, "train", "root"),
        (2, "other", "root"),
        (3, "train", "root"),
        (4, "other", "root"),
    ]
    assert (rows[2]["description"], rows[2]["tags"]) == ("no zones here", ["v2"])
    sets = [{name: len(pool["topology_keys"]) for name, pool in row["data"]["pools"].items()} for row in rows]
    assert sets == [{"train": 2}, {"train": 2, "other": 0}, {"train": 1, "other": 0}, {"train": 1}]
    assert rows[1]["data"]["pools"]["other"]["name"] == "other"
    assert len(rows[0]["created_at"]) == len("2026-01-01T00:00:00.000000")


def test_other_types_are_shown_in_osmos_shapes(admin, story):
    admin.patch("/api/configs/workflow", {"configs_dict": {"max_num_tasks": 5}}, format="json")
    rows = get(admin, "history", config_types=["BACKEND", "WORKFLOW", "ROLE"])[1]["configs"]
    assert [row["config_type"] for row in rows] == ["BACKEND", "WORKFLOW"]
    assert [entry["name"] for entry in rows[0]["data"]] == ["kai"]
    assert rows[1]["data"]["max_num_tasks"] == 5


FILTERS = {
    "one object": ({"name": "other"}, [2, 4]),
    "one revision": ({"revision": 3}, [3]),
    "a tag": ({"tags": "v2"}, [3]),
    "newest first": ({"order": "DESC"}, [4, 3, 2, 1]),
    "the newest two, oldest first": ({"limit": 2}, [3, 4]),
    "the two before them": ({"limit": 2, "offset": 2, "order": "DESC"}, [2, 1]),
    "later than now": ({"created_after": "2100-01-01T00:00:00"}, []),
    "before that": ({"created_before": "2100-01-01 00:00:00.000000"}, [1, 2, 3, 4]),
    "what held then": ({"at_timestamp": "2100-01-01 00:00:00.000000"}, [4]),
    "what held before all": ({"at_timestamp": "2000-01-01T00:00:00"}, []),
}


@pytest.mark.parametrize(("query", "want"), FILTERS.values(), ids=FILTERS)
def test_the_history_is_filtered_by(admin, story, query, want):
    status, reply = get(admin, "history", config_types="POOL", omit_data="True", **query)
    assert status == 200, reply
    assert [row["revision"] for row in reply["configs"]] == want
    assert all(row["data"] is None for row in reply["configs"])


REFUSED = {
    "a type nobody knows": ({"config_types": "POOLS"}, "config_types"),
    "a parameter nobody knows": ({"config_type": "POOL"}, "config_type"),
    "a page too long": ({"limit": 1001}, "limit"),
    "two moments": ({"at_timestamp": "2026-01-01T00:00:00", "created_after": "2026-01-01"}, "created_after"),
    "a revision of nothing": ({"revision": 0}, "revision"),
    "a moment that is none": ({"at_timestamp": "yesterday"}, "at_timestamp"),
}


@pytest.mark.parametrize(("query", "path"), REFUSED.values(), ids=REFUSED)
def test_the_history_is_not_shown_for(admin, query, path):
    status, reply = get(admin, "history", **query)
    assert status == 400
    assert [entry["path"].split("[")[0] for entry in reply["details"]] == [path], reply


def test_sets_cost_two_queries_for_each_type_and_metadata_reads_no_content(
    admin, story, django_assert_max_num_queries
):
    for number in range(20):
        changes = {"configs_dict": {"description": str(number)}}
        admin.patch("/api/configs/pool/train", changes, format="json")
    with django_assert_max_num_queries(9):
        assert len(get(admin, "history", limit=1000)[1]["configs"]) == 25
    with django_assert_max_num_queries(5) as asked:
        get(admin, "history", limit=1000, omit_data="True")
    assert not any('"content"' in query["sql"] for query in asked)


def test_a_reader_of_one_pool_sees_nothing_of_the_others(story):
    client = keeper((["config:*"], ["pool/train"]))
    rows = get(client, "history")[1]["configs"]
    assert [(row["config_type"], row["revision"]) for row in rows] == [("POOL", 1), ("POOL", 3)]
    assert [list(row["data"]["pools"]) for row in rows] == [["train"], ["train"]]
    assert get(client, "diff", config_type="POOL", first_revision=1, second_revision=2)[0] == 404
    assert roll_back(client, 2)[0] == 404
    assert roll_back(client, 1)[0] == 200


def test_a_reader_goes_back_to_nothing(story):
    client = keeper((["config:Read"], ["*"]), (["config:Update"], ["pool/other"]))
    assert roll_back(client, 1)[0] == 403
    assert client.delete("/api/configs/history/pool/revision/1").status_code == 403
    assert post(client, "pool/revision/1/tags", {"set_tags": ["x"]})[0] == 403
    assert roll_back(client, 2)[0] == 403  # it would make the pool again, on a backend that is only read
    of_backend = [{"actions": ["config:Update"], "resources": ["backend/kai"]}]
    Role.objects.create(name="host", policies=of_backend)
    User.objects.get(username="keeper").role_assignments.create(role="host")
    assert roll_back(client, 2)[0] == 200


def test_a_diff_shows_both_sets_and_what_differs(admin, story):
    status, reply = get(admin, "diff", config_type="POOL", first_revision=2, second_revision=4)
    assert status == 200
    assert list(reply["first_data"]["pools"]) == ["other", "train"]
    assert list(reply["second_data"]["pools"]) == ["train"]
    assert reply["changed"] == ["other", "train"]
    assert "-- key: zone" in reply["diff"]
    assert "--- train (POOL:2)" in reply["diff"]
    assert "+++ nothing" in reply["diff"]


def test_going_back_restores_that_pool_and_touches_no_other(admin, story, put):
    put("pool/third", {"backend": "kai"})
    status, reply = roll_back(admin, 1, description="zones again", tags=["back"])
    assert (status, reply) == (200, {"config_type": "POOL", "name": "train", "revision": 6})
    assert get(admin, "pool/train")[1]["topology_keys"] == POOL["topology_keys"]
    assert sorted(Pool.objects.values_list("name", "revision")) == [("third", 5), ("train", 6)]
    row = get(admin, "history", config_types="POOL", revision=6)[1]["configs"][0]
    assert (row["description"], row["tags"]) == ("Rolled back to POOL:1: zones again", ["back"])


def test_going_back_to_what_is_leaves_no_revision(admin, story):
    assert roll_back(admin, 3) == (200, {"config_type": "POOL", "name": "train", "revision": 3})
    assert ConfigRevision.objects.filter(config_type="POOL").count() == 4


def test_a_deleted_object_is_made_again_and_a_deletion_repeated(admin, story):
    assert roll_back(admin, 2)[0] == 200
    assert get(admin, "pool/other")[1]["description"] == "second"
    with at_work() as usage:
        usage.living = 1
        status, reply = roll_back(admin, 4)
        assert status == 409
        assert "force" in reply["message"]
        assert roll_back(admin, 4, force=True)[0] == 200
    assert get(admin, "pool/other")[0] == 404
    assert roll_back(admin, 4)[0] == 200


def test_a_revision_that_no_longer_holds_is_refused_by_name(admin, story, put):
    plain = {"scheduler_settings": {"scheduler_type": "default"}}
    put("pool/train", {"backend": "kai"})
    assert put("backend/kai", {"kubeconfig": "/etc/kai", **plain})[0] == 200
    before = list(ConfigRevision.objects.values_list("pk", flat=True))
    status, reply = roll_back(admin, 1)
    assert status == 400
    assert reply["error_code"] == "USAGE"
    assert "POOL:1" in reply["message"]
    assert [entry["path"] for entry in reply["details"]] == ["POOL:1.topology_keys"]
    assert list(ConfigRevision.objects.values_list("pk", flat=True)) == before


def test_going_back_is_refused_where_somebody_else_wrote_meanwhile(admin, story):
    body = {"config_type": "POOL", "revision": 1}
    assert post(admin, "rollback", body, HTTP_IF_MATCH='W/"1"')[0] == 412
    assert post(admin, "rollback", body, HTTP_IF_MATCH='W/"3"')[0] == 200


def test_backends_and_limits_go_back_too(admin, story, put):
    put("backend/kai", {"kubeconfig": "/etc/kai", "description": "changed"})
    assert roll_back(admin, 1, "BACKEND")[0] == 200
    assert get(admin, "backend/kai")[1]["description"] == ""
    for tasks in (5, 6):
        admin.patch("/api/configs/workflow", {"configs_dict": {"max_num_tasks": tasks}}, format="json")
    assert roll_back(admin, 1, "WORKFLOW")[0] == 200
    assert get(admin, "workflow")[1]["max_num_tasks"] == 5


NO_TARGET = {
    "nothing": ({}, ["config_type", "revision"]),
    "a type nobody knows": ({"config_type": "POOLS", "revision": 1}, ["config_type"]),
    "a number in words": ({"config_type": "POOL", "revision": "one"}, ["revision"]),
    "a number beyond all": ({"config_type": "POOL", "revision": 10**30}, ["revision"]),
    "a field nobody knows": ({"config_type": "POOL", "revision": 1, "x": 1}, ["x"]),
}


@pytest.mark.parametrize(("body", "paths"), NO_TARGET.values(), ids=NO_TARGET)
def test_going_back_is_refused_for(admin, body, paths):
    status, reply = post(admin, "rollback", body)
    assert status == 400
    assert [entry["path"] for entry in reply["details"]] == paths


def test_tags_are_added_and_removed(admin, story):
    status, reply = post(admin, "pool/revision/3/tags", {"set_tags": ["a", "b", "a"], "delete_tags": ["v2"]})
    assert (status, reply["tags"]) == (200, ["a", "b"])
    assert post(admin, "POOL/revision/3/tags", {"delete_tags": ["b"]})[1]["tags"] == ["a"]
    assert post(admin, "pool/revision/3/tags", {})[0] == 400
    assert post(admin, "pool/revision/3/tags", {"set_tags": [f"t{i}" for i in range(32)]})[0] == 400
    assert post(admin, "pool/revision/99/tags", {"set_tags": ["a"]})[0] == 404
    assert post(admin, "pool/revision/x/tags", {"set_tags": ["a"]})[0] == 400


def test_a_revision_taken_out_is_hidden_and_still_counts(admin, story):
    answer = admin.delete("/api/configs/history/pool/revision/1")
    assert (answer.status_code, answer.json()["name"]) == (200, "train")
    assert [row["revision"] for row in get(admin, "history", config_types="POOL")[1]["configs"]] == [2, 3, 4]
    rows = get(admin, "history", config_types="POOL", revision=2)[1]["configs"]
    assert list(rows[0]["data"]["pools"]) == ["other", "train"]
    assert roll_back(admin, 1)[0] == 404
    assert admin.delete("/api/configs/history/pool/revision/1").status_code == 404
    row = ConfigRevision.objects.get(config_type="POOL", revision=1)
    assert row.deleted_by == "root"
    assert timezone.now() - row.deleted_at < timedelta(minutes=5)


@pytest.mark.parametrize("path", ["revision/1", "revision/1/tags"])
def test_a_dry_run_takes_nothing_out_and_tags_nothing(admin, story, path):
    url = f"/api/configs/history/pool/{path}?dry_run=True"
    before = ConfigRevision.objects.values().get(config_type="POOL", revision=1)
    if path.endswith("tags"):
        answer = admin.post(url, {"set_tags": ["good"]}, format="json")
        assert "good" in answer.json()["tags"]
    else:
        answer = admin.delete(url)
    assert answer.status_code == 200, answer.json()
    assert ConfigRevision.objects.values().get(config_type="POOL", revision=1) == before


def test_the_revision_in_force_stays_in_the_history(admin, story):
    answer = admin.delete("/api/configs/history/pool/revision/3")
    assert answer.status_code == 409
    assert "train" in answer.json()["message"]


DRY = {
    "PUT of a pool": ("put", "pool/train", {"configs": {"backend": "kai"}}),
    "PATCH of a pool": ("patch", "pool/train", {"configs_dict": {"nvlink": True}}),
    "PUT of pools": ("put", "pool", {"configs": {"fourth": {"backend": "kai"}}}),
    "DELETE of a pool": ("delete", "pool/train", {}),
    "a pool's new name": ("put", "pool/train/rename", {"new_name": "drill"}),
    "a platform": ("put", "pool/train/platform/a100", {"configs": {}}),
    "POST of a backend": ("post", "backend/new", {"configs": {}}),
    "PUT of a backend": ("put", "backend/kai", {"configs": {"kubeconfig": "/etc/kai", "description": "x"}}),
    "a pod template": ("put", "pod_template/quiet", {"configs": {"spec": {"hostNetwork": False}}}),
    "pod templates": ("put", "pod_template", {"configs": {"quiet": {"spec": {}}}}),
    "the limits": ("patch", "workflow", {"configs_dict": {"max_num_tasks": 3}}),
    "a rollback": ("post", "history/rollback", {"config_type": "POOL", "revision": 1}),
}


@pytest.mark.parametrize(("method", "path", "body"), DRY.values(), ids=DRY)
def test_a_dry_run_writes_nothing(admin, story, method, path, body):
    before = list(ConfigRevision.objects.values_list("pk", flat=True))
    answer = getattr(admin, method)(f"/api/configs/{path}?dry_run=True", body, format="json")
    assert answer.status_code == 200, answer.json()
    assert list(ConfigRevision.objects.values_list("pk", flat=True)) == before
    assert list(Pool.objects.values_list("name", "revision")) == [("train", 3)]
    answer = getattr(admin, method)(f"/api/configs/{path}", body, format="json")
    assert answer.status_code == 200, answer.json()
    assert ConfigRevision.objects.count() > len(before)
