"""No answer, page, metric or line of the log names gangs of others to callers without the right to them."""

import logging

import pytest
from django.test import Client

from tests.api.access.callers import CALLERS, client_of
from tests.api.access.table import rows
from tests.builders.gangs_of_others import follow, observe_gang, pod_group, waiting_pod
from tests.builders.observed_queues import observe_queues
from tests.factories import LEVELS, BackendFactory, NodeFactory, PoolFactory, TaskGroupFactory, foreign_usage
from workflows.models import Event, TaskGroup

pytestmark = pytest.mark.django_db

SECRETS = (
    *("hidden-tenants", "hidden-space", "hidden-gang", "hidden-owner", "hidden-queue"),
    *("hidden words", "hidden-class"),
)
STREAMS = ("/watch", "/logs", "/error_logs")
"""Of one workflow's pods and rows alone."""


@pytest.fixture
def workflow():
    """A workflow that waits beside a gang of others, whose every word is a secret."""
    pool = PoolFactory(name="mine", levels=LEVELS, backend=BackendFactory())
    PoolFactory(name="other", levels=LEVELS)
    group = TaskGroupFactory(pool=pool)
    TaskGroup.objects.update(waiting_why="capacity", waiting_reason="No node has room.")
    follow(pool.backend)
    manifest = pod_group(
        "hidden-space", "hidden-gang", queue="hidden-queue", priorityClassName="hidden-class"
    )
    manifest["metadata"]["ownerReferences"][0]["name"] = "hidden-owner"
    observe_gang(pool.backend, manifest, [waiting_pod(report="hidden words")] * 2)
    labels = {level.label: "one" for level in LEVELS}
    evictable = [observe_queues(pool, **{"own": (-1, 0), "hidden-queue": (-1, 0)}), 50]
    for name in ("n0", "n1"):
        NodeFactory(cluster=pool.backend.cluster, name=name, labels=labels)
        foreign_usage(pool.backend.cluster, name, gpu=8, namespace="hidden-tenants", evictable=evictable)
    return group.workflow


def addresses(workflow):
    names = {"pool": "mine", "workflow_id": workflow.name, "name": "mine", "type": "pool", "no": 1}
    backend = workflow.groups.get().backend.name
    names |= {"gpu": "gpu", "node": "n0", "backend": backend, "token": "laptop"}
    names |= {"task": "task-0", "group": "group-0", "key": "EXEC-0"}
    names |= {"namespace": "hidden-space", "gang": "hidden-gang"}
    for method, address, _ in rows():
        if method == "GET" and not address.endswith(STREAMS):
            yield address.format(**names)


@pytest.mark.parametrize("caller", [name for name in CALLERS if name != "admin"])
def test_no_answer_and_no_line_of_the_log_has_a_name(caller, workflow, caplog):
    caplog.set_level(logging.DEBUG)
    client, browser = client_of(caller), Client()
    browser.force_login(client.handler._force_user)
    for address in addresses(workflow):
        if "/group/" in address:  # it repeats to its caller what they asked for
            assert client.get(address).status_code == 403
            continue
        answer = (browser if address.startswith("/ui") else client).get(address)
        text = answer.content.decode(errors="replace") if not answer.streaming else ""
        assert [word for word in SECRETS if word in text] == [], address
    logged = {"hidden-space", "hidden-gang"}  # in the address of a request
    assert [word for word in SECRETS if word in caplog.text and word not in logged] == []


def test_an_administrator_reads_them(workflow):
    admin = client_of("admin")
    backend = workflow.groups.get().backend.name
    text = admin.get(f"/api/cluster/{backend}/waiting").content.decode()
    assert [word for word in SECRETS if word not in text] == []
    own = admin.get(f"/api/workflow/{workflow.name}/explain").json()["groups"][0]["feasibility"]
    assert "hidden-tenants" in own["sentence"]
    assert own["preemption"]["namespaces"] == ["hidden-tenants"]


def test_neither_metrics_nor_events_have_one(workflow, settings):
    settings.ENV = settings.ENV.model_copy(update={"metrics_token": "scrape"})
    metrics = Client().get("/metrics", headers={"Authorization": "Bearer scrape"}).content.decode()
    events = " ".join(Event.objects.values_list("message", flat=True))
    assert "osmo_topology_" in metrics
    assert [word for word in SECRETS if word in metrics + events] == []
