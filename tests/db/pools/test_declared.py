"""A file as the source of configuration: applied, refused, and no other door open."""

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from pools import selectors, services
from pools.models import Backend, ConfigRevision, PodTemplate, Pool
from pools.services import declared, health
from tests.builders.configuration import FILE
from tests.fakes.usage import at_work
from workflows.services.gauges import read

pytestmark = pytest.mark.django_db

ADMIN = services.ConfigChange(username="setup")


@pytest.fixture
def file(tmp_path, settings):
    path = tmp_path / "pools.yaml"
    path.write_text(FILE)
    settings.ENV = settings.ENV.model_copy(update={"topology_config_file": str(path)})
    return path


@pytest.fixture
def root(db):
    client = APIClient()
    client.force_authenticate(User.objects.create_user("root", is_staff=True))
    return client


def line():
    [finding] = health.configuration()
    return finding.line


def test_a_file_is_applied_once_and_again_when_it_changes(file):
    assert "not applied yet" in line()
    assert declared.apply()["status"] == "True"
    assert line().startswith("ok")
    count = ConfigRevision.objects.count()
    assert set(ConfigRevision.objects.values_list("username", flat=True)) == {"OSMO_TOPOLOGY_CONFIG_FILE"}
    call_command("apply_config")
    assert ConfigRevision.objects.count() == count
    file.write_text(FILE.replace("nvlink: true", "nvlink: false"))
    declared.apply()
    assert ConfigRevision.objects.count() == count + 1
    assert Pool.objects.get(name="train").nvlink is False


def test_a_pool_that_the_file_does_not_name_is_deleted(file):
    declared.apply()
    file.write_text(FILE.replace("  spare:\n    backend: kai\n", ""))
    with at_work() as usage:
        usage.living = 1
        assert "pools.spare" in declared.apply()["message"]
        assert Pool.objects.filter(name="spare").exists()
    assert declared.apply()["status"] == "True"
    assert not Pool.objects.filter(name="spare").exists()


@pytest.mark.parametrize("section", ["workflow: {}\n", "workflow:\n"])
def test_limits_that_the_file_takes_back_are_the_defaults_again(file, section):
    file.write_text(FILE + "workflow: {max_num_tasks: 3}\n")
    declared.apply()
    assert selectors.workflow_limits().max_num_tasks == 3
    file.write_text(FILE + section)
    assert declared.apply()["status"] == "True"
    assert selectors.workflow_limits().max_num_tasks == 10_000
    count = ConfigRevision.objects.count()
    declared.apply()
    assert ConfigRevision.objects.count() == count


def test_a_template_and_the_pools_with_it_move_to_other_nodes_together(file):
    both = (
        "pod_templates: {{zoned: {{spec: {{nodeSelector: {{zone: {0}}}}}}}}}\n"
        "backends: {{kai: {{kubeconfig: /etc/kai}}}}\n"
        "pools: {{train: {{backend: kai, node_selector: {{zone: {0}}}, common_pod_template: [zoned]}}}}\n"
    )
    file.write_text(both.format("a"))
    assert declared.apply()["status"] == "True"
    file.write_text(both.format("b"))
    assert declared.apply()["status"] == "True", declared.condition()
    pool = Pool.objects.get()
    assert pool.node_selector == {"zone": "b"}
    assert pool.applied_template["pod"]["spec"]["nodeSelector"] == {"zone": "b"}


def test_a_template_that_contradicts_a_pool_outside_the_file_is_refused(file):
    document = {"spec": {"nodeSelector": {"zone": "a"}}}
    change = replace(ADMIN, mode=services.WriteMode.DECLARED)
    services.put_backend(name="kai", document={"kubeconfig": "/etc/kai"}, change=change)
    services.put_pod_template(name="zoned", document=document, change=change)
    pool = {"backend": "kai", "node_selector": {"zone": "a"}, "common_pod_template": ["zoned"]}
    services.put_pool(name="train", document=pool, change=change)
    file.write_text("pod_templates: {zoned: {spec: {nodeSelector: {zone: b}}}}\n")
    condition = declared.apply()
    assert condition["reason"] == "Refused"
    assert 'pod_templates.zoned: In pool "train"' in condition["message"]
    assert PodTemplate.objects.get().content == document


