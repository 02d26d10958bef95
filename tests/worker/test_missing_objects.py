"""A group whose pods name what does not exist says so, from events and from its containers."""

import pytest
from django.utils import timezone

from cluster.kinds import EVENT, POD
from scheduling import names
from tests.factories import installation
from tests.fakes import players
from tests.worker.world import World, fresh

CREATING = {"name": "train", "state": {"waiting": {"reason": "ContainerCreating"}}}
UNCONFIGURED = {"reason": "CreateContainerConfigError", "message": 'secret "token" not found'}
UNMOUNTED = 'MountVolume.SetUp failed for volume "v" : configmap "settings" not found'


@pytest.fixture
def group(world):
    """A gang on nodes whose kubelets have not started it."""
    world.cluster.players.remove(players.kubelet)
    return world.group(pods=2)


def place(world, state):
    world.settle()
    for number, pod in enumerate(world.cluster.all(POD)):
        pod["spec"]["nodeName"] = f"node-{number}"
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
        pod["status"]["containerStatuses"] = [CREATING | {"state": {"waiting": state}}]
        world.cluster.put(POD, pod)


def report(world, group, reason, message, *, number=1):
    task = group.tasks.order_by("position").first()
    event = {
        "metadata": {"name": f"missing.{number}", "namespace": "osmo", "uid": f"event-{number}"},
        "involvedObject": {"kind": "Pod", "namespace": "osmo", "name": task.pod_name},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": timezone.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    world.cluster.put(EVENT, event)


def test_a_container_that_a_kubelet_cannot_configure_names_the_secret(world, group):
    place(world, UNCONFIGURED)
    world.settle()
    row = fresh(group)
    assert row.waiting_why == "missing_object"
    assert row.waiting_reason.startswith(
        'Its pods name Secret "token", which does not exist in namespace "osmo".'
    )


def test_a_volume_that_cannot_be_mounted_names_the_config_map(world, group):
    place(world, {"reason": "ContainerCreating"})
    report(world, group, "FailedMount", UNMOUNTED)
    world.settle()
    row = fresh(group)
    assert row.waiting_why == "missing_object"
    assert 'ConfigMap "settings"' in row.waiting_reason
    named = row.waiting_evidence["missing_objects"]
    assert (named["namespace"], named["named"][0]["kind"], named["said"]) == (
        "osmo",
        "ConfigMap",
        [UNMOUNTED],
    )


@pytest.mark.parametrize("later", ["Pulling", "Pulled", "Created", "BackOff"])
def test_a_report_whose_cause_was_cured_is_not_named(world, group, later):
    place(world, {"reason": "ContainerCreating"})
    report(world, group, "FailedMount", UNMOUNTED)
    world.settle()
    report(world, group, later, "Pulling image x", number=2)
    world.settle()
    assert fresh(group).waiting_why == "starting"


def test_a_credential_that_is_missing_is_named_as_its_user_does(world, group):
    prefix = names.credential_prefix(installation(), group.workflow.submitted_by)
    place(world, UNCONFIGURED | {"message": f'secret "{prefix}wandb" not found'})
    world.settle()
    assert 'credential "wandb"' in fresh(group).waiting_reason


def test_a_claim_template_that_does_not_exist_is_named_while_no_claim_is_made(db):
    world = World(scheduled=False)
    group = world.group(pods=2)
    world.settle()
    waits = {
        "type": "PodScheduled",
        "status": "False",
        "message": 'pod "osmo/p": ResourceClaim not created yet',
    }
    for pod in world.cluster.all(POD):
        pod["status"]["conditions"] = [waits]
        world.cluster.put(POD, pod)
    missing = 'resource claim template "gpus": resourceclaimtemplate.resource.k8s.io "gpus" not found'
    report(world, group, "FailedResourceClaimCreation", f"PodResourceClaim more: {missing}")
    world.settle()
    row = fresh(group)
    assert row.waiting_why == "missing_object"
    assert 'ResourceClaimTemplate "gpus"' in row.waiting_reason
