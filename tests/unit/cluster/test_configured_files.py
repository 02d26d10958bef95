"""Files that configuration names are regular, small, in their place, and read within a time."""

import os
import threading
import time

import pytest

from cluster import configured_files
from cluster.configured_files import FileLate, FileRefused


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "clusters"
    place.mkdir()
    return place


def read(path, place, **limits):
    return configured_files.read(str(path), places=(str(place),), **limits)


def test_a_mounted_secret_is_read_through_its_links(place):
    (place / "..1").mkdir()
    (place / "..1" / "kubeconfig").write_text("text")
    (place / "..data").symlink_to("..1")
    (place / "kubeconfig").symlink_to("..data/kubeconfig")
    assert read(place / "kubeconfig", place) == b"text"


def test_a_place_may_be_the_file_itself_or_a_link(tmp_path):
    (tmp_path / "real").write_text("text")
    (tmp_path / "link").symlink_to("real")
    assert read(tmp_path / "link", tmp_path / "link") == b"text"


def elsewhere(place):
    path = place.parent / "secret"
    path.write_text("secret")
    return path


def beside(place):
    path = place.parent / "clusters-old"
    path.write_text("secret")
    return path


def upwards(place):
    return place / ".." / elsewhere(place).name


def by_a_link(place):
    (place / "link").symlink_to(elsewhere(place))
    return place / "link"


def pipe(place):
    os.mkfifo(place / "pipe")
    return place / "pipe"


def linked_pipe(place):
    (place / "link").symlink_to(pipe(place))
    return place / "link"


def directory(place):
    return place


def device(place):
    (place / "link").symlink_to("/dev/zero")
    return place / "link"


def large(place):
    (place / "large").write_bytes(b" " * (configured_files.MAX_BYTES + 1))
    return place / "large"


REFUSED = {
    elsewhere: "does not lie below .*clusters",
    beside: "does not lie below .*clusters",
    upwards: "does not lie below .*clusters",
    by_a_link: "does not lie below .*clusters",
    pipe: "is a named pipe and no regular file",
    linked_pipe: "is a named pipe and no regular file",
    directory: "is a directory and no regular file",
    device: "does not lie below .*clusters",
    large: "has more than 1,048,576 bytes",
}


@pytest.mark.parametrize("make", REFUSED)
def test_a_path_to_anything_else_is_refused(make, place):
    with pytest.raises(FileRefused, match=REFUSED[make]):
        read(make(place), place)


def test_a_device_is_not_opened_where_it_may_lie(monkeypatch):
    monkeypatch.setattr(os, "open", lambda *_: pytest.fail("opened"))
    with pytest.raises(FileRefused, match="is a device and no regular file"):
        read("/dev/zero", "/dev")


def test_nobody_learns_what_lies_elsewhere(place):
    there, not_there = elsewhere(place), place.parent / "nothing"
    messages = []
    for path in (there, not_there):
        with pytest.raises(FileRefused) as refused:
            read(path, place)
        messages.append(str(refused.value).replace(str(path), "PATH"))
    assert messages[0] == messages[1]


@pytest.fixture
def hanging(place, monkeypatch):
    """A file whose file system does not answer until the event is set."""
    path, answers, stat = place / "hanging", threading.Event(), os.stat
    path.write_text("late")
    calls = []

    def hang(name, *arguments, **options):
        if str(name) == str(path):
            calls.append(threading.get_ident())
            answers.wait(30)
        return stat(name, *arguments, **options)

    monkeypatch.setattr(os, "stat", hang)
    yield path, answers, calls
    answers.set()


def test_a_hung_mount_costs_a_time_once_and_one_thread(place, hanging):
    path, answers, calls = hanging
    (place / "well").write_text("well")
    with pytest.raises(FileLate, match="its file system does not answer"):
        read(path, place, seconds=0.2)
    began = time.monotonic()
    for _ in range(10):
        with pytest.raises(FileLate):
            read(path, place, seconds=0.2)
    assert time.monotonic() - began < 1  # each time once more would be two seconds
    assert read(place / "well", place) == b"well"
    assert len(calls) == 1
    answers.set()
    assert read(path, place) == b"late"


def test_two_callers_at_once_read_after_one_another(place, hanging):
    path, answers, calls = hanging
    contents = []
    callers = [threading.Thread(target=lambda: contents.append(read(path, place))) for _ in range(3)]
    for caller in callers:
        caller.start()
    time.sleep(0.1)
    assert len(calls) == 1
    answers.set()
    for caller in callers:
        caller.join()
    assert contents == [b"late"] * 3


def test_a_file_that_is_replaced_meanwhile_is_found(place, monkeypatch):
    (place / "file").write_text("new")
    open_file, tries = os.open, []

    def replaced(*arguments):
        tries.append(arguments)
        if len(tries) == 1:
            raise FileNotFoundError
        return open_file(*arguments)

    monkeypatch.setattr(os, "open", replaced)
    assert read(place / "file", place) == b"new"


def test_a_child_process_does_not_wait_for_the_thread_of_its_parent(place, hanging):
    path, answers, _ = hanging
    with pytest.raises(FileLate):
        read(path, place, seconds=0.1)
    answers.set()  # in the parent it may still be under way
    pid = os.fork()
    if pid == 0:
        os._exit(0 if read(path, place) == b"late" else 1)
    assert os.waitpid(pid, 0)[1] == 0
