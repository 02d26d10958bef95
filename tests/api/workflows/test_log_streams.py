"""Following the logs of a workflow that runs, and how many may do so at a time."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest
from django.utils import timezone

from cluster.errors import ClusterUnreachable, Invalid
from cluster.kinds import POD
from pools.clusters import connect
from tests.answers import content_of
from tests.error_shape import assert_error_shape
from tests.factories import TaskFactory, TaskGroupFactory
from tests.fakes.cluster import FakeCluster
from tests.fakes.streams import FakeLog
from workflows import selectors
from workflows.logs import follow, slots
from workflows.logs.archive import keep_before_delete
from workflows.logs.read import is_over, pod_namespace
from workflows.models import Task, TaskGroup, Workflow

pytestmark = pytest.mark.django_db


class Spoken(FakeLog):
    """What one pod says: what a test hands over, each once, until the pod has ended or nobody listens."""

    def __init__(self, cluster, pod):
        super().__init__(b"")
        self.cluster, self.said, self.closed = cluster, cluster.script.setdefault(pod, []), threading.Event()

    def __iter__(self):
        while not self.closed.is_set():
            if self.said:
                step = self.said.pop(0)
                if isinstance(step, Exception):
                    raise step
                yield step
            elif self.cluster.over:
                return
            else:
                self.closed.wait(0.01)

    def close(self):
        self.closed.set()


class Speaking(FakeCluster):
    """A cluster whose pods say what ``script`` has for them; ``opened`` are the logs that were asked for."""

    def __init__(self):
        super().__init__()
        self.script, self.refused, self.opened, self.over = {}, {}, [], False

    def logs(self, pod, *, namespace, follow=False, tail_lines=None, **other):
        if not follow:
            return super().logs(pod, namespace=namespace, tail_lines=tail_lines)
        if errors := self.refused.get(pod):
            raise errors.pop()
        self.opened.append((pod, tail_lines))
        return Spoken(self, pod)


@pytest.fixture
def cluster(monkeypatch, settings):
    limited(settings, log_follow_seconds=200)  # longer than any of what is waited for here
    cluster = Speaking()
    monkeypatch.setattr(connect, "connect", lambda *args: cluster)
    monkeypatch.setattr(follow, "ROWS_SECONDS", 0.05)
    monkeypatch.setattr(follow, "AGAIN_SECONDS", 0.05)
    return cluster


@pytest.fixture(autouse=True)
def no_place_taken():
    """Places are of the process: what other tests still hold is none of these tests' business."""
    for kind in (slots.READING, slots.FOLLOWING):
        kind._used.clear()
    yield
    for kind in (slots.READING, slots.FOLLOWING):
        kind._used.clear()


def limited(settings, **values):
    settings.ENV = settings.ENV.model_copy(update=values)


def put(cluster, task, text):
    metadata = {"name": task.pod_name, "namespace": "osmo", "annotations": {"fake/log": text}}
    cluster.put(POD, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})


def hang_up(answer):
    """End a request as the server does when the caller has gone; the connection of the test stays."""
    for close in answer._resource_closers:
        close()


def end(group, cluster):
    cluster.over = True
    Task.objects.filter(group=group).update(status="COMPLETED")
    TaskGroup.objects.filter(pk=group.pk).update(status="COMPLETED")
    Workflow.objects.filter(pk=group.workflow_id).update(status="COMPLETED")


def ask(api, group, query=""):
    return api.get(f"/api/workflow/{group.workflow.name}/logs{query}")


def text_of(answer):
    assert answer.status_code == 200, answer.content
    return content_of(answer).decode()


def before_each_update(monkeypatch, *steps):
    """Do the next step when the rows have been read and before they are acted on.

    A step that returns False waits for something: it is tried again before the next update.
    """
    todo, real = list(steps), follow._in_thread

    async def read(function):
        rows_or_text = await real(function)
        if todo and isinstance(rows_or_text, list) and await real(todo[0]) is not False:
            todo.pop(0)
        return rows_or_text

    monkeypatch.setattr(follow, "_in_thread", read)


