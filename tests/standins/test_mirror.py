"""A stand-in wakes up for what it reads, and sleeps through the rest."""

import threading

from localcluster.standins.mirror import Mirror


def body(version, word=None, name="x"):
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "word": word}


def mirror_and_calls():
    calls = []
    made = Mirror(
        api=None,
        path="/things",
        read=lambda item: item["word"],
        changed=lambda: calls.append(True),
        stop=threading.Event(),
    )
    return made, calls


def test_objects_that_are_read_as_none_wake_nobody():
    mirror, calls = mirror_and_calls()
    for number, kind in enumerate(("ADDED", "MODIFIED", "DELETED"), start=1):
        mirror._apply(kind, body(number))

    assert calls == []


def test_a_value_that_comes_changes_or_goes_wakes_the_stand_in():
    mirror, calls = mirror_and_calls()
    steps = [("ADDED", None), ("MODIFIED", "a"), ("MODIFIED", "a"), ("MODIFIED", "b"), ("MODIFIED", None)]
    for number, (kind, word) in enumerate(steps, start=1):
        mirror._apply(kind, body(number, word))
    assert len(calls) == 3, "it comes, it changes, it goes"

    mirror._apply("ADDED", body(10, "c", name="y"))
    mirror._apply("DELETED", body(11, "c", name="y"))
    assert len(calls) == 5
