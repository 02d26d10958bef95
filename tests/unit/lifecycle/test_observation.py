"""What is kept of what was seen, and how changes flow to the database."""

import json
import threading
from uuid import UUID

import pytest

from workflows.models import ObservedObject, ObservedPod
from workflows.observer.inbox import Inbox
from workflows.observer.streams import Memory
from workflows.values.observation import (
    OBJECT_COLUMNS,
    POD_COLUMNS,
    EventSeen,
    PodSeen,
    see_event,
    see_node,
    see_pod,
)

GROUP = UUID(int=7)


def seen(name, **changes):
    return PodSeen(
        **{
            "namespace": "osmo",
            "name": name,
            "uid": f"u-{name}",
            "group_uuid": GROUP,
            "phase": "Pending",
            **changes,
        }
    )


def test_a_pod_of_nobody_is_not_kept():
    assert see_pod({"metadata": {"name": "x", "uid": "u", "namespace": "osmo"}}) is None
    odd = {"metadata": {"name": "x", "uid": "u", "labels": {"osmo.nvidia.com/task-group": "no-uuid"}}}
    assert see_pod(odd) is None


def test_a_digest_is_small_and_is_json():
    message = "x" * 100_000
    pod = see_pod(
        {
            "metadata": {"name": "p", "uid": "u", "labels": {"osmo.nvidia.com/task-group": GROUP.hex}},
            "spec": {"containers": [{"env": [message]}]},
            "status": {
                "phase": "Failed",
                "message": message,
                "containerStatuses": [
                    {"name": "c", "state": {"terminated": {"exitCode": 0, "message": message}}}
                ],
            },
        }
    )
    assert len(json.dumps(pod.digest)) < 2000
    assert pod.digest["containers"][0]["exit"] == 0


def test_a_heartbeat_is_no_news_of_a_node():
    def node(time):
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": time}
        return see_node({"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": [condition]}})

    memory = Memory(())
    assert memory.changed(node("1"))
    assert not memory.changed(node("2"))


def event(name, kind="Pod", *, annotations=(), **changes):
    return see_event(
        {
            "metadata": {"name": "e", "uid": "ev", **changes.pop("metadata", {})},
            "involvedObject": {"kind": kind, "name": name},
            "reason": "R",
            "message": "m",
            **changes,
        },
        kinds=("Pod", "PodGroup", "ComputeDomain"),
        annotations=annotations,
    )


def test_events_about_others_are_not_kept():
    assert event("nginx-7d") is None
    assert event(GROUP.hex, kind="Deployment") is None


def test_events_name_their_group_where_their_object_does():
    assert event(GROUP.hex, kind="PodGroup").group == GROUP
    assert event(f"{GROUP.hex}-1-0", kind="PodGroup").group == GROUP
    assert event(f"osmo-{GROUP.hex}", kind="ComputeDomain").group == GROUP
    assert event(f"{GROUP.hex}-0").group is None


def test_an_action_in_an_annotation_stands_behind_the_message():
    metadata = {"annotations": {"action-type": "reclaim"}}
    assert event(GROUP.hex, kind="PodGroup", metadata=metadata.copy()).message == "m"
    known = event(GROUP.hex, kind="PodGroup", metadata=metadata, annotations=("other", "action-type"))
    assert known.message == "m (action: reclaim)"


def test_an_event_that_repeats_itself_is_one_line_for_each_doubling():
    lines = {event(GROUP.hex, kind="PodGroup", count=count).dedupe for count in range(1, 1025)}
    assert len(lines) == 11


def test_the_newest_of_an_object_wins_and_each_comes_once():
    inbox = Inbox()
    inbox.put("c", seen("a"))
    inbox.put("c", seen("b"))
    inbox.put("c", seen("a", phase="Running"))
    batch = inbox.take(timeout=1.0, linger=0.0)["c"]
    assert {pod.name: pod.phase for pod in batch.pods} == {"a": "Running", "b": "Pending"}
    assert inbox.take(timeout=0.0, linger=0.0) == {}


def test_clusters_are_kept_apart():
    inbox = Inbox()
    inbox.put("c", seen("a"))
    inbox.put("d", seen("a"))
    inbox.note_reachable("e")
    batches = inbox.take(timeout=1.0, linger=0.0)
    assert {uid: (len(b.pods), b.is_reachable) for uid, b in batches.items()} == {
        "c": (1, False),
        "d": (1, False),
        "e": (0, True),
    }


def test_streams_wait_while_there_is_no_room():
    inbox = Inbox(most=1)
    inbox.put("c", seen("a"))
    second = threading.Thread(target=inbox.put, args=("c", seen("b")))
    second.start()
    first = inbox.take(timeout=1.0, linger=0.0)["c"]
    second.join(5)
    rest = inbox.take(timeout=1.0, linger=0.0)["c"]
    assert [pod.name for pod in (*first.pods, *rest.pods)] == ["a", "b"]


def test_a_closed_inbox_lets_everybody_go():
    inbox = Inbox(most=1)
    inbox.put("c", seen("a"))
    waiting = threading.Thread(target=inbox.put, args=("c", seen("b")))
    waiting.start()
    inbox.close()
    waiting.join(5)
    assert not waiting.is_alive()


def test_nodes_are_complete_only_once_all_of_them_are_written():
    inbox = Inbox()
    inbox.put("c", see_node({"metadata": {"name": "n", "uid": "u"}}))
    inbox.nodes_complete("c")
    batch = inbox.take(timeout=1.0, linger=0.0)["c"]
    assert (len(batch.nodes), batch.nodes_complete) == (1, True)


def test_memory_says_what_a_complete_list_no_longer_has():
    memory = Memory([seen("from the rows")])
    memory.changed(seen("a"))
    memory.changed(seen("b"))
    gone = memory.vanished([seen("a")])
    assert sorted(pod.name for pod in gone) == ["b", "from the rows"]
    assert memory.vanished([seen("a")]) == []


def test_what_the_rows_showed_is_passed_on_again_after_a_restart():
    memory = Memory([seen("a")])
    assert memory.changed(seen("a"))
    assert not memory.changed(seen("a"))


def test_an_event_is_known_by_itself():
    one = EventSeen(
        uid="u",
        count=1,
        kind="Pod",
        name="p",
        group=None,
        time="",
        source="s",
        warning=False,
        reason="",
        message="",
    )
    memory = Memory(())
    assert memory.changed(one)
    assert not memory.changed(one)


@pytest.mark.parametrize(("model", "columns"), [(ObservedPod, POD_COLUMNS), (ObservedObject, OBJECT_COLUMNS)])
def test_a_row_has_the_fields_of_the_value_that_it_keeps(model, columns):
    assert {field.name for field in model._meta.fields} == {"id", "cluster", "seen_at", *columns}
