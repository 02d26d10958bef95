"""Containers that an admission policy puts into pods decide no task's end, and keep no GPU after it."""

import pytest

from cluster.kinds import NODE, POD
from pools import conditions
from tests.builders.gangs import native_gang, recovering_gang
from tests.builders.pod_groups import pod_group
from tests.builders.workloads import admit, kueue_world, queued_gang
from tests.fakes import players
from tests.worker.world import World, fresh, statuses
from workflows.logs.read import LogRequest, ReadTries, read_logs
from workflows.models import Event, Task, TaskGroup

PROXY = {"name": "istio-proxy", "image": "registry.k8s.io/pause:3.9"}


def mesh(**pod):
    """An admission policy that puts these containers into every pod."""

    def player(cluster):
        for obj in cluster.all(POD):
            spec = obj["spec"]
            added = {kind: [*spec.get(kind, ()), *containers] for kind, containers in pod.items()}
            names = {container["name"] for kind in pod for container in spec.get(kind, ())}
            if names.isdisjoint(container["name"] for kind in pod for container in pod[kind]):
                obj["spec"] = spec | added
                cluster.put(POD, obj)

    return player


def on_kai(policy):
    world = World()
    world.cluster.players.insert(0, policy)
    group = world.group(pods=3, pool=world.pool(), ignore_nonlead_status=False)
    Task.objects.filter(group=group).update(lead=False)
    return world, group


def on_kubernetes(policy):
    world = World()
    world.cluster.players.insert(0, policy)
    return world, native_gang(world)


def on_kueue(policy):
    world = kueue_world()
    world.cluster.players.insert(0, policy)
    for node in world.cluster.all(NODE):
        world.cluster.put(NODE, node | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    group = queued_gang(world, pods=3)
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=False)
    Task.objects.filter(group=group).update(lead=False)
    admit(world, "n-1", "n-2", "n-3")
    return world, group


@pytest.fixture(params=[on_kai, on_kubernetes, on_kueue])
def meshed(db, settings, tmp_path, request):
    settings.ENV = settings.ENV.model_copy(update={"log_store": tmp_path.as_uri()})
    world, group = request.param(mesh(containers=[PROXY]))
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    return world, group


def end(world, group, *tasks, code=0, containers=None):
    """The task's own containers end, or those of these names; the pods run on."""
    for task in group.tasks.filter(name__in=tasks, latest=True):

        def change(obj, task=task):
            obj["metadata"].setdefault("annotations", {})["fake/log"] = f"the last words of {task.name}\n"
            for status in obj["status"]["containerStatuses"]:
                if status["name"] in (containers or [task.name]):
                    status["state"] = {
                        "terminated": {"exitCode": code, "reason": "Error" if code else "Done"}
                    }

        world.cluster.edit(POD, task.pod_name, change, namespace=group.placement["namespace"])


def log_of(world, task):
    rows = ReadTries(tries=[Task.objects.select_related("group").get(pk=task.pk)], left_out=0, prefixed=False)
    return b"".join(read_logs(rows, cluster=world.cluster, request=LogRequest(lines=10))).decode()


@pytest.mark.parametrize(("code", "status"), [(0, "COMPLETED"), (137, "FAILED")])
def test_a_task_ends_with_its_own_container_and_its_pod_is_deleted(meshed, code, status):
    world, group = meshed
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=True)
    task = group.tasks.get(name="task-1", latest=True)
    end(world, group, "task-1", code=code)
    world.settle()
    assert statuses(group) == ["RUNNING", status, "RUNNING"]
    assert task.pod_name not in world.pods()
    assert len(world.pods()) == 2
    assert "the last words of task-1" in log_of(world, task)
    (note,) = Event.objects.filter(reason="KeptPodsDeleted")
    assert "task-1" in note.message
    assert "istio-proxy" in note.message

    end(world, group, "task-0", "task-2")
    world.settle()
    row = fresh(group)
    assert row.released_at is not None
    assert world.pods() == []


def test_the_minimum_follows_before_the_pod_is_deleted(db, settings, tmp_path):
    settings.ENV = settings.ENV.model_copy(update={"log_store": tmp_path.as_uri()})
    world, group = on_kai(mesh(containers=[PROXY]))
    world.settle()
    pod = group.tasks.get(name="task-1", latest=True).pod_name
    minimums = []

    def scheduler_cache(cluster):
        if pod in {obj["metadata"]["name"] for obj in cluster.all(POD)}:
            return
        minimums.append(pod_group(world)["spec"]["minMember"])

    world.cluster.players.append(scheduler_cache)
    end(world, group, "task-1")
    world.settle()
    assert set(minimums) == {2}


def test_a_group_that_its_lead_ends_is_released_whole(meshed):
    world, group = meshed
    Task.objects.filter(group=group, name="task-0").update(lead=True)
    TaskGroup.objects.filter(pk=group.pk).update(ignore_nonlead_status=True)
    end(world, group, "task-0")
    world.settle()
    assert fresh(group).released_at is not None
    assert world.pods() == []


def test_a_proxy_that_dies_ends_no_task(meshed):
    world, group = meshed
    end(world, group, "task-0", "task-1", "task-2", code=1, containers=["istio-proxy"])
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    assert len(world.pods()) == 3