BROKEN = {
    "no YAML": ("pools: [", "Refused", "line 2"),
    "a fault": (FILE + "    nvlin: true\n", "Refused", "pools.spare.nvlin"),
    "nothing at all": ("", "Refused", "mapping"),
    "no file": (None, "Unreadable", "cannot be read"),
}


@pytest.mark.parametrize(("text", "reason", "told"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_keeps_the_last_good_configuration(file, text, reason, told):
    declared.apply()
    before = list(ConfigRevision.objects.values_list("pk", flat=True))
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    condition = declared.apply()
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert told in condition["message"]
    assert "last good one is in force" in line()
    assert read()["osmo_configuration_refused"] == [(1,)]
    assert list(ConfigRevision.objects.values_list("pk", flat=True)) == before
    with pytest.raises(CommandError, match=reason):
        call_command("apply_config")
    file.write_text(FILE)
    assert declared.apply()["status"] == "True"
    assert read()["osmo_configuration_refused"] == [(0,)]


NEWER = FILE.replace("nvlink: true", "nvlink: false")


def numbered(generation, text=FILE):
    return f"generation: {generation}\n{text}"


def apply(file, text):
    """One worker's look at a mount that has this text; returns status, reason and what is in force."""
    file.write_text(text)
    condition = declared.apply()
    pool = Pool.objects.filter(name="train").first()
    return condition["status"], condition["reason"], pool and pool.nvlink


def test_a_worker_whose_mount_is_late_does_not_put_the_old_text_back(file):
    assert apply(file, FILE) == ("True", "Applied", True)
    assert apply(file, NEWER) == ("True", "Applied", False)
    count = ConfigRevision.objects.count()
    for _ in range(3):
        assert apply(file, FILE) == ("False", "Older", False)
        assert apply(file, NEWER) == ("True", "Applied", False)
    assert ConfigRevision.objects.count() == count


def test_a_return_that_is_meant_is_applied(file):
    apply(file, FILE)
    apply(file, NEWER)
    assert apply(file, FILE + "# back again\n") == ("True", "Applied", True)
    apply(file, NEWER + "# and forth\n")
    assert apply(file, FILE)[1] == "Older"
    with pytest.raises(CommandError, match="--older"):
        call_command("apply_config")
    call_command("apply_config", older=True)
    assert Pool.objects.get(name="train").nvlink is True
    assert apply(file, NEWER + "# and forth\n")[1] == "Older"


SECOND = {
    "a higher generation": (numbered(3, NEWER), ("True", "Applied", False)),
    "a higher one with the text of before": (numbered(3), ("True", "Applied", True)),
    "a lower one": (numbered(1, NEWER), ("False", "Older", True)),
    "the same one with another text": (numbered(2, NEWER), ("False", "Older", True)),
    "the same text": (numbered(2), ("True", "Applied", True)),
    "none": (NEWER, ("False", "Older", True)),
    "no number": (numbered("new", NEWER), ("False", "Refused", True)),
    "zero": (numbered(0, NEWER), ("False", "Refused", True)),
}


@pytest.mark.parametrize(("text", "want"), SECOND.values(), ids=SECOND)
def test_the_generation_says_which_text_is_newer(file, text, want):
    apply(file, numbered(2))
    assert apply(file, text) == want


def test_a_numbered_text_replaces_one_without_a_number(file):
    apply(file, FILE)
    assert apply(file, numbered(1, NEWER)) == ("True", "Applied", False)
    assert apply(file, FILE) == ("False", "Older", False)


def test_a_text_that_is_replaced_while_it_is_prepared_changes_nothing(file, monkeypatch):
    apply(file, NEWER)
    file.write_text(FILE + "# late\n")
    prepare, texts = declared.prepare_import, []

    def prepare_slowly(text, **options):
        texts.append(text)
        if len(texts) == 1:
            file.write_text(NEWER + "# newest\n")
            assert declared.apply()["status"] == "True"  # another worker
        return prepare(text, **options)

    monkeypatch.setattr(declared, "prepare_import", prepare_slowly)
    assert declared.apply()["status"] == "True"
    assert texts == [FILE + "# late\n", NEWER + "# newest\n"]
    assert Pool.objects.get(name="train").nvlink is False


def test_a_file_that_changes_all_the_time_is_left_for_later(file, monkeypatch):
    prepare = declared.prepare_import

    def prepare_slowly(text, **options):
        file.write_text(text + "#")
        return prepare(text, **options)

    monkeypatch.setattr(declared, "prepare_import", prepare_slowly)
    assert declared.apply()["reason"] == "Unreadable"
    assert not Pool.objects.exists()


@pytest.mark.parametrize("first", [FILE, numbered(1)], ids=["without numbers", "with numbers"])
def test_a_worker_without_the_setting_forgets_no_replaced_text(file, settings, first):
    newer = numbered(2, NEWER) if first.startswith("generation") else NEWER
    apply(file, first)
    assert apply(file, newer) == ("True", "Applied", False)
    with_file = settings.ENV
    settings.ENV = settings.ENV.model_copy(update={"topology_config_file": ""})
    assert declared.apply() is None
    assert declared.condition() is None
    assert read()["osmo_configuration_refused"] == []
    settings.ENV = with_file
    assert apply(file, first) == ("False", "Older", False)
    assert apply(file, newer) == ("True", "Applied", False)


DOORS = {
    "PUT of a pool": ("put", "pool/train", {"configs": {"backend": "kai"}}),
    "PATCH of a pool": ("patch", "pool/train", {"configs_dict": {}}),
    "PUT of pools": ("put", "pool", {"configs": {}}),
    "DELETE of a pool": ("delete", "pool/train", {}),
    "a pool's new name": ("put", "pool/train/rename", {"new_name": "drill"}),
    "a platform": ("put", "pool/train/platform/a100", {"configs": {}}),
    "PUT of a backend": ("put", "backend/kai", {"configs": {"kubeconfig": "/etc/other"}}),
    "POST of a backend": ("post", "backend/new", {"configs": {}}),
    "DELETE of a backend": ("delete", "backend/kai", {}),
    "a pod template": ("put", "pod_template/quiet", {"configs": {}}),
    "the limits": ("patch", "workflow", {"configs_dict": {"max_num_tasks": 3}}),
    "a rollback": ("post", "history/rollback", {"config_type": "POOL", "revision": 1}),
}


def test_no_other_door_writes(root, file):
    declared.apply()
    before = list(ConfigRevision.objects.values_list("pk", flat=True))
    open_doors = []
    for door, (method, path, body) in DOORS.items():
        answer = getattr(root, method)(f"/api/configs/{path}", body, format="json")
        reply = answer.json()
        told = str(file) in reply.get("message", "") and reply["error_code"] == "USER"
        if answer.status_code != 409 or not told:
            open_doors.append((door, answer.status_code, reply))
    assert open_doors == []
    assert list(ConfigRevision.objects.values_list("pk", flat=True)) == before


def test_imports_from_elsewhere_are_refused_and_trials_are_not(root, file, tmp_path):
    declared.apply()
    other = tmp_path / "other.yaml"
    other.write_text(FILE.replace("nvlink: true", "nvlink: false"))
    with pytest.raises(CommandError, match="declared in the file"):
        call_command("import_config", str(other))
    call_command("import_config", str(other), dry_run=True)
    body = {"configs_dict": {"topology_keys": [{"key": "a", "label": "no label!"}]}}
    answer = root.patch("/api/configs/pool/train?dry_run=True", body, format="json")
    assert [entry["path"] for entry in answer.json()["details"]] == ["configs_dict.topology_keys[0].label"]
    answer = root.patch(
        "/api/configs/pool/train?dry_run=True", {"configs_dict": {"nvlink": False}}, format="json"
    )
    assert (answer.status_code, answer.json()["nvlink"]) == (200, False)
    assert Pool.objects.get(name="train").nvlink is True


def test_reads_tags_and_history_go_on(root, file):
    declared.apply()
    assert root.get("/api/configs/pool/train").json()["nvlink"] is True
    assert len(root.get("/api/configs/history").json()["configs"]) == 3
    tags = root.post("/api/configs/history/pool/revision/1/tags", {"set_tags": ["good"]}, format="json")
    assert tags.status_code == 200
    assert Backend.objects.get().description == ""


def test_without_a_file_nothing_is_declared(file, settings):
    file.write_text("")
    declared.apply()
    settings.ENV = settings.ENV.model_copy(update={"topology_config_file": ""})
    assert declared.apply() is None
    assert read()["osmo_configuration_refused"] == []
    assert health.configuration() == []
    with pytest.raises(CommandError, match="is not set"):
        call_command("apply_config")
