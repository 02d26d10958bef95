"""A scheduler that a package brings is like any other, from its registration to its last object."""

import json
import os
import subprocess
import sys
import zipfile
from datetime import timedelta
from importlib import invalidate_caches
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from rest_framework.test import APIClient

from cluster.kinds import EVENT, POD, Kind
from doctor.compare import compare
from doctor.facts import Tolerances
from doctor.run import read_facts
from localcluster.directories import CHECKOUT
from pools import selectors
from pools.tasks import sync_cluster
from scheduling import names
from scheduling.backends import registry
from tests.api.workflows.specs import gang, text
from tests.fakes import toy_scheduler
from tests.fakes.kai import reached_through
from tests.worker.world import World, fresh
from workflows.models import TaskGroup

API = ("toy.example.com", "v1")
GANG = Kind("Gang", *API, "gangs")
FABRIC = Kind("Fabric", *API, "fabrics", namespaced=False)
SHARE = Kind("Share", *API, "shares", namespaced=False)

KEYS = [{"key": "zone", "label": "example.com/zone"}, {"key": "rack", "label": "example.com/rack"}]


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    """The package of the page, built and installed into a directory of its own."""
    project, target = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("installed")
    page = (CHECKOUT / "docs" / "how-to" / "add-a-scheduler.md").read_text()
    (project / "pyproject.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    (project / "toy_scheduler.py").write_text(Path(toy_scheduler.__file__).read_text())
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(project)]
    subprocess.run(build, cwd=project, check=True, capture_output=True)
    (wheel,) = project.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:  # a pure wheel is installed by unpacking it
        archive.extractall(target)
    return target


@pytest.fixture
def package(directory, monkeypatch):
    monkeypatch.syspath_prepend(str(directory))
    invalidate_caches()
    registry.installed.cache_clear()
    yield
    monkeypatch.undo()
    registry.installed.cache_clear()


def test_a_process_finds_it_by_its_entry_point(directory):
    code = "from scheduling.backends.registry import installed; print(*sorted(installed()))"
    paths = os.pathsep.join([str(CHECKOUT), str(directory)])
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": paths}, check=True, capture_output=True, text=True
    )
    assert found.stdout.split() == ["default", "kai", "kubernetes", "kueue", "toy"]


@pytest.fixture
def world(db, package):
    world = World(scheduled=False, further=(GANG, FABRIC, SHARE))
    with reached_through({"/etc/toy": world.cluster}):
        yield world


@pytest.fixture
def admin(db):
    client = APIClient()
    client.force_authenticate(User.objects.create_superuser("root"))
    return client


def put(admin, path, configs):
    answer = admin.put(f"/api/configs/{path}", {"configs": configs}, format="json")
    return answer.status_code, answer.json()


def submit(admin, workflow, query=""):
    answer = admin.post(f"/api/pool/train/workflow{query}", {"file": text(workflow)}, format="json")
    return answer.status_code, answer.json()


def same(key, kind="required"):
    return {"key": key, "requirementType": kind}


@pytest.fixture
def pool(world, admin):
    backend = {"kubeconfig": "/etc/toy", "scheduler_settings": {"scheduler_type": "toy"}}
    assert put(admin, "backend/toy", backend)[0] == 200
    status, reply = put(admin, "pool/train", {"backend": "toy", "topology_keys": KEYS})
    assert status == 200, reply
    sync_cluster(world.uid)


def test_it_is_registered_shown_and_asked_for_its_limits(world, admin, pool):
    shown = admin.get("/api/configs/backend/toy").json()
    assert shown["scheduler_settings"]["scheduler_name"] == "toy-scheduler"
    assert shown["capabilities"]["gang.multi_set"] is True
    assert shown["capabilities"]["topology.nested"] is False
    assert shown["capabilities"]["max_levels"] == 2
    assert shown["scheduler_version"] == "1.4"
    three = [*KEYS, {"key": "host", "label": "kubernetes.io/hostname"}]
    status, reply = put(admin, "pool/deep", {"backend": "toy", "topology_keys": three})
    assert (status, "max_levels" in json.dumps(reply)) == (400, True)
    world.cluster.unserved.add(GANG)
    missing = {"kubeconfig": "/etc/toy", "scheduler_settings": {"scheduler_type": "toy"}}
    status, reply = put(admin, "backend/other", missing)
    assert "it has no toy scheduler" in json.dumps(reply)


def test_its_refusals_name_the_capability(admin, pool):
    status, reply = submit(admin, gang(2, topology=[same("rack", "preferred")]))
    assert (status, "lacks capability topology.preferred" in reply["message"]) == (400, True)