def test_recovery_begins_with_the_end_of_a_task_s_own_container(db):
    world = World()
    world.cluster.players.insert(0, mesh(containers=[PROXY]))
    group = recovering_gang(world, default_exit_actions={"RESTART_GROUP": "137"})
    end(world, group, "task-1", code=137)
    world.settle()
    assert fresh(group).attempt_number == 2
    assert statuses(group) == ["RUNNING"] * 3


def test_what_was_put_into_pods_is_named_by_condition_and_event(meshed):
    world, group = meshed
    row = fresh(group)
    condition = conditions.find(row.conditions, "PodsChanged")
    assert condition["status"] == "True"
    assert "added containers[istio-proxy] (registry.k8s.io/pause:3.9)" in condition["message"]
    (note,) = Event.objects.filter(reason="PodsChanged")
    assert group.name in note.message
    world.settle()
    assert Event.objects.filter(reason="PodsChanged").count() == 1


@pytest.mark.parametrize("make", [on_kai, on_kubernetes, on_kueue])
def test_pods_that_nothing_changed_have_no_such_condition(db, make):
    world, group = make(lambda cluster: None)
    world.settle()
    assert statuses(group) == ["RUNNING"] * 3
    assert conditions.find(fresh(group).conditions, "PodsChanged") is None


def states(world, group, phase, **init):
    """A kubelet reports pods whose init containers are in these states; their tasks' own have not begun."""
    for task in group.tasks.filter(latest=True):
        statuses = [{"name": name.replace("_", "-"), "state": state} for name, state in init.items()]
        own = {"name": task.name, "state": {"waiting": {"reason": "PodInitializing"}}}

        def change(obj, statuses=statuses, own=own):
            obj["status"] = {"phase": phase, "initContainerStatuses": statuses, "containerStatuses": [own]}

        world.cluster.edit(POD, task.pod_name, change, namespace=group.placement["namespace"])


@pytest.fixture(params=[on_kai, on_kubernetes, on_kueue])
def initializing(db, request):
    """The pods of a group have nodes, and an init container of a mesh before their own."""
    world, group = request.param(mesh(initContainers=[PROXY | {"name": "istio-init"}]))
    world.cluster.players = [player for player in world.cluster.players if player is not players.kubelet]
    world.settle()
    assert set(statuses(group)) == {"INITIALIZING"}
    return world, group


def test_an_injected_init_container_that_hangs_is_named(initializing):
    world, group = initializing
    states(world, group, "Pending", istio_init={"running": {}})
    world.settle()
    row = fresh(group)
    assert "Init container istio-init, which the cluster put into its pods, has not ended in 3 pods." in (
        row.waiting_reason
    )
    assert "admission policies" in row.waiting_evidence["help"]


def test_an_injected_init_container_that_hangs_is_named_beside_tasks_that_run(initializing):
    world, group = initializing
    states(world, group, "Pending", istio_init={"running": {}})
    pod = group.tasks.get(name="task-0", latest=True).pod_name
    running = {"phase": "Running", "containerStatuses": [{"name": "task-0", "state": {"running": {}}}]}
    world.cluster.edit(
        POD, pod, lambda obj: obj.update(status=running), namespace=group.placement["namespace"]
    )
    world.settle()
    row = fresh(group)
    assert row.status == "RUNNING"
    assert "Init container istio-init, which the cluster put into its pods, has not ended in 2 pods." in (
        row.waiting_reason
    )


def test_an_injected_init_container_that_fails_ends_its_task_and_is_named(initializing):
    world, group = initializing
    states(world, group, "Failed", istio_init={"terminated": {"exitCode": 2, "message": "iptables"}})
    world.settle()
    assert set(statuses(group)) == {"FAILED_START_ERROR"}
    message = Task.objects.filter(group=group)[0].failure_message
    assert "Init container istio-init, which the cluster put into its pod, ended with exit code 2" in message


def test_what_was_put_into_pods_is_named_although_the_group_ends_at_once(db):
    world = World()
    world.cluster.players.insert(0, mesh(containers=[PROXY]))
    group = world.group(pods=1)
    world.reconcile(group)
    world.finish(group, 3)
    world.settle()
    assert fresh(group).status == "FAILED"
    assert Event.objects.filter(reason="PodsChanged").count() == 1


def test_an_image_of_an_injected_init_container_is_named_as_such(initializing):
    world, group = initializing
    states(world, group, "Pending", istio_init={"waiting": {"reason": "ErrImageNeverPull"}})
    world.settle()
    assert fresh(group).waiting_reason.startswith("Image registry.k8s.io/pause:3.9 of tasks task-0, task-1")


@pytest.mark.parametrize("make", [on_kai, on_kubernetes])
def test_a_change_that_may_keep_pods_waiting_is_part_of_the_reason(db, make):
    def policy(cluster):
        for obj in cluster.all(POD):
            if obj["spec"].get("nodeSelector") != {"zone": "z"}:
                obj["spec"]["nodeSelector"] = {"zone": "z"}
                cluster.put(POD, obj)

    world, group = make(policy)
    world.cluster.players = [policy]  # and no scheduler
    world.settle()
    row = fresh(group)
    assert "it added nodeSelector[zone] (z)." in row.waiting_reason
    (change,) = row.waiting_evidence["pod_changes"]
    assert (change["field"], change["sent"], change["present"]) == ("nodeSelector[zone]", "", "z")
    assert "admission policies" in row.waiting_evidence["help"]
