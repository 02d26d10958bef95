"""Patience on a real API server: a rack that cannot be given is waited for, then done without."""

from tests.e2e.conftest import RACK

SPEC = """
workflow:
  name: patient
  groups:
  - name: g
    tasks:
    - {name: a, lead: true, image: busybox, command: [sleep], resource: left}
    - {name: b, image: busybox, command: [sleep], resource: left}
    - {name: c, image: busybox, command: [sleep], resource: left}
    - {name: d, image: busybox, command: [sleep], resource: right}
  resources:
    left: {gpu: 4, topology: [{key: rack, group: left, requirementType: preferred, waitSeconds: 20}]}
    right: {gpu: 4, topology: [{key: rack, group: right, requirementType: preferred}]}
"""


def levels(pod_group):
    """What each subgroup is held to: its required and its preferred level."""
    held = [subgroup.get("topologyConstraint", {}) for subgroup in pod_group["spec"]["subGroups"]]
    return [
        (constraint.get("requiredTopologyLevel"), constraint.get("preferredTopologyLevel"))
        for constraint in held
    ]


def test_a_gang_waits_for_racks_and_is_then_placed_without(world):
    pool = world.make_pool(racks=2)  # of two nodes each, so no rack holds the three of the left
    name = world.submit(pool, SPEC)

    def pod_group():
        (found,) = world.view.of_group(world.namespace, "PodGroup", world.groups(name)["g"]["uuid"])
        return found

    waiting = world.wait(
        lambda: world.groups(name)["g"],
        lambda group: "It is held to one rack as required for" in (group["waiting_reason"] or ""),
    )
    # read now: a scheduler on a shared cluster may write more events than the timeline shows
    world.wait(
        lambda: world.service.events(name), lambda lines: any(" PatienceBegan: " in line for line in lines)
    )
    before = pod_group()
    labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in world.pods(name)}
    assert levels(before) == [(RACK, RACK), (None, RACK)]
    assert waiting["status"] == "SCHEDULING"
    assert waiting["patience"]["next_relaxation_at"] is not None
    assert [line.get("relaxed") for line in waiting["constraints"]] == [False, None]

    placed = world.wait_group(name, "g", "RUNNING")
    after = pod_group()
    assert levels(after) == [(None, RACK), (None, RACK)]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in world.pods(name)} == labels
    assert placed["patience"]["stage"] == 1
    assert [line.get("relaxed") for line in placed["constraints"]] == [True, None]
    assert any(" Relaxed: " in line for line in world.service.events(name))
    for pod in world.pods(name):
        world.annotate(pod, run_for="0s")
    assert world.wait_released(name)["status"] == "COMPLETED"
    assert world.left(name) == []
