"""What is kept of what was seen, and how changes flow to the database."""

import json
import threading
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from uuid import UUID

import pytest
from django.db import DataError, OperationalError

from cluster.kinds import POD
from cluster.storable import storable_text
from pools.values.completeness import NODES
from workflows.models import ObservedObject, ObservedPod
from workflows.observer.inbox import BATCH, Batch, Inbox, key_of
from workflows.observer.quarantine import Quarantine, write_apart
from workflows.observer.streams import Memory, Source, Unchanged, guarded
from workflows.values.observation import (
    OBJECT_COLUMNS,
    POD_COLUMNS,
    EventSeen,
    PodSeen,
    UnreadableObject,
    is_older,
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


def test_a_pod_without_a_node_keeps_the_node_that_it_was_made_for():
    metadata = {
        "name": "p",
        "uid": "u",
        "namespace": "osmo",
        "labels": {"osmo.nvidia.com/task-group": GROUP.hex},
    }
    spec = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    assert see_pod({"metadata": metadata, "spec": spec}).digest["assigned"] == "n1"
    assert "assigned" not in see_pod({"metadata": metadata, "spec": {**spec, "nodeName": "n1"}}).digest


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
    inbox.put(seen("a"), listed=True)
    inbox.put(seen("b"), listed=True)
    inbox.put(seen("a", phase="Running"), listed=False)
    batch = inbox.take(timeout=1.0, linger=0.0)
    assert {pod.name: pod.phase for pod in batch.pods} == {"a": "Running", "b": "Pending"}
    assert batch.listed == {key_of(seen("b"))}
    assert inbox.take(timeout=0.0, linger=0.0) == Batch()


def test_changes_that_follow_closely_come_in_the_same_batch():
    inbox = Inbox()
    inbox.put(seen("a"), listed=False)
    taken = []
    taking = threading.Thread(target=lambda: taken.append(inbox.take(timeout=1.0, linger=60.0, quiet=60.0)))
    taking.start()
    inbox.put(seen("b"), listed=False)
    inbox.close()
    taking.join(30)
    assert [[pod.name for pod in batch.pods] for batch in taken] == [["a", "b"]]


def test_a_full_batch_waits_for_nothing():
    inbox = Inbox()
    for number in range(BATCH):
        inbox.put(seen(f"p{number}"), listed=False)
    assert len(inbox.take(timeout=1.0, linger=60.0, quiet=60.0).pods) == BATCH


def test_a_change_that_waited_while_others_were_written_is_not_collected_for_longer(monkeypatch):
    now = 0.0
    monkeypatch.setattr("workflows.observer.inbox.time", SimpleNamespace(monotonic=lambda: now))
    inbox = Inbox()
    inbox.put(seen("a"), listed=False)
    now = 60.0
    writer = threading.Thread(target=partial(inbox.take, timeout=1.0, linger=60.0, quiet=60.0))
    writer.start()
    writer.join(10)
    is_written = not writer.is_alive()
    inbox.close()
    assert is_written


def test_that_a_cluster_answers_is_said_once():
    inbox = Inbox()
    inbox.note_reachable()
    assert inbox.take(timeout=0.0, linger=0.0).is_reachable
    assert not inbox.take(timeout=0.0, linger=0.0).is_reachable


def test_that_a_cluster_answers_is_said_once_a_second_however_many_batches_there_are(monkeypatch):
    monkeypatch.setattr("workflows.observer.inbox.HEARTBEAT_SECONDS", 600.0)
    inbox = Inbox()
    inbox.note_reachable()
    inbox.take(timeout=0.0, linger=0.0)
    inbox.note_reachable()
    assert not inbox.take(timeout=0.0, linger=0.0).is_reachable
    monkeypatch.setattr("workflows.observer.inbox.HEARTBEAT_SECONDS", 0.0)
    assert inbox.take(timeout=0.0, linger=0.0).is_reachable


def test_streams_wait_while_there_is_no_room():
    inbox = Inbox(most=1)
    inbox.put(seen("a"), listed=False)
    second = threading.Thread(target=partial(inbox.put, seen("b"), listed=False))
    second.start()
    first = inbox.take(timeout=1.0, linger=0.0)
    second.join(5)
    rest = inbox.take(timeout=1.0, linger=0.0)
    assert [pod.name for pod in (*first.pods, *rest.pods)] == ["a", "b"]


def test_a_closed_inbox_lets_everybody_go():
    inbox = Inbox(most=1)
    inbox.put(seen("a"), listed=False)
    waiting = threading.Thread(target=partial(inbox.put, seen("b"), listed=False))
    waiting.start()
    inbox.close()
    waiting.join(5)
    assert not waiting.is_alive()


def test_nodes_are_complete_only_once_all_of_them_are_written():
    inbox = Inbox()
    inbox.put(see_node({"metadata": {"name": "n", "uid": "u"}}), listed=True)
    inbox.complete(NODES)
    batch = inbox.take(timeout=1.0, linger=0.0)
    assert (len(batch.nodes), batch.problems) == (1, {NODES: ""})


OLDER = {
    ("9", "10"): True,
    ("10", "9"): False,
    ("9", "9"): False,
    ("", "9"): False,
    ("9", ""): False,
    ("a", "b"): False,
    ("-1", "2"): False,
    ("\N{ARABIC-INDIC DIGIT ONE}", "2"): False,
}


@pytest.mark.parametrize("versions", OLDER)
def test_versions_are_compared_only_where_both_are_numbers(versions):
    version, than = versions
    assert is_older(version, than=than) is OLDER[versions]


def test_a_version_alone_is_no_news():
    memory = Memory(())
    assert memory.changed(seen("a", resource_version="1"))
    assert not memory.changed(seen("a", resource_version="2"))


def unreadable(name, version="1", **changes):
    return UnreadableObject(
        kind="Pod", namespace="osmo", name=name, error="odd", resource_version=version, **changes
    )


def test_an_object_that_can_no_longer_be_read_is_not_gone_and_its_end_is_noticed():
    memory = Memory([seen("a")])
    assert memory.changed(unreadable("a"))
    assert memory.vanished([unreadable("a")]) == []
    assert memory.forget(unreadable("a")) == seen("a")


def test_the_errors_of_objects_that_cannot_be_kept_can_be_kept():
    def reduce(obj):
        raise ValueError(f"no phase: a\0b\ud800 of {obj['metadata']['name']}")

    source = Source(
        cluster_uid="c", kind=POD, namespace="osmo", label_selector="", reduce=reduce, recorded=list
    )
    seen_error = guarded(source)({"metadata": {"name": "p"}}).error
    quarantine = Quarantine()
    quarantine.add(seen("a"), "DataError: a\0b\udfff")
    [entry] = quarantine.summary()["objects"]
    for text in (seen_error, entry["error"]):
        assert text == storable_text(text)
        assert "a\N{REPLACEMENT CHARACTER}b" in text


REFUSED = {"p3", "p8"}


def write_all_but_refused(written):
    def write(batch):
        if refused := REFUSED & {pod.name for pod in batch.pods}:
            raise DataError(f"invalid input: {sorted(refused)}")
        written.append(([pod.name for pod in batch.pods], batch.is_reachable))

    return write


def test_only_the_objects_that_cause_it_are_left_out_of_a_batch():
    written = []
    batch = Batch(changes=[seen(f"p{number}") for number in range(10)], is_reachable=True)
    refused = write_apart(batch, write_all_but_refused(written))
    assert {change.name for change, _ in refused} == REFUSED
    assert sorted(name for names, _ in written for name in names) == sorted(
        {f"p{number}" for number in range(10)} - REFUSED
    )
    assert sum(reachable for _, reachable in written) == 1


def test_a_database_that_is_away_is_no_objects_fault():
    attempts = []

    def write(batch):
        attempts.append(batch)
        raise OperationalError("the connection is lost")

    with pytest.raises(OperationalError):
        write_apart(Batch(changes=[seen("a"), seen("b")]), write)
    assert len(attempts) == 1


def test_an_object_that_is_kept_aside_is_tried_again_once_its_version_changes():
    quarantine = Quarantine()
    bad = seen("a", resource_version="1")
    quarantine.add(bad, "DataError: too long")
    assert list(quarantine.admitted([bad, seen("b")])) == [seen("b")]
    newer, gone = seen("a", resource_version="2"), seen("a", resource_version="1", absent=True)
    assert list(quarantine.admitted([newer, gone])) == [newer, gone]
    summary = quarantine.summary()
    assert (summary["count"], summary["objects"][0]["object"]) == (1, "Pod osmo a")
    quarantine.drop(newer)
    assert quarantine.summary() == {}


def test_memory_says_what_a_complete_list_no_longer_has():
    memory = Memory([seen("from the rows")])
    memory.changed(seen("a"))
    memory.changed(seen("b"))
    gone = memory.vanished([seen("a")])
    assert sorted(pod.name for pod in gone) == ["b", "from the rows"]
    assert memory.vanished([seen("a")]) == []


def test_a_list_holds_the_key_alone_of_what_is_as_it_was_passed_on():
    """A list of all events of an hour, and of all pods, comes every ten minutes."""
    memory = Memory([seen("from the rows")])
    memory.changed(seen("a"))
    memory.changed(unreadable("odd"))
    listed = [memory.compared(item) for item in (seen("a", resource_version="9"), unreadable("odd"))]
    assert listed == [Unchanged(key_of(seen("a"))), Unchanged(key_of(seen("odd")))]
    for other in (seen("a", phase="Running"), seen("new"), seen("from the rows"), seen("odd")):
        assert memory.compared(other) == other

    assert memory.vanished(listed) == [seen("from the rows")]
    assert memory.compared(seen("a")) == listed[0]


def test_to_compare_remembers_nothing():
    """A list that breaks off begins anew, and what it had read has not been passed on."""
    memory = Memory(())
    memory.compared(seen("a"))
    assert memory.changed(seen("a"))


def test_the_state_of_the_rows_is_passed_on_again_after_a_restart():
    memory = Memory([seen("a")])
    assert memory.changed(seen("a"))
    assert not memory.changed(seen("a"))


def test_an_event_is_known_by_itself():
    event = EventSeen(
        uid="u",
        count=1,
        kind="Pod",
        namespace="osmo",
        name="p",
        group=None,
        time="",
        source="s",
        warning=False,
        reason="",
        message="",
    )
    memory = Memory(())
    assert memory.changed(event)
    assert not memory.changed(event)
    (forgotten,) = memory.vanished([])
    assert forgotten == replace(event, uid="", count=0, kind="", namespace="", name="", source="")


@pytest.mark.parametrize(("model", "columns"), [(ObservedPod, POD_COLUMNS), (ObservedObject, OBJECT_COLUMNS)])
def test_a_row_has_the_fields_of_the_value_that_it_keeps(model, columns):
    assert {field.name for field in model._meta.fields} == {"id", "cluster", "seen_at", *columns}
