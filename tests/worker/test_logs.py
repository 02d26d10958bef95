"""What becomes of the logs of pods that end: kept before they go, in bounded time, and not for ever."""

import threading
from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from cluster.errors import ClusterUnreachable, ServerFault
from cluster.kinds import POD
from tests.builders.gangs import retried
from tests.factories import TaskFactory
from tests.fakes.streams import FakeLog
from tests.worker.world import fresh
from workflows.logs import archive, sweep
from workflows.logs.errors import StoreFailed
from workflows.logs.read import LogRequest, ReadTries, read_logs
from workflows.logs.store import installed_store
from workflows.models import KeptLog, Task, TaskGroup, Workflow
from workflows.services.stop import cancel_workflow


@pytest.fixture(autouse=True)
def store(settings, tmp_path):
    settings.ENV = settings.ENV.model_copy(update={"log_store": tmp_path.as_uri()})
    return tmp_path


def files(store):
    return sorted(path for path in store.rglob("*") if path.is_file())


def say(world, group, text="working\ndone\n"):
    """Let each pod of a group have said its task's name and this."""
    for task in group.tasks.filter(latest=True):
        said = f"{task.name}#{task.retry_id}\n{text}"
        world.cluster.edit(
            POD,
            task.pod_name,
            lambda obj, said=said: obj["metadata"].setdefault("annotations", {}).update({"fake/log": said}),
            namespace="osmo",
        )


def read(world, *tasks, lines=1000):
    rows = [Task.objects.select_related("group").get(pk=task.pk) for task in tasks]
    read = ReadTries(tries=rows, left_out=0, prefixed=len(rows) > 1)
    return b"".join(read_logs(read, cluster=world.cluster, request=LogRequest(lines=lines))).decode()


def running(world, **changes):
    group = world.group(**changes)
    for _ in range(6):
        world.step()
    assert fresh(group).status == "RUNNING"
    return group


def test_the_logs_of_a_group_that_ended_are_there_when_its_pods_are_not(world):
    group = running(world)
    say(world, group)
    world.finish(group)
    world.settle()
    first, second = group.tasks.all()
    assert world.pods() == []
    world.cluster.calls.clear()
    assert read(world, first) == f"{first.name}#0\nworking\ndone\n"
    assert read(world, second, lines=1) == "done\n"
    assert f"[{second.name}] done\n" in read(world, first, second)
    assert world.cluster.calls == []


@pytest.mark.parametrize("force", [False, True])
def test_the_logs_of_a_group_that_was_cancelled_are_kept(world, force):
    group = running(world)
    say(world, group)
    cancel_workflow(group.workflow, by="ann", message="", force=force)
    world.settle()
    assert {task.log_state for task in group.tasks.all()} == {"kept"}


def test_the_log_of_a_try_is_kept_before_the_next_one_takes_its_place(world):
    pool = world.pool(nvlink=True)
    again = retried("3")
    group = running(world, pool=pool, frozen=again)
    say(world, group)
    task = group.tasks.first()
    world.finish(group, 3, tasks=[task.name])
    for _ in range(6):
        world.step()
    first, again = group.tasks.filter(name=task.name).order_by("retry_id")
    assert read(world, first) == f"{task.name}#0\nworking\ndone\n"
    assert again.log_state == ""
    assert again.pod_name in world.pods()


class Silence(FakeLog):
    """A log whose first byte never comes."""

    def __init__(self):
        super().__init__(b"")
        self._closed = threading.Event()

    def __iter__(self):
        self._closed.wait(30)
        yield from ()

    def close(self):
        self._closed.set()


def test_a_kubelet_that_never_answers_holds_the_release_up_for_a_bounded_time(world, monkeypatch):
    group = running(world)
    with monkeypatch.context() as silent:
        silent.setattr("workflows.logs.archive.HOLD_SECONDS", 0.2)
        silent.setattr(world.cluster, "logs", lambda *args, **named: Silence())
        world.finish(group)
        world.settle()
    assert fresh(group).released_at is not None
    task = group.tasks.first()
    assert task.log_note == ("the log could not be read before its pod was deleted: not within 0.2 seconds")
    assert read(world, task) == f"Its log is not kept: {task.log_note}.\n"
    assert {row.stored_at for row in KeptLog.objects.all()} <= {None}


