"""The node that runs processes: what a pod asks for is what its processes get, and they end with it."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localcluster.api import Api
from localcluster.controlplane import create_namespace
from localcluster.kubelet.container_files import below, expanded, field
from localcluster.kubelet.image import RECORD, image_link
from tests.builders.waiting import until

SECONDS = 60
SHELL = "toy:1"
ACCOUNT = "$OSMO_KUBELET_ROOT/var/run/secrets/kubernetes.io/serviceaccount"
SHOW = f'env; cat "$OSMO_KUBELET_ROOT/etc/own/word"; echo; ls "{ACCOUNT}"'


@pytest.fixture
def world(workloads, tmp_path):
    """A second kubelet with a node of its own, an image with a shell, and a namespace."""
    plane, _ = workloads
    world = World(Api(plane.access()), plane.kubeconfig("admin"), tmp_path)
    create_namespace(world.api, world.namespace)
    world.make_image()
    world.start()
    yield world
    world.end()
    world.api.close()


class World:
    def __init__(self, api, kubeconfig, directory):
        self.api, self._kubeconfig, self.directory = api, kubeconfig, directory
        self.node = f"own-{secrets.token_hex(4)}"
        self.namespace = f"test-{self.node}"
        self.pods = f"/api/v1/namespaces/{self.namespace}/pods"
        self.process = None

    def make_image(self):
        image = self.directory / "image"
        (image / "files").mkdir(parents=True)
        (image / RECORD).write_text(json.dumps({"environment": {"PATH": "/usr/bin:/bin", "OF_IMAGE": "yes"}}))
        link = image_link(self.directory, SHELL)
        link.parent.mkdir()
        link.symlink_to(image)

    def start(self):
        arguments = (str(self._kubeconfig), self.node, str(self.directory))
        self.process = subprocess.Popen([sys.executable, "-m", "localcluster.kubelet", *arguments])

    def end(self):
        self.api.call("DELETE", self.pods, query={"gracePeriodSeconds": "0"})
        self.process.terminate()
        self.process.wait(SECONDS)
        self.api.delete(f"/api/v1/namespaces/{self.namespace}")
        self.api.delete(f"/api/v1/nodes/{self.node}")

    def pod(self, name, script, *, init=(), policy="Always", grace=20, **container):
        """Create a pod whose only container runs a script of the shell, with a file of a ConfigMap."""
        maps = f"/api/v1/namespaces/{self.namespace}/configmaps"
        self.api.create(maps, {"metadata": {"name": name}, "data": {"word": f"word of {name}"}})
        mounts = [{"name": "own", "mountPath": "/etc/own"}]
        first = [
            {"name": f"i{n}", "image": SHELL, "command": ["sh", "-c", text]} for n, text in enumerate(init)
        ]
        main = {"name": "main", "image": SHELL, "command": ["sh", "-c", script], "volumeMounts": mounts}
        spec = {
            "nodeName": self.node,
            "restartPolicy": policy,
            "terminationGracePeriodSeconds": grace,
            "initContainers": first,
            "containers": [main | container],
            "volumes": [{"name": "own", "configMap": {"name": name}}],
        }
        self.api.create(self.pods, {"metadata": {"name": name}, "spec": spec})

    def until(self, name, condition):
        """The pod, once the condition is true of it."""
        deadline = time.monotonic() + SECONDS
        while not condition(pod := self.api.find(f"{self.pods}/{name}")):
            assert time.monotonic() < deadline, pod
            time.sleep(0.05)
        return pod

    def log(self, name, container="main"):
        (path,) = self.directory.glob(f"pods/{name}-*/{container}.log")
        return path.read_text()


def main_of(pod):
    (status,) = pod["status"].get("containerStatuses") or [{}]
    return status


def ready(pod):
    return {"type": "Ready", "status": "True"}.items() <= max(
        pod["status"].get("conditions") or [{}], key=lambda condition: condition.get("type") == "Ready"
    ).items()


def ended(phase):
    return lambda pod: pod["status"].get("phase") == phase


def test_a_container_gets_its_variables_files_and_token(world):
    env = [
        {"name": "A", "value": "a"},
        {"name": "BOTH", "value": "$(A)$(B)$$(A)"},
        {"name": "FILE", "value": "/etc/own/word"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "shown", "key": "word"}}},
    ]
    world.pod("shown", SHOW, env=env, policy="Never")
    pod = world.until("shown", ended("Succeeded"))
    lines = world.log("shown").splitlines()
    address = pod["status"]["podIP"]
    assert address.startswith("10.")
    assert {f"POD_IP=127.{address.partition('.')[2]}", "BOTH=a$(B)$(A)", "WORD=word of shown"} <= set(lines)
    assert "OF_IMAGE=yes" in lines
    assert lines[-4:] == ["word of shown", "ca.crt", "namespace", "token"]
    path = next(line for line in lines if line.startswith("FILE=")).removeprefix("FILE=")
    assert path.endswith("/roots/main/etc/own/word")


def test_a_container_waits_for_what_it_names(world):
    missing = {"secretKeyRef": {"name": "later", "key": "k"}}
    world.pod("waits", "echo $K", env=[{"name": "K", "valueFrom": missing}], policy="Never")
    pod = world.until("waits", lambda pod: "later" in str(main_of(pod)))
    assert main_of(pod)["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    body = {"metadata": {"name": "later"}, "stringData": {"k": "kept"}}
    world.api.create(f"/api/v1/namespaces/{world.namespace}/secrets", body)
    world.until("waits", ended("Succeeded"))
    assert world.log("waits") == "kept\n"


def test_containers_that_come_first_end_first_and_a_failed_one_ends_the_pod(world):
    world.pod("good", "date +%s%N", init=["date +%s%N", "date +%s%N"], policy="Never")
    world.pod("bad", "true", init=["exit 3"], policy="Never")
    world.until("good", ended("Succeeded"))
    times = [int(world.log("good", container)) for container in ("i0", "i1", "main")]
    assert times == sorted(times)
    (first,) = world.until("bad", ended("Failed"))["status"]["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 3
    assert not list(world.directory.glob("pods/bad-*/main.log"))


def test_probes_make_it_ready_and_restart_it(world):
    file = '"$OSMO_KUBELET_ROOT/etc/own/well"'
    probe = {"exec": {"command": ["sh", "-c", f"test -e {file}"]}, "periodSeconds": 1, "timeoutSeconds": 30}
    world.pod(
        "probed",
        f"touch {file}; exec sleep 1000",
        startupProbe=probe | {"failureThreshold": SECONDS},
        readinessProbe=probe,
        livenessProbe=probe,
    )
    before = main_of(world.until("probed", ready))["restartCount"]
    (well,) = world.directory.glob("pods/probed-*/volumes/own/well")
    well.unlink()
    pod = world.until("probed", lambda pod: main_of(pod)["restartCount"] > before and ready(pod))
    assert main_of(pod)["lastState"]["terminated"]["exitCode"] == 128 + signal.SIGTERM


def test_a_command_that_ends_is_run_again_and_its_last_words_are_shown(world):
    world.pod("again", "echo sorry; exit 4", terminationMessagePolicy="FallbackToLogsOnError")
    pod = world.until("again", lambda pod: main_of(pod).get("restartCount", 0) >= 2)
    assert main_of(pod)["lastState"]["terminated"]["message"].startswith("sorry")


def test_a_deleted_pod_is_warned_then_asked_then_killed(world):
    script = "trap 'echo asked' TERM; echo begun; while :; do sleep 0.1; done"
    before = {"preStop": {"exec": {"command": ["sh", "-c", 'echo x > "$OSMO_KUBELET_ROOT/etc/own/warned"']}}}
    world.pod("stubborn", script, lifecycle=before, grace=8)
    world.until("stubborn", lambda pod: ready(pod) and "begun" in world.log("stubborn"))
    (volume,) = world.directory.glob("pods/stubborn-*/volumes/own")
    warned = volume / "warned"
    world.api.delete(f"{world.pods}/stubborn")
    deadline = time.monotonic() + SECONDS
    while not warned.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    world.until("stubborn", lambda pod: pod is None)
    assert world.log("stubborn").splitlines()[:2] == ["begun", "asked"]
    assert processes_of(world) == set()


def test_nothing_outlives_a_kubelet_that_is_killed(world):
    world.pod("orphan", "exec sleep 1000")
    world.until("orphan", ready)
    until(lambda: processes_of(world))  # a process has no variables while it begins
    world.process.kill()
    world.process.wait(SECONDS)
    until(lambda: not processes_of(world))


def processes_of(world):
    """Processes of containers of this kubelet: their root is a variable of theirs."""
    mark = f"OSMO_KUBELET_ROOT={world.directory}".encode()
    return {int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if mark in contents(path)}


def contents(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_paths_of_mounts_are_moved_and_others_are_not():
    root = Path("/root-of-it")
    paths = ["/tmp", "/etc/osmo"]
    assert below("/etc/osmo/a", paths, root) == "/root-of-it/etc/osmo/a"
    assert below("file:///tmp/x", paths, root) == "file:///root-of-it/tmp/x"
    assert below("p://h/db?cert=/etc/osmo/ca", paths, root) == "p://h/db?cert=/root-of-it/etc/osmo/ca"
    for other in ("/etc/osmotic", "/var/tmp/x", "https://host/tmp", "/tmpfs"):
        assert below(other, paths, root) == other


def test_references_and_fields_are_those_of_kubernetes():
    assert expanded("$(A)-$(B)-$$(A)", {"A": "1"}) == "1-$(B)-$(A)"
    pod = {"metadata": {"labels": {"a/b": "c"}, "name": "n"}, "status": {"podIP": "10.3.4.5"}}
    assert field(pod, "metadata.labels['a/b']") == "c"
    assert field(pod, "metadata.name") == "n"
    assert field(pod, "status.podIP") == "127.3.4.5"
    assert os.environ.get("OSMO_KUBELET_ROOT") is None