def test_a_workflow_that_runs_is_followed_until_it_ends(api, cluster, monkeypatch):
    group = TaskGroupFactory(status="RUNNING", pods=2)
    first, second = group.tasks.all()
    cluster.script = {first.pod_name: [b"a1\na", b"2\n"], second.pod_name: [b"b1\n"]}
    before_each_update(monkeypatch, lambda: None, lambda: end(group, cluster))
    lines = text_of(ask(api, group)).splitlines()
    assert [line for line in lines if first.name in line] == [f"[{first.name}] a1", f"[{first.name}] a2"]
    assert [line for line in lines if second.name in line] == [f"[{second.name}] b1"]


def test_a_try_that_begins_meanwhile_joins(api, cluster, monkeypatch):
    group = TaskGroupFactory(status="RUNNING", pods=1)
    task = group.tasks.get()
    cluster.script[task.pod_name] = [b"first try\n"]

    def again():
        if cluster.script[task.pod_name]:
            return False  # the first try has not been read yet
        Task.objects.filter(pk=task.pk).update(status="RESCHEDULED", latest=False)
        new = TaskFactory(
            group=group, name=task.name, task_uuid=task.task_uuid, retry_id=1, status="RUNNING", position=0
        )
        cluster.script[new.pod_name] = [b"second try\n"]
        return True

    before_each_update(monkeypatch, lambda: None, again, lambda: None, lambda: end(group, cluster))
    assert text_of(ask(api, group)) == "first try\nsecond try\n"


def test_a_task_whose_pod_is_gone_is_read_from_the_store_while_others_are_followed(api, cluster, monkeypatch):
    group = TaskGroupFactory(status="RUNNING", pods=2)
    gone, lives = group.tasks.all()
    put(cluster, gone, "last words\n")
    keep_before_delete([gone.pod_name], group=group.pk, cluster=cluster, forced=True)
    cluster.script[lives.pod_name] = [b"on\n"]
    before_each_update(monkeypatch, lambda: None, lambda: end(group, cluster))
    lines = text_of(ask(api, group)).splitlines()
    assert sorted(lines) == [f"[{gone.name}] last words", f"[{lives.name}] on"]


def test_a_stream_that_breaks_is_taken_up_again_and_says_so(api, cluster, monkeypatch):
    group = TaskGroupFactory(status="RUNNING", pods=1)
    task = group.tasks.get()
    cluster.refused[task.pod_name] = [Invalid("container is waiting to start", status=400)]
    cluster.script[task.pod_name] = [b"before\n", ClusterUnreachable("cut")]

    def later():
        cluster.script[task.pod_name].append(b"after\n")

    def when_heard():
        if len(cluster.opened) < 2 or cluster.script[task.pod_name]:
            return False
        end(group, cluster)
        return True

    before_each_update(monkeypatch, *[lambda: None] * 4, later, when_heard)
    text = text_of(ask(api, group))
    assert text == "before\n(followed again; lines before this one may be missing)\nafter\n"
    assert [tail for _, tail in cluster.opened][1:] == [0]


def test_a_log_whose_stream_gave_nothing_before_its_group_was_released_is_read_from_the_store(
    api, cluster, monkeypatch
):
    monkeypatch.setattr(follow, "RELEASED_SECONDS", 0.05)
    group = TaskGroupFactory(status="RUNNING", pods=1)
    task = group.tasks.get()
    put(cluster, task, "last words\n")
    monkeypatch.setattr(Spoken, "__iter__", lambda log: iter(lambda: log.closed.wait(0.01) or b"", None))

    def release():
        if not cluster.opened:
            return False
        keep_before_delete([task.pod_name], group=group.pk, cluster=cluster, forced=True)
        end(group, cluster)
        TaskGroup.objects.filter(pk=group.pk).update(released_at=timezone.now())
        return True

    before_each_update(monkeypatch, lambda: None, release)
    assert text_of(ask(api, group)) == "last words\n"


def test_a_reader_who_follows_too_long_is_told_so(api, cluster, settings):
    limited(settings, log_follow_seconds=0.2)
    group = TaskGroupFactory(status="RUNNING", pods=1)
    assert text_of(ask(api, group)) == "(followed for 0.2 seconds; ask again to go on)\n"