def test_a_node_that_fails_once_is_not_asked_for_its_other_pods(world, monkeypatch):
    group = running(world, pods=12)
    asked = []

    def fail(pod, **named):
        asked.append(pod)
        raise ServerFault("dial tcp: i/o timeout", status=500)

    with monkeypatch.context() as failing:
        failing.setattr(archive, "READERS", 1)
        failing.setattr(world.cluster, "logs", fail)
        world.finish(group)
        world.settle()
    assert len(asked) == group.tasks.values("node_name").distinct().count() < 12
    assert fresh(group).released_at is not None
    notes = set(group.tasks.values_list("log_note", flat=True))
    assert any("i/o timeout" in note for note in notes)
    assert any("gives none" in note for note in notes)


def test_nothing_is_given_up_while_the_whole_cluster_is_silent(world, monkeypatch):
    group = running(world)
    say(world, group)
    pods = list(group.tasks.values_list("pod_name", flat=True))
    with world.cluster.unreachable(), pytest.raises(ClusterUnreachable):
        archive.keep_before_delete(pods, group=group.pk, cluster=world.cluster, forced=True)
    assert set(group.tasks.values_list("log_state", flat=True)) == {""}
    world.finish(group)
    world.settle()
    assert set(group.tasks.values_list("log_state", flat=True)) == {"kept"}


def test_a_store_that_fails_holds_nothing_up_and_is_told_of(world, monkeypatch, store):
    group = running(world)
    (store / group.workflow_id.hex).write_text("in the way")
    world.finish(group)
    world.settle()
    assert fresh(group).released_at is not None
    assert "the store of logs failed" in group.tasks.first().log_note


def test_a_worker_that_dies_before_it_has_recorded_a_log_does_no_harm(world, monkeypatch, store):
    group = running(world)
    say(world, group)
    pods = list(group.tasks.values_list("pod_name", flat=True))

    def die(*args, **named):
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(archive, "record", die)
        with pytest.raises(KeyboardInterrupt):
            archive.keep_before_delete(pods, group=group.pk, cluster=world.cluster, forced=True)
    assert len(files(store)) == len(pods)
    assert {(row.size, row.stored_at) for row in KeptLog.objects.all()} == {(0, None)}
    world.finish(group)
    world.settle()
    assert len(files(store)) == len(pods) == KeptLog.objects.filter(stored_at__isnull=False).count()


def test_a_pod_that_ends_while_its_group_goes_on_has_its_log_kept_by_the_sweep(world):
    group = running(world, ignore_nonlead_status=True)
    say(world, group)
    follower = group.tasks.filter(lead=False).first()
    world.finish(group, tasks=[follower.name])
    for _ in range(3):
        world.step()
    assert fresh(group).status == "RUNNING"
    backend = group.backend_id
    assert sweep.backends_due() == [backend]
    claimed = sweep.claim(backend)
    assert claimed == [follower.pk]
    assert sweep.claim(backend) == []  # somebody has it
    archive.keep_ended(claimed, cluster=world.cluster, seconds=200)
    follower.refresh_from_db()
    assert follower.log_state == "kept"
    assert sweep.backends_due() == []


def test_a_claim_of_a_worker_that_died_is_taken_over(world):
    group = running(world)
    task = group.tasks.first()
    Task.objects.filter(pk=task.pk).update(status="COMPLETED", end_time=Now())
    assert sweep.claim(group.backend_id) == [task.pk]
    Task.objects.update(log_try_at=Now() - timedelta(seconds=1))
    assert sweep.claim(group.backend_id) == [task.pk]


def test_a_log_that_ended_unread_is_said_to_be_and_is_searched_no_more(db):
    with_pod = TaskFactory(status="COMPLETED", end_time=Now(), scheduling_start_time=Now())
    without = TaskFactory(group=with_pod.group, status="COMPLETED", end_time=Now())
    assert sweep.settle_released() == 0
    TaskGroup.objects.update(status="COMPLETED", released_at=Now())
    assert sweep.settle_released() == 2
    assert sweep.settle_released() == 0
    notes = dict(Task.objects.values_list("pk", "log_note"))
    assert notes == {with_pod.pk: sweep.POD_DELETED, without.pk: sweep.NEVER}


