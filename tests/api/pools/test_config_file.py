"""The whole configuration as one file over REST."""

import pytest
import yaml

from pools.models import ConfigRevision, Pool
from tests.api.pools.conftest import POOL

pytestmark = pytest.mark.django_db

PATH = "/api/configs/file"


@pytest.fixture
def apply(admin):
    def send(text, query="", **more):
        answer = admin.put(f"{PATH}{query}", {"file": text, **more}, format="json")
        return answer.status_code, answer.json()

    return send


def exported(client, query=""):
    return client.get(f"{PATH}{query}").json()["file"]


def test_a_file_that_was_read_changes_nothing_when_it_is_applied(pool, admin, apply):
    text = exported(admin)
    assert yaml.safe_load(text)["pools"]["train"]["topology_keys"] == POOL["topology_keys"]
    before = ConfigRevision.objects.count()
    assert apply(text, prune=True) == (200, {"changed": [], "diff": "", "warnings": []})
    assert ConfigRevision.objects.count() == before


def test_one_section_is_read_alone_and_a_type_that_is_none_is_named(pool, admin):
    assert list(yaml.safe_load(exported(admin, "?config_types=POOL"))) == ["pools"]
    wrong = admin.get(f"{PATH}?config_types=POLL")
    assert wrong.status_code == 400
    assert "POLL" in wrong.json()["message"]


def test_a_file_is_applied_as_a_whole_and_says_what_it_changed(pool, apply):
    text = "pools:\n  train: {backend: kai, description: new}\n  spare: {backend: kai}\n"
    status, reply = apply(text, description="two pools", tags=["night"])
    assert status == 200, reply
    assert [tuple(change.values()) for change in reply["changed"]] == [("POOL", "spare"), ("POOL", "train")]
    assert "+description: new" in reply["diff"]
    revision = ConfigRevision.objects.get(name="spare")
    assert (revision.username, revision.description, revision.tags) == ("root", "two pools", ["night"])


def test_a_dry_run_shows_the_same_and_writes_nothing(pool, apply):
    status, reply = apply("pools: {spare: {backend: kai}}", "?dry_run=True", prune=True)
    assert status == 200, reply
    assert [change["name"] for change in reply["changed"]] == ["spare", "train"]
    assert list(Pool.objects.values_list("name", flat=True)) == ["train"]


def test_pruning_deletes_what_the_sections_leave_out(pool, apply):
    assert apply("pools: {}", prune=True)[0] == 200
    assert not Pool.objects.exists()


@pytest.mark.parametrize(
    ("body", "path", "line"),
    [
        ({"file": "pools: {train: {backend: kai, nvlnk: true}}"}, "pools.train.nvlnk", 1),
        ({"file": "\npools:\n  train: {backend: nowhere}"}, "pools.train.backend", 3),
        ({"file": ["pools"]}, "file", None),
        ({"file": "pools: {}", "prune": "yes"}, "prune", None),
        ({"file": "pools: {}", "prun": True}, "prun", None),
        ({"files": "pools: {}"}, "files", None),
    ],
)
def test_a_wrong_file_names_each_fault_with_its_place(pool, admin, body, path, line):
    answer = admin.put(PATH, body, format="json")
    assert answer.status_code == 400
    places = {(fault["path"], fault["line"]) for fault in answer.json()["details"]}
    assert (path, line) in places
    assert Pool.objects.get().nvlink is False


def test_where_a_file_is_the_source_it_can_be_compared_and_not_applied(pool, apply, settings):
    declared = {"topology_config_file": "/etc/osmo/config.yaml"}
    settings.ENV = settings.ENV.model_copy(update=declared)
    assert apply("pools: {spare: {backend: kai}}", "?dry_run=True")[0] == 200
    status, reply = apply("pools: {spare: {backend: kai}}")
    assert status == 409
    assert "/etc/osmo/config.yaml" in reply["message"]