@pytest.mark.parametrize(
    "case",
    [
        ("RUNNING", "", True),
        ("RUNNING", "?follow=True&last_n_lines=5", True),
        ("RUNNING", "?last_n_lines=5", False),
        ("RUNNING", "?follow=False", False),
        ("COMPLETED", "?follow=True", False),
    ],
)
def test_a_log_is_followed_as_its_status_and_the_query_have_it(api, cluster, settings, case):
    status, query, follows = case
    limited(settings, log_follow_seconds=0.1)
    group = TaskGroupFactory(status=status, pods=1)
    Workflow.objects.update(status=status)
    put(cluster, group.tasks.get(), "said\n")
    text = text_of(ask(api, group, query))
    assert ("followed for" in text, text == "said\n") == (follows, not follows)


def test_readers_end_with_the_request(api, cluster, settings):
    group = TaskGroupFactory(status="RUNNING", pods=3)
    stuck = threading.Event()

    class Stuck(Spoken):
        def __iter__(self):
            yield b"x\n"
            if self.closed.wait(120):
                stuck.set()

    cluster.logs = lambda pod, **named: Stuck(cluster, pod)
    answer = ask(api, group)
    assert content_of(answer, pieces=1).endswith(b"x\n")
    assert slots.FOLLOWING.used() == 0
    assert stuck.wait(120)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("query", "places", "limits"),
    [
        ("?follow=False", slots.READING, {"web_threads": 6}),
        ("", slots.FOLLOWING, {"log_followers": 3, "log_user_followers": 2}),
    ],
)
def test_places_are_limited_for_one_user_and_for_all_and_given_back(as_user, settings, query, places, limits):
    limited(settings, **limits)
    group = TaskGroupFactory(status="RUNNING")
    ann, bob = as_user("ann"), as_user("bob")
    held = [ask(ann, group, query), ask(ann, group, query)]
    refused = ask(ann, group, query)
    assert "one user" in assert_error_shape(refused, 429)["message"]
    assert refused["Retry-After"] == str(slots.AGAIN_SECONDS)
    held.append(ask(bob, group, query))
    assert_error_shape(ask(bob, group, query), 429)
    for answer in held:
        hang_up(answer)
    last = ask(bob, group, query)
    assert (last.status_code, places.used()) == (200, 1)
    hang_up(last)
    assert places.used() == 0


def test_followers_leave_the_places_of_those_who_read_once(as_user, cluster, settings):
    limited(settings, web_threads=2, log_followers=1)
    group, ann = TaskGroupFactory(status="RUNNING"), as_user("ann")
    held = [ask(ann, group), ask(ann, group, "?follow=False")]
    assert [answer.status_code for answer in held] == [200, 200]
    for answer in held:
        hang_up(answer)


def test_a_follower_reads_no_large_columns(django_assert_num_queries):
    group = TaskGroupFactory(status="RUNNING", pods=3)
    with django_assert_num_queries(1) as queries:
        tries = list(selectors.tries_of(group.workflow, tasks=(), retry_id=None))
        assert [pod_namespace(task) for task in tries] == [group.placement["namespace"]] * 3
        assert not any(map(is_over, tries))
    assert '"spec"' not in queries[0]["sql"]
    assert '"placement",' not in queries[0]["sql"]


def test_a_burst_of_short_lines_waits_in_small_pieces():
    async def run():
        follower = follow._Follower(
            FakeCluster(), follow.FollowRequest(user="ann", lines=1, prefixed=True, seconds=1)
        )
        reader = follow._PodReader(task=Task(name="t" * 63), again=False)
        queued = asyncio.create_task(follower._queue(reader, [b""] * 30_000))
        while not follower.pieces.full():
            assert not queued.done()
            await asyncio.sleep(0)
        waiting = sum(map(len, follower.pieces._queue))
        text = b""
        while not queued.done() or not follower.pieces.empty():
            text += await follower.pieces.get()
            await asyncio.sleep(0)
        return waiting, text

    waiting, text = asyncio.run(run())
    assert waiting < 2 * follow.QUEUED_PIECES * follow.PIECE
    assert text == (b"[" + b"t" * 63 + b"] \n") * 30_000