def kept(world, count=3):
    """Logs of one workflow each, the first one the oldest; returns their tasks."""
    tasks = []
    for number in range(count):
        group = running(world, pods=1)
        say(world, group, text=f"{number}\n" * 100)
        world.finish(group)
        world.settle()
        tasks.append(group.tasks.get())
        KeptLog.objects.update(stored_at=F("stored_at") - timedelta(hours=1))
    return tasks


def test_the_store_is_bounded_and_the_oldest_logs_go_first(world, settings, store):
    tasks = kept(world)
    assert sweep.keep_within_bounds() == 0
    sizes = [KeptLog.objects.get(task=task).size for task in tasks]
    assert sum(sizes) == sum(path.stat().st_size for path in files(store))
    settings.ENV = settings.ENV.model_copy(update={"log_total_bytes": sum(sizes[1:])})
    assert sweep.keep_within_bounds() == 1
    assert [Task.objects.get(pk=task.pk).log_state for task in tasks] == ["dropped", "kept", "kept"]
    assert sum(path.stat().st_size for path in files(store)) == sum(sizes[1:])
    why = "the store was full, and its submitter's newer logs needed its room"
    assert read(world, tasks[0]) == f"Its log is not kept any more: {why}.\n"
    assert "2\n" in read(world, tasks[2])


def test_logs_of_one_user_never_push_out_those_of_another(world, settings, store):
    """The store is full of bob's logs, all of them newer than ann's."""
    ann, *bobs = kept(world, 5)
    Workflow.objects.exclude(pk=ann.group.workflow_id).update(submitted_by="bob")
    sizes = {row.task_id: row.size for row in KeptLog.objects.all()}
    settings.ENV = settings.ENV.model_copy(update={"log_total_bytes": 2 * max(sizes.values()) + 1})
    sweep.keep_within_bounds()
    states = [Task.objects.get(pk=task.pk).log_state for task in (ann, *bobs)]
    assert states == ["kept", "dropped", "dropped", "dropped", "kept"]


@pytest.mark.parametrize(
    ("sizes", "most", "level"),
    [([5, 100], 60, 55), ([100, 100], 60, 30), ([10, 20, 90], 60, 30), ([1, 2], 60, 57), ([], 60, 60)],
)
def test_the_larger_shares_shrink_to_one_level(sizes, most, level):
    assert sweep.fair_level(sizes, most=most) == level


def test_logs_that_are_too_old_and_logs_of_removed_workflows_go(world, settings, store):
    old, removed, young = kept(world)
    KeptLog.objects.filter(task=old).update(stored_at=Now() - timedelta(days=31))
    removed.group.workflow.delete()
    stranger = store / "a file of somebody else's"
    stranger.write_text("not named by any row")
    assert sweep.keep_within_bounds() == 2
    assert files(store) == sorted([stranger, store / KeptLog.objects.get(task=young).name])
    assert "older than logs are kept" in read(world, old)


def test_a_remnant_of_a_dead_writer_is_cleared_away(world, store):
    (task,) = kept(world, 1)
    KeptLog.objects.update(stored_at=None, begun_at=Now() - timedelta(hours=2))
    Task.objects.filter(pk=task.pk).update(log_state="unread", log_note="its worker died")
    assert sweep.keep_within_bounds() == 1
    assert files(store) == []


def test_a_store_that_refuses_to_remove_is_asked_again_and_no_row_is_lost(world, monkeypatch):
    kept(world, 1)
    KeptLog.objects.update(stored_at=Now() - timedelta(days=31))

    class Refusing:
        def remove(self, name):
            raise StoreFailed("no")

    with monkeypatch.context() as refusing:
        refusing.setattr(sweep, "installed_store", Refusing)
        assert sweep.keep_within_bounds() == 0
    assert KeptLog.objects.count() == 1
    assert sweep.keep_within_bounds() == 1


def test_a_log_that_vanished_from_the_store_or_is_damaged_is_said_to_be(world):
    gone, damaged = kept(world, 2)
    names = {task.pk: KeptLog.objects.get(task=task).name for task in (gone, damaged)}
    installed_store().remove(names[gone.pk])
    installed_store().put(names[damaged.pk], b"not packed")
    assert read(world, gone) == "Its log was kept, and is not in the store any more.\n"
    assert read(world, damaged) == "Its log is kept, and cannot be read from the store now.\n"
