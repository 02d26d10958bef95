"""Observers as processes, killed one after the other beside a real API server."""

import json
import os
import subprocess
import sys
import time
from uuid import UUID

import pytest
from django.db import connection

from cluster.clock import boot_seconds
from cluster.connection import connection_for
from cluster.interface import DeleteTarget
from cluster.kinds import POD
from localcluster.directories import CHECKOUT
from pools import selectors
from pools.models import Cluster
from scheduling import names
from tests.builders.waiting import until
from tests.factories import BackendFactory
from workflows.models import ObservedPod

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 150
KILLS = 6
PODS = 100


@pytest.fixture
def start(access, tmp_path):
    """Start an observer on the test's database; whichever is left is killed in the end."""
    settings = connection.settings_dict
    address = f"{settings['USER']}:{settings['PASSWORD']}@{settings['HOST']}:{settings['PORT']}"
    environment = {
        **os.environ,
        "OSMO_ENV": "development",
        "OSMO_DATABASE_URL": f"postgresql://{address}/{settings['NAME']}",
        "OSMO_METRICS_PORT": "0",
    }
    processes = []

    def begin():
        with (tmp_path / f"observer-{len(processes)}.log").open("w") as log:
            command = [sys.executable, "manage.py", "observe"]
            processes.append(subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=log, stderr=log))
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.wait(SECONDS)


def pod(namespace, name, group):
    labels = {names.INSTALLATION_LABEL: selectors.installation().hex, names.GROUP_LABEL: group.hex}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "none"}], "schedulerName": "nobody"},
    }


def end_with_nul(access, namespace, name):
    """What a kubelet reports of a container that wrote a NUL into its termination message."""
    connected = connection_for(access)
    terminated = {"exitCode": 1, "message": "a\0b", "reason": "Error"}
    container = {"name": "c", "image": "none", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Failed", "containerStatuses": [{**container, "state": {"terminated": terminated}}]}
    reply = connected.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/pods/{name}/status",
        body=json.dumps({"status": status}).encode(),
        headers={
            "Content-Type": "application/merge-patch+json",
            **({"Authorization": token} if (token := connected.authorization()) else {}),
        },
    )
    text = reply.data
    assert reply.status == 200, text[:500]


def observed(namespace):
    rows = ObservedPod.objects.filter(namespace=namespace, absent=False)
    return dict(rows.values_list("name", "phase"))


def there(real, namespace):
    pods = real.list(POD, namespace=namespace, label_selector=names.GROUP_LABEL).items
    return {obj["metadata"]["name"]: obj["status"]["phase"] for obj in pods}


def test_observers_that_are_killed_while_pods_come_end_and_go_lose_nothing(real, access, namespace, start):
    group = UUID(int=7)
    uid = real.kube_system_uid()
    BackendFactory(kubeconfig=access.kubeconfig, namespace=namespace, cluster__uid=uid)
    created = 0
    running = start()
    for _ in range(KILLS):
        ends = time.monotonic() + 1.0
        successor = start()
        batch = [pod(namespace, f"p{number}", group) for number in range(created, created + PODS)]
        deadline = boot_seconds() + SECONDS
        outcomes = until_created(real, batch, deadline)
        assert all(outcome.error is None for outcome in outcomes)
        end_with_nul(access, namespace, f"p{created}")
        odd = range(created + 1, created + PODS, 2)
        targets = [DeleteTarget(f"p{number}", namespace=namespace) for number in odd]
        real.delete_many(POD, targets, deadline=deadline, grace_seconds=0)
        created += PODS
        time.sleep(max(0.0, ends - time.monotonic()))
        running.kill()
        running = successor
    died_at = time.monotonic()
    want = there(real, namespace)
    assert sum(phase == "Failed" for phase in want.values()) == KILLS
    until(lambda: observed(namespace) == want)
    seconds = time.monotonic() - died_at
    print(f"{created} pods, {KILLS} deaths: the rows agree after {seconds:.1f} s")  # noqa: T201 -- shown by -s
    message = ObservedPod.objects.filter(phase="Failed").first().digest["containers"][0]["message"]
    assert message == "a\N{REPLACEMENT CHARACTER}b"
    assert Cluster.objects.get(uid=uid).quarantine == {}


def until_created(real, pods, deadline):
    """Create them; a new namespace has no service account for a moment."""
    while True:
        outcomes = real.create_many(POD, pods, deadline=deadline)
        if all(outcome.error is None for outcome in outcomes) or boot_seconds() > deadline:
            return outcomes
        pods = [obj for obj, outcome in zip(pods, outcomes, strict=True) if outcome.error is not None]
        time.sleep(0.2)