@pytest.mark.parametrize(
    ("most", "want"),
    [
        pytest.param(15, {"ann": [(4, 0), (1, 3)], "bob": [(4, 0)]}, id="a user has read a part"),
        pytest.param(
            3,
            {"ann": [(2, 2), (1, 3)], "bob": [(2, 2)], "eve": [(2, 2)], "joe": [(1, 3)]},
            id="all read as many as may be",
        ),
    ],
)
def test_many_pods_leave_room_for_other_followers(settings, most, want):
    limited(settings, log_followers=most)
    group = TaskGroupFactory(status="RUNNING", pods=4)
    tasks = list(selectors.tries_of(group.workflow, tasks=(), retry_id=None))

    class Silent(FakeCluster):
        @asynccontextmanager
        async def follow_log(self, pod, **_):
            await asyncio.Event().wait()
            yield

    def followed(user):
        request = follow.FollowRequest(user=user, lines=1, prefixed=True, seconds=1)
        follower = follow._Follower(Silent(), request)
        return follower, [text() for text in follower.update(tasks)]

    async def run():
        followers = [(user, *followed(user)) for user, counts in want.items() for _ in counts]
        counts = {user: [] for user in want}
        for user, follower, notes in followers:
            counts[user].append((len(follower.readers), len(notes)))
        for _, follower, _ in followers:
            follower.stop()
        await asyncio.wait(follow._further_pods)
        again, notes = followed("joe")
        again.stop()
        return counts, followers[1][2][0], notes

    counts, note, notes = asyncio.run(run())
    assert counts == want
    assert b"1 tasks are followed at a time now" in note
    assert len(notes) == want["bob"][0][1]


@pytest.mark.parametrize(("followers", "want"), [(1, 2.0), (100, 2.0), (1000, 20.0)])
def test_many_followers_read_the_rows_less_often(followers, want):
    follower = follow._Follower(
        FakeCluster(), follow.FollowRequest(user="ann", lines=1, prefixed=False, seconds=1)
    )
    assert follower.rows_seconds(followers) == want
    follower.readers[1] = follow._PodReader(task=None, again=False, ended_at=1.0)
    assert follower.rows_seconds(followers) == 2.0


@pytest.mark.parametrize(
    ("tasks", "followers", "want"),
    [(10, 1, 0.004), (10_000, 1, 4.0), (10_000, 10, 40.0), (10_000, 1000, 60.0)],
)
def test_followers_of_a_wide_workflow_read_its_rows_less_often(tasks, followers, want):
    assert follow.rest_seconds(tasks, followers) == want


@pytest.mark.parametrize("least", [0.0, 0.3])
def test_a_stream_that_ends_cuts_no_rest_short(least):
    request = follow.FollowRequest(user="ann", lines=1, prefixed=False, seconds=1)

    async def run():
        follower, begin = follow._Follower(FakeCluster(), request), time.monotonic()
        for piece in (b"a", b"", b"b", b""):
            follower.pieces.put_nowait(piece)
        pieces = [piece async for piece in follower.new_pieces(seconds=20.0, least=least)]
        return pieces, time.monotonic() - begin

    pieces, seconds = asyncio.run(run())
    assert pieces == ([b"a", b"b"] if least else [b"a"])
    assert least <= seconds < 10


def test_a_log_read_from_the_store_takes_no_place(api, cluster, settings):
    limited(settings, web_threads=1)
    group = TaskGroupFactory(status="RUNNING")
    held = ask(api, group, "?follow=False")
    done = TaskGroupFactory(status="COMPLETED")
    put(cluster, done.tasks.get(), "done\n")
    keep_before_delete([done.tasks.get().pod_name], group=done.pk, cluster=cluster, forced=True)
    Workflow.objects.filter(pk=done.workflow_id).update(status="COMPLETED")
    assert text_of(ask(api, done)) == "done\n"
    hang_up(held)
