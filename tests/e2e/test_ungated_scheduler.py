"""A real kube-scheduler without the gate of composite pod groups, on an API server that serves them."""

import json
import secrets
from pathlib import Path

import pytest

from localcluster.build import binaries
from localcluster.rest import Refused
from localcluster.supervisor import Command, Supervisor
from tests.e2e.nested_sets import KEYS, TWO_RACKS, end, of_kind, start_pair_in_a_rack, submit

GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
KINDS = ("Pod", "PodGroup (Kubernetes)", "CompositePodGroup", "Workload (Kubernetes)")


@pytest.fixture
def ungated(world, running_service, tmp_path):
    """The same with a backend of its own whose scheduler has no such gate, and that backend's name."""
    scheduler = f"ungated-{secrets.token_hex(3)}"
    configuration = tmp_path / "scheduler.yaml"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": running_service["kubeconfig"]},
        "profiles": [{"schedulerName": scheduler}],
    }
    configuration.write_text(json.dumps(content))
    argv = [
        str(binaries().controlplane), "kube-scheduler",
        f"--config={configuration}", f"--feature-gates={GATES}", "--secure-port=0",
    ]  # fmt: skip
    content = {
        "kubeconfig": str(world.kubeconfig),
        "k8s_namespace": world.namespace,
        "scheduler_settings": {"scheduler_type": "kubernetes", "scheduler_name": scheduler},
    }
    world.make_pool("room", racks=1, size=1, scheduler="kubernetes")  # a trial shows nothing without a node
    with Supervisor(log_dir=Path(tmp_path / "logs")) as supervisor:
        supervisor.start(Command(name=scheduler, argv=argv))
        path = f"/api/configs/backend/{world.backend}-ungated"
        world.service.call("POST", path, {"configs": content})
        yield world
        world.clear()


def held(world):
    backend = world.service.get(f"/api/configs/backend/{world.backend}-ungated")
    return next(entry for entry in backend["conditions"] if entry["type"] == "CompositesHeld")


def test_a_trial_shows_that_the_gate_is_off_and_sets_inside_sets_are_refused(ungated):
    condition = ungated.wait(lambda: held(ungated), lambda entry: entry["status"] == "False")
    assert condition["reason"] == "Ignored"
    assert "ignores composite pod groups" in condition["message"]
    ungated.wait(
        lambda: [entry for kind in KINDS for entry in of_kind(ungated, kind)], lambda left: left == []
    )

    pool = ungated.make_pool(scheduler="ungated", topology_keys=KEYS)
    with pytest.raises(Refused) as refused:
        submit(ungated, pool, right=["c", "d"], resources=TWO_RACKS)
    faults = refused.value.body["details"]
    assert {fault["code"] for fault in faults} == {"unsupported_capability"}
    for word in ("the scheduler", "feature gates", "CompositePodGroup", "CompositesHeld"):
        assert all(word in fault["message"] for fault in faults)

    end(ungated, start_pair_in_a_rack(ungated, pool))
