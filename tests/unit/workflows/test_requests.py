"""What a pod requests once its platform's template lies over it, for the verdict."""

from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import pytest

from pools.clusters.capabilities import capabilities_at
from scheduling.kubernetes_syntax import GPU
from tests.builders.placements import GROUP
from tests.builders.terms import changed
from workflows.feasibility.capacity.node_snapshot import demand_of
from workflows.manifests.requests import for_a_claim, requests_of
from workflows.values.placement import FrozenTemplate, GroupValues, TaskPlacement, TaskTry

TASK = TaskPlacement(image="ubuntu", command=("sleep",), cpu=4, gpu=8, memory="8Gi")


def template(**spec):
    return FrozenTemplate(pod={"spec": spec})


def user_container(**resources):
    return {"name": "{{USER_CONTAINER_NAME}}", "resources": resources}


def requests(frozen):
    return requests_of(TASK, frozen, submitted_by="alice", has_barrier=False)


def test_without_a_template_the_users_amounts_count():
    assert requests(None) == {"cpu": 4, "memory": 8 * 2**30, "nvidia.com/gpu": 8}


def test_a_template_replaces_amounts_and_adds_resources():
    frozen = template(containers=[user_container(requests={"cpu": "1500m"}, limits={"example.com/nic": "2"})])

    assert requests(frozen) == {
        "cpu": Decimal("1.5"),
        "memory": 8 * 2**30,
        "nvidia.com/gpu": 8,
        "example.com/nic": 2,
    }


def test_sidecars_and_init_containers_count_by_kubernetes_rule():
    frozen = template(
        initContainers=[
            {"name": "mesh", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}},
            {"name": "load", "resources": {"requests": {"memory": "20Gi", "cpu": "1"}}},
        ],
        overhead={"cpu": "250m"},
    )

    want = {"cpu": Decimal("4.25"), "memory": 21 * 2**30, "nvidia.com/gpu": 8}
    assert requests(frozen) == want


def terms(spec):
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return required["nodeSelectorTerms"]


FREE = {"key": "resource.nvidia.com/computeDomain", "operator": "DoesNotExist"}


def test_a_node_whose_channel_is_held_is_left_out_whatever_else_a_pod_requires():
    """Terms are alternatives, so each of them has to leave it out."""
    fast = {"key": "example.com/disk", "operator": "In", "values": ["fast"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["n-1"]}
    own = [{"matchExpressions": [fast]}, {"matchFields": [field]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}}
    spec = {"affinity": {"nodeAffinity": required}, "containers": []}

    assert terms(for_a_claim(spec, gpus=0)) == [
        {"matchExpressions": [fast, FREE]},
        {"matchFields": [field], "matchExpressions": [FREE]},
    ]
    assert terms(for_a_claim({"containers": []}, gpus=0)) == [{"matchExpressions": [FREE]}]


RAISED = {
    "fewer than are asked for": ([{"requests": {GPU: "4"}}], [{"requests": {GPU: "4"}}]),
    "one container": (
        [{"requests": {GPU: "1", "cpu": "2"}, "limits": {GPU: "1"}}],
        [{"requests": {GPU: "3", "cpu": "2"}, "limits": {GPU: "3"}}],
    ),
    "two with GPUs": (
        [{}, {"limits": {GPU: "1"}}, {"limits": {GPU: "1"}}],
        [{}, {"limits": {GPU: "2"}}, {"limits": {GPU: "1"}}],
    ),
}


@pytest.mark.parametrize("phrase", RAISED)
def test_room_for_a_claim_has_so_many_gpus_at_least(phrase):
    before, after = RAISED[phrase]
    spec = {"containers": [{"name": "c", "resources": resources} for resources in before]}

    raised = for_a_claim(spec, gpus=3)["containers"]

    assert [container["resources"] for container in raised] == after


def group(placement, *tasks):
    tries = tuple(
        TaskTry(task_uuid=UUID(int=i + 1), name=f"t{i}", retry_id=0, placement=task)
        for i, task in enumerate(tasks)
    )
    return GroupValues(uuid=UUID(int=9), name="g", generation=0, placement=placement, tasks=tries)


def test_the_verdict_counts_what_the_pods_request():
    nic = template(containers=[user_container(requests={"cpu": "1", "example.com/nic": "1"})])
    placement = changed(GROUP, templates={"fast": nic}, scheduler_type="kai", scheduler_version="")
    values = group(placement, TASK, replace(TASK, platform="fast"))

    demand = demand_of(values, capabilities=capabilities_at("kai", ""))

    plain, fast = demand.demands["t0"], demand.demands["t1"]
    assert (plain.amounts[1], plain.others) == (4000, ())
    assert (fast.amounts[1], fast.others) == (1000, (("example.com/nic", 1),))


def test_an_external_topology_is_read_whole_and_the_last_stage_is_known():
    placement = changed(GROUP, external_topology="theirs", scheduler_type="kai")

    demand = demand_of(group(placement, TASK), capabilities=capabilities_at("kai", ""))

    assert demand.cut == len(GROUP.terms.levels) - 1
    assert demand.last is None


def test_a_scheduler_that_hides_unlabelled_nodes_is_counted_so():
    placement = changed(GROUP, scheduler_type="kueue", scheduler_version="")

    demand = demand_of(group(placement, TASK), capabilities=capabilities_at("kueue", ""))

    assert demand.cut == len(GROUP.terms.levels) - 1
