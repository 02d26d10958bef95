"""Pod templates over REST, and what pools and workflows make of them."""

import pytest

from pools import selectors, services
from pools.models import ConfigRevision, Pool
from pools.services import ConfigChange
from tests.factories import ClusterFactory, NodeFactory
from workflows.models import TaskGroup, Workflow

pytestmark = pytest.mark.django_db

SHM = {
    "metadata": {"labels": {"team": "infra"}},
    "spec": {
        "runtimeClassName": "nvidia",
        "nodeSelector": {"example.com/part": "a"},
        "tolerations": [{"key": "part", "operator": "Exists"}],
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "{{USER_MEMORY}}"}}],
        "containers": [
            {"name": "{{USER_CONTAINER_NAME}}", "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}
        ],
    },
}
CHANGE = ConfigChange(username="root")


@pytest.fixture
def write(admin):
    def send(path, configs):
        return admin.put(f"/api/configs/{path}", {"configs": configs}, format="json")

    return send


@pytest.fixture
def template(write):
    def save(name="shm", content=SHM):
        return write(f"pod_template/{name}", content)

    return save


def test_a_template_is_written_shown_kept_in_the_history_and_deleted(template, admin):
    assert template().status_code == 200
    assert admin.get("/api/configs/pod_template").json() == {"shm": SHM}
    assert template().headers["ETag"] == 'W/"1"'
    assert template(content={"spec": {"enableServiceLinks": True}}).status_code == 200
    services.roll_back(config_type="POD_TEMPLATE", revision=1, change=CHANGE, force=False)
    assert admin.get("/api/configs/pod_template/shm").json() == SHM
    assert admin.delete("/api/configs/pod_template/shm").json() == {"name": "shm"}
    rows = ConfigRevision.objects.filter(config_type="POD_TEMPLATE").order_by("revision")
    assert [row.content is None for row in rows] == [False, False, False, True]


def test_several_are_written_all_or_none(write, admin):
    both = {"a": {"spec": {}}, "b": {"spec": {"nodeName": "x"}}}
    refused = write("pod_template", both)
    assert refused.status_code == 400
    assert [entry["path"] for entry in refused.json()["details"]] == ["configs.b.spec.nodeName"]
    assert admin.get("/api/configs/pod_template").json() == {}


def test_one_in_use_is_not_deleted_and_says_who_uses_it(template, write, admin, pool):
    template()
    assert write("pool/train", {"backend": "kai", "common_pod_template": ["shm"]}).status_code == 200
    refused = admin.delete("/api/configs/pod_template/shm")
    assert refused.status_code == 409
    assert 'pool "train"' in refused.json()["message"]


def test_its_nodes_are_the_pools_and_a_contradiction_is_refused_both_ways(template, write, pool):
    template()
    NodeFactory(cluster=ClusterFactory(uid="c"), name="in", labels={"example.com/part": "a"})
    NodeFactory(cluster=ClusterFactory(uid="c"), name="out", labels={"example.com/part": "b"})
    written = {"backend": "kai", "common_pod_template": ["shm"]}
    wrong = write("pool/train", {**written, "node_selector": {"example.com/part": "b"}})
    assert wrong.json()["details"][0]["code"] == "contradicts_selector"
    wrong = write("pool/train", {**written, "platforms": {"h": {"node_selector": {"example.com/part": "b"}}}})
    assert wrong.json()["details"][0]["code"] == "contradicts_pool"
    assert write("pool/train", {**written, "node_selector": {"zone": "z"}}).status_code == 200
    spoiled = {**SHM, "spec": {"nodeSelector": {"zone": "y"}}}
    assert 'In pool "train"' in template(content=spoiled).json()["details"][0]["message"]
    assert write("pool/train", written).status_code == 200
    row = Pool.objects.select_related("backend").get()
    row.backend.cluster_id = "c"
    assert [node.name for node in selectors.pool_nodes(row)] == ["in"]


def test_an_address_that_is_not_offered_is_empty_and_says_what_to_use(write, admin):
    assert admin.get("/api/configs/group_template").json() == {}
    assert "nvlink" in write("group_template", {}).json()["message"]
    assert "pool's resources" in write("resource_validation/x", {}).json()["message"]


SPEC = """
workflow:
  name: w
  resources: {default: {cpu: 2, memory: 8Gi}}
  tasks: [{name: Task_1, image: ubuntu, command: [sleep], environment: {A: b}}]
"""


def submit(admin, query=""):
    reply = admin.post(f"/api/pool/train/workflow{query}", {"file": SPEC}, format="json")
    assert reply.status_code == 200, reply.json()
    return reply.json()


def test_a_task_named_as_a_helper_of_its_pool_is_refused_and_not_left_to_the_cluster(
    template, write, admin, pool
):
    template(
        content={"spec": {"initContainers": [{"name": "task-1", "image": "x", "restartPolicy": "Always"}]}}
    )
    write("pool/train", {"backend": "kai", "common_pod_template": ["shm"]})
    refused = admin.post("/api/pool/train/workflow", {"file": SPEC}, format="json")
    assert refused.status_code == 400
    (fault,) = refused.json()["details"]
    assert (fault["path"], fault["code"]) == ("workflow.tasks[0].name", "name_of_helper")


def test_a_workflow_keeps_the_templates_it_was_accepted_under(template, write, admin, pool):
    template()
    write("pool/train", {"backend": "kai", "common_pod_template": ["shm"]})
    submit(admin)
    template(content={"spec": {"runtimeClassName": "other"}})
    placement = TaskGroup.objects.get().placement
    assert placement["template_revisions"] == {"shm": 1}
    assert placement["templates"][""]["pod"]["spec"]["runtimeClassName"] == "nvidia"
    shown = admin.get(f"/api/workflow/{Workflow.objects.get().name}").json()
    assert shown["groups"][0]["template_revisions"] == {"shm": 1}
    task = Workflow.objects.get().groups.get().tasks.get()
    assert task.spec["node_selector"] == {"example.com/part": "a"}
    assert task.spec["tolerations"] == [{"key": "part", "operator": "Exists"}]


def test_a_pools_revision_stays_when_a_template_changes_and_verbose_shows_it(template, write, admin, pool):
    template()
    template("more", {"spec": {"runtimeClassName": "kata"}})
    written = {"backend": "kai", "common_pod_template": ["shm", "more"]}
    revision = write("pool/train", written).json()["revision"]
    template("more", {"spec": {"runtimeClassName": "crun"}})
    shown = admin.get("/api/configs/pool/train?verbose=True").json()
    assert shown["revision"] == revision
    assert shown["parsed_pod_template"]["spec"]["runtimeClassName"] == "crun"
    assert write("pool/train", shown).status_code == 200