def test_its_objects_are_shown_before_anything_is_made(world, admin, pool):
    status, reply = submit(admin, gang(2, topology=[same("rack")]), "?dry_run=true")
    assert status == 200, reply
    kinds = {obj["kind"] for obj in json.loads(json.dumps(reply["objects"]))}
    assert {"Gang", "Fabric", "Pod"} <= kinds
    assert world.cluster.names(GANG) == []


def test_a_workflow_lives_and_ends_on_it(world, admin, pool):
    shared = (["base-of-osmo-topology-pool-osmo-train", "osmo-topology-pool-osmo-train"], ["fabric-2"])
    assert (world.cluster.names(SHARE), world.cluster.names(FABRIC)) == shared
    world.cluster.remove(FABRIC, "fabric-2")  # a group makes what it names, should it be missing
    status, reply = submit(admin, gang(2, topology=[same("rack")]))
    assert status == 200, reply
    world.settle()
    group = TaskGroup.objects.get()
    (made,) = world.cluster.all(GANG)
    assert made["spec"]["share"] == group.placement["queue"]
    assert world.cluster.names(FABRIC) == ["fabric-2"]
    assert {pod["spec"]["schedulerName"] for pod in world.cluster.all(POD)} == {"toy-scheduler"}

    def say(obj):
        obj["status"] = {"why": "too few bricks", "noise": 1}

    world.cluster.edit(GANG, made["metadata"]["name"], say, namespace="osmo")
    world.settle()
    assert fresh(group).waiting_reason.startswith("The toy scheduler says: too few bricks.")
    assert fresh(group).waiting_why == "capacity"
    assert fresh(group).waiting_evidence["help"] == "Bring more bricks."

    for pod in world.cluster.all(POD):
        world.cluster.edit(
            POD, pod["metadata"]["name"], lambda obj: obj["spec"].update(nodeName="n"), namespace="osmo"
        )
    world.settle()
    assert fresh(group).status == "RUNNING"
    assert admin.delete("/api/configs/pool/train?force=true").status_code == 200
    sync_cluster(world.uid)
    assert (world.cluster.names(SHARE), world.cluster.names(FABRIC)) == shared  # the group still needs them
    world.finish(group)
    world.settle()
    assert fresh(group).released_at is not None
    sync_cluster(world.uid)
    assert world.cluster.kinds() == {"ConfigMap", "PriorityClass"}


def test_the_consistency_check_knows_its_objects(world, admin, pool):
    submit(admin, gang(2, topology=[same("rack")]))
    world.settle()
    group = TaskGroup.objects.get()
    TaskGroup.objects.update(next_reconcile_at=timezone.now() + timedelta(minutes=1))
    assert leaked() == []

    label = {names.INSTALLATION_LABEL: selectors.installation().hex}
    (whole,) = world.cluster.all(GANG)
    for kind, spec in ((SHARE, {}), (FABRIC, {"tiers": ["example.com/row"]})):
        world.cluster.put(kind, {"metadata": {"name": "left", "labels": label}, "spec": spec})
    copy = {
        "name": whole["metadata"]["name"],
        "namespace": "elsewhere",
        "labels": whole["metadata"]["labels"],
    }
    world.cluster.put(GANG, {"metadata": copy, "spec": whole["spec"]})
    assert leaked() == ["Fabric left", f"Gang elsewhere/{group.pk.hex}-toy", "Share left"]


def leaked():
    """The objects that a consistency check of a system at rest finds to be too many."""
    limits = Tolerances.all(timedelta(0), due_at_least=timedelta(0))
    findings = compare(read_facts(history=timedelta(hours=1)), limits)
    return sorted(finding.object for finding in findings if finding.kind == "leaked")


def test_a_third_party_schedulers_word_on_evicting_is_told(world, admin, pool):
    submit(admin, gang(1))
    world.settle()
    group = TaskGroup.objects.get()
    (name,) = world.cluster.names(GANG)
    world.cluster.put(
        EVENT,
        {
            "metadata": {"name": "e", "namespace": "osmo"},
            "involvedObject": {"kind": "Gang", "name": name, "namespace": "osmo"},
            "reason": "Thrown",
            "message": "somebody wanted its bricks",
            "type": "Normal",
        },
    )
    world.cluster.remove(POD, group.tasks.get().pod_name, namespace="osmo")
    world.settle()
    assert group.attempts.get().status == "FAILED_PREEMPTED"
    assert "wanted its bricks" in group.tasks.get(retry_id=0).failure_message
