"""The service that commands are sent to: two pools on a KAI cluster, and workflows as a case asks for.

Pools are configured and workflows submitted through the service itself; only what a cluster and workers
would do to them is written into their rows.
"""

import json

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from cluster.kinds import POD
from pools.models import Backend
from tests.api.workflows.specs import text
from tests.factories import NodeFactory
from tests.fakes.kai import kai_cluster, reached_through
from web.access.services import make_token
from workflows.models import Task, TaskGroup, Workflow

KEYS = [
    {"key": "zone", "label": "topology.kubernetes.io/zone"},
    {"key": "rack", "label": "example.com/rack"},
    {"key": "clique", "label": "nvidia.com/gpu.clique"},
]
POOLS = {
    "h100": {
        "backend": "kai",
        "description": "The big ones",
        "topology_keys": KEYS,
        "nvlink": True,
        "platforms": {"dgx": {"description": "Eight GPUs", "node_selector": {"pool": "h100"}}},
        "default_platform": "dgx",
    },
    "cpu": {"backend": "kai", "platforms": {"small": {}}, "default_platform": "small"},
}
ENDED = {"finished": "COMPLETED", "failed": "FAILED"}


@pytest.fixture
def cluster():
    cluster = kai_cluster(uid="contract")
    with reached_through({"": cluster, "/etc/kai": cluster}):
        yield cluster


@pytest.fixture
def service(db, settings, cluster):
    """A service with its pools; the development login is on, as for ``login --method dev``."""
    settings.DEVELOPMENT_LOGIN = True
    User.objects.create_user("ann")
    User.objects.create_user("root", is_staff=True)
    configure("backend/kai", {"kubeconfig": "/etc/kai", "description": "The first cluster"})
    for name, pool in POOLS.items():
        configure(f"pool/{name}", pool)
    here = Backend.objects.get().cluster
    for index in range(4):
        place = {
            KEYS[0]["label"]: "a",
            KEYS[1]["label"]: f"r{index // 2}",
            KEYS[2]["label"]: f"c{index // 2}",
        }
        NodeFactory(cluster=here, name=f"node-{index}", labels={"pool": "h100", **place})
    return Client(raise_request_exception=False, enforce_csrf_checks=True)


def configure(path, content):
    answer = Client().put(
        f"/api/configs/{path}",
        json.dumps({"configs": content, "description": "set up"}),
        content_type="application/json",
        headers={"x-osmo-user": "root"},
    )
    assert answer.status_code == 200, answer.content


def submitted(name, *, state):
    """A workflow of Ann's that runs, has finished or has failed."""
    tasks = [
        {"name": "worker", "image": "example.com/train:1", "command": ["train"], "resource": "one"},
    ]
    workflow = {"name": name, "resources": {"one": {"gpu": 1}}, "tasks": tasks}
    answer = Client().post(
        "/api/pool/h100/workflow?label=team%3Dvision",
        json.dumps({"file": text(workflow)}),
        content_type="application/json",
        headers={"x-osmo-user": "ann"},
    )
    assert answer.status_code == 200, answer.content
    row = Workflow.objects.get(name=answer.json()["name"])
    now = timezone.now()
    status = ENDED.get(state, "RUNNING")
    ended = {"end_time": now} if state in ENDED else {}
    Workflow.objects.filter(pk=row.pk).update(status=status, start_time=now, **ended)
    TaskGroup.objects.filter(workflow=row).update(status=status, start_time=now, **ended)
    Task.objects.filter(group__workflow=row).update(
        status=status, start_time=now, exit_code={"finished": 0, "failed": 7}.get(state), **ended
    )
    return row


def put_pods(cluster, workflow):
    """Its pods, as they stand in the cluster, with something in their logs."""
    for task in Task.objects.filter(group__workflow=workflow):
        place = {"name": task.pod_name, "namespace": task.group.placement["namespace"]}
        said = {"annotations": {"fake/log": "one\ntwo\nthree\n"}}
        containers = [{"name": task.name, "image": "i"}]
        cluster.put(POD, {"metadata": place | said, "spec": {"containers": containers}})


@pytest.fixture
def prepare(service, cluster, settings):
    """Make what a case says is given; returns what its requests may name."""

    def make(given):
        known = {}
        for word in given:
            if word == "token":
                known["token"] = make_token(User.objects.get(username="ann"), name="laptop")
            elif word.startswith(("minimum ", "latest ")):
                name, _, version = word.partition(" ")
                setattr(settings, f"CLIENT_{name.upper()}_VERSION", version)
            else:
                state, _, name = word.partition(" ")
                row = submitted(name, state=state)
                put_pods(cluster, row)
                known[name] = row.name
                known[f"{name}_uuid"] = row.uuid.hex
        return known

    return make
