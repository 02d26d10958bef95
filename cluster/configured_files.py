"""Files that configuration names: regular ones, of bounded size, below configured places, within a time.

A person who may change configuration may write any path, and a path may lead to a pipe, a device or a mount
whose server is gone. To open a pipe waits for a writer, to open a device may start something, and a read of a
dead mount ends never. So a file is examined before it is opened and again once it is open, and a thread of
its own touches the file system. The caller waits for it for a while, then goes on without it. There is one
such thread for each path: while it is stuck, further callers are refused at once.

Symbolic links are followed, because Kubernetes mounts Secrets as links; the file at their end must lie below
the same places. Rejected: a process in place of the thread (it costs more, and a read of a dead mount cannot
be ended there either).
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")

MAX_BYTES = 2**20
READ_SECONDS = 5.0
_TRIES = 2  # a link may lead to a file that is replaced at this moment

_KINDS = {
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}

_kubeconfig_places: tuple[str, ...] = ("/",)


class FileRefused(Exception):
    """A path that is never read: of another kind, too large, or in another place."""


class FileLate(Exception):
    """A file whose file system did not answer in time."""


def confine(places: Sequence[str]) -> None:
    """Set the directories below which kubeconfigs and their files lie; a place may be a file itself."""
    global _kubeconfig_places  # noqa: PLW0603 -- set once, when the process starts
    _kubeconfig_places = tuple(places)


def kubeconfig_places() -> tuple[str, ...]:
    """The directories below which kubeconfigs and their files lie; all, until they are set."""
    return _kubeconfig_places


def read(
    path: str, *, places: Sequence[str], max_bytes: int = MAX_BYTES, seconds: float = READ_SECONDS
) -> bytes:
    """Read a file that lies below one of the places. Raises FileRefused, FileLate or OSError."""
    _refuse_outside(path, places, named=path)
    return within(path, lambda: _content(path, places, max_bytes), seconds=seconds)


def version(path: str, *, places: Sequence[str], seconds: float = READ_SECONDS) -> object:
    """A value that differs once the file was replaced or changed. Raises as ``read``."""
    _refuse_outside(path, places, named=path)
    status = within(path, lambda: os.stat(path), seconds=seconds)  # noqa: PTH116
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


@dataclass(slots=True, eq=False)
class _Work:
    """The work of a thread at a path."""

    began: float
    ended: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None


_under_way: dict[str, _Work] = {}
_guard = threading.Lock()


def _forget_after_fork() -> None:
    global _under_way, _guard  # the child has no such thread, and needs a free lock
    _under_way, _guard = {}, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


def within(path: str, work: Callable[[], T], *, seconds: float) -> T:
    """Do work that touches a path, in a thread of its own. Raises FileLate, or what the work raises."""
    until = time.monotonic() + seconds
    while True:
        with _guard:
            if (earlier := _under_way.get(path)) is None:
                own = _under_way[path] = _Work(time.monotonic())
                break
        left = min(until, earlier.began + seconds) - time.monotonic()
        if not earlier.ended.wait(max(left, 0)):
            raise _late(path)
    try:
        threading.Thread(target=_run, args=(path, own, work), name="file", daemon=True).start()
    except RuntimeError:  # no thread can be started
        _end(path, own)
        raise
    if not own.ended.wait(max(until - time.monotonic(), 0)):
        raise _late(path)
    if own.error is not None:
        raise own.error
    result: T = own.result
    return result


def _run(path: str, own: _Work, work: Callable[[], Any]) -> None:
    try:
        own.result = work()
    except BaseException as error:  # noqa: BLE001 -- raised where it is waited for
        own.error = error
    finally:
        _end(path, own)


def _end(path: str, own: _Work) -> None:
    with _guard:
        if _under_way.get(path) is own:
            del _under_way[path]
    own.ended.set()


def _late(path: str) -> FileLate:
    return FileLate(f"{path} was not read in time: its file system does not answer")


def _content(path: str, places: Sequence[str], max_bytes: int) -> bytes:
    for _ in range(_TRIES - 1):
        try:
            return _present_content(path, places, max_bytes)
        except FileNotFoundError:
            continue
    return _present_content(path, places, max_bytes)


def _present_content(path: str, places: Sequence[str], max_bytes: int) -> bytes:
    end = os.path.realpath(path)
    _refuse_outside(end, [os.path.realpath(place) for place in places], named=path)
    _refuse_kind(path, os.stat(end))  # noqa: PTH116 -- to open a device may start something
    descriptor = os.open(end, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        _refuse_kind(path, os.fstat(descriptor))
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FileRefused(f"{path} has more than {max_bytes:,} bytes")
    return content


def _refuse_kind(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise FileRefused(f"{path} is {kind} and no regular file")


def _refuse_outside(path: str, places: Sequence[str], *, named: str) -> None:
    """Refuse a path by its text alone, so that nobody learns what lies elsewhere."""
    normal = os.path.normpath(path)
    if not any(os.path.commonpath((normal, place)) == os.path.normpath(place) for place in places):
        raise FileRefused(f"{named} does not lie below {' or '.join(places)}")
