"""Files from a running task and to it: tar there, tar here, and a session of exec between them.

The task is not trusted: of what its tar sends only files and directories are made here, below the target and
never through a link, with plain permissions and no larger than what is free. Links and devices are left out,
with a note. A hard link is a copy of the file that came before.
"""

import os
import posixpath
import re
import shutil
import stat
import tarfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

from osmo_topology_client.errors import Failure, Misused, ServiceUnreachable
from osmo_topology_client.task_sessions import STDERR, STDOUT, ExecSession, exec_session

if TYPE_CHECKING:
    from rich.progress import Progress

    from osmo_topology_client.client import Client

PIECE = 32 * 1024
MOST_WORDS = 2000
MOST_HEADER = 2**20
"""Bytes of the headers of a member, and of those for all members, which are read into memory."""

MOST_PADDING = 2**20
"""Bytes behind an archive's end: tar fills up its last record."""

_REMOTE = re.compile(r"([^/:]+)/([^/:]+):(.*)", re.DOTALL)
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_DAMAGES = (ValueError, IndexError, OverflowError, RecursionError)
"""What tarfile raises of headers that nobody's tar writes."""

_TAR_FAILED = re.compile(r"not recoverable: exiting now|exiting with failure status", re.IGNORECASE)
"""tar's last words after a failure. Of a command whose status was lost an API server says Success."""

_NO_PROGRAM = re.compile(r"executable file not found|no such file or directory|not found", re.IGNORECASE)


@dataclass(frozen=True)
class TaskPath:
    """``NAME/TASK:/path``."""

    workflow: str
    task: str
    path: str

    @property
    def parent(self) -> str:
        return posixpath.dirname(self.path.rstrip("/")) or ("/" if self.path.startswith("/") else ".")

    @property
    def name(self) -> str:
        """The last part; ``.`` for what has none."""
        name = posixpath.basename(self.path.rstrip("/")) or "."
        if name == "..":
            raise Misused(f"{self.path} ends in ..; name the directory itself.")
        return name


@dataclass
class Copy:
    """One run of the command; ``step`` hears of bytes, and ``note`` of what is left out."""

    service: "Client"
    note: Callable[[str], None]
    step: Callable[[int], Any] = lambda _: None

    def run(self, source: str, target: str, *, showing: bool) -> None:
        """Copy. Raises Failure."""
        origin, destination = _task_path(source), _task_path(target)
        if (origin is None) == (destination is None):
            raise Misused(
                "One of the two is a task's, as NAME/TASK:/path, and the other a path of this machine."
            )
        if origin is not None and not origin.path:
            raise Misused(f"{source} names no path; . is where the task's commands run.")
        try:
            if origin is not None:
                with _progress(total=None, showing=showing) as self.step:
                    self._fetch(origin, Path(target))
            elif destination is not None:
                total = _size(Path(source))
                with _progress(total=total, showing=showing) as self.step:
                    self._send(Path(source), destination)
        except tarfile.TarError as error:
            raise Failure(f"What the task's tar sent is no archive: {error}.") from error
        except OSError as error:
            raise Failure(
                f"{error.filename or 'A file'} cannot be copied: {error.strerror or error}."
            ) from error

    def _fetch(self, source: TaskPath, target: Path) -> None:
        root = target / source.name if target.is_dir() and source.name != "." else target
        command = ["tar", "cf", "-", "-C", source.parent, f"./{source.name}"]
        with self._session(source, command, stdin=False) as (session, words):
            output = _Output(session, words)
            if output.fill():  # else tar has failed, and says why
                unpacking = Unpacking(source.name, root, note=self.note, step=self.step)
                unpacking.run(cast("IO[bytes]", output))

    def _send(self, source: Path, target: TaskPath) -> None:
        content = source.resolve(strict=True)
        if target.path.endswith("/") or self._is_directory(target):
            name = content.name if source.name in {"", ".."} else source.name
            target = TaskPath(target.workflow, target.task, posixpath.join(target.path, name))
        command = ["tar", "xmf", "-", "-C", target.parent]
        with self._session(target, command, stdin=True) as (session, words):
            faults: list[Exception] = []
            sender = threading.Thread(
                target=self._pack, args=[content, target.name, session, faults], daemon=True
            )
            sender.start()
            for _ in _Output(session, words).pieces():
                pass
            sender.join()
            if faults:
                raise faults[0]

    def _pack(self, source: Path, name: str, session: ExecSession, faults: list[Exception]) -> None:
        """Send an archive of the source, which is called ``name`` there. In a thread."""
        with suppress(Failure):  # the other tar has ended; it says why
            try:
                with tarfile.open(
                    fileobj=cast("IO[bytes]", _Input(session, self.step)), mode="w|", bufsize=PIECE
                ) as archive:
                    archive.add(source, arcname=f"./{name}", filter=self._plain)
            except Failure:
                raise
            except Exception as error:  # noqa: BLE001 -- raised where the session is
                faults.append(error)
            session.end_input()

    def _plain(self, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            self.note(f"{member.name} is no file or directory; left out.")
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    def _is_directory(self, target: TaskPath) -> bool:
        command = ["test", "-d", target.path or "."]
        with exec_session(
            self.service, target.workflow, target.task, command, tty=False, stdin=False
        ) as session:
            for _ in session.output():
                pass
        return session.ending is not None and session.ending.code == 0

    @contextmanager
    def _session(
        self, place: TaskPath, command: Sequence[str], *, stdin: bool
    ) -> "Iterator[tuple[ExecSession, bytearray]]":
        """Run tar in the task; what it says is a note. Raises Failure, with that, unless it ends well."""
        words = bytearray()
        with exec_session(
            self.service, place.workflow, place.task, command, tty=False, stdin=stdin
        ) as session:
            yield session, words
        text, ending = " ".join(words.decode(errors="replace").split()), session.ending
        if ending is None:
            raise ServiceUnreachable("The session broke off.")
        if ending.code != 0 or _TAR_FAILED.search(text):
            if _NO_PROGRAM.search(ending.message) and not text:
                raise Failure(
                    f"The image of task {place.task} has no tar, and cp needs one there: {ending.message}"
                )
            raise Failure(f"tar in task {place.task} failed: {text or ending.message}")
        if text:
            self.note(text)


class _Archive(tarfile.TarFile):
    """An archive whose headers are bounded."""

    member_headers = 0
    lasting_headers = 0

    def next(self) -> tarfile.TarInfo | None:
        self.member_headers = 0
        self.members: list[tarfile.TarInfo] = []  # else all are remembered
        return super().next()

    def count(self, header: tarfile.TarInfo) -> None:
        """Count a header that is about to be read. Raises TarError."""
        if header.type == tarfile.XGLTYPE:
            self.lasting_headers += header.size
        else:
            self.member_headers += header.size
        if (size := self.lasting_headers + self.member_headers) > MOST_HEADER:
            raise tarfile.ReadError(f"a header of {size:,} bytes")


class _Info(tarfile.TarInfo):
    """A member that is not sparse; its authors let subclasses override the methods of headers."""

    def _proc_member(self, archive: _Archive) -> Any:
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        if self.type in _HEADERS:
            archive.count(self)
        return super()._proc_member(archive)  # type: ignore[misc]  # as above

    def _refuse_sparse(self, *_: Any) -> NoReturn:
        raise tarfile.ReadError("a sparse file, which tar makes only if it is told to")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


@dataclass
class Unpacking:
    """An archive whose members are all ``name`` or below it, and become ``root``."""

    name: str
    root: Path
    note: Callable[[str], None]
    step: Callable[[int], Any]
    _written: set[Path] = field(default_factory=set)

    def run(self, archive: IO[bytes]) -> None:
        """Write what the archive has. Raises Failure, TarError and OSError."""
        base = self.root if self.name == "." else self.root.parent
        if not base.is_dir():
            raise Misused(f"{base} is no directory.")
        self._base = base.resolve()
        try:
            with _Archive.open(
                fileobj=archive, mode="r|", tarinfo=_Info, encoding="utf-8", errors="surrogateescape"
            ) as members:
                while (member := members.next()) is not None:
                    self._write(members, member)
        except _DAMAGES as error:
            raise tarfile.ReadError(f"a header is damaged: {error}") from error
        for _ in range(MOST_PADDING // PIECE):
            if not archive.read(PIECE):  # tar there has ended
                return
        raise tarfile.ReadError("it does not end")

    def _write(self, members: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        path = self._path(member.name)
        if member.isdir():
            self._inside(path)
            path.mkdir(exist_ok=True)
        elif member.isreg() or member.islnk():
            self._inside(path)
            source = self._path(member.linkname) if member.islnk() else None
            if source is not None and source not in self._written:
                self.note(f"{member.name} is a link to what was not copied; left out.")
                return
            size = member.size if source is None else source.stat().st_size
            free = shutil.disk_usage(path.parent).free
            if size > free:
                raise Failure(f"{member.name} has {size:,} bytes, and {free:,} are free at {path.parent}.")
            with source.open("rb") if source else cast("IO[bytes]", members.extractfile(member)) as content:
                self._write_file(path, content, mode=member.mode)
        elif path == self.root:
            raise Failure(f"{self.name} is a link or device, and cp copies files and directories.")
        else:
            self.note(f"{member.name} is a link or device; left out.")

    def _write_file(self, path: Path, content: IO[bytes], *, mode: int) -> None:
        path.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        mode = (mode & 0o777) | stat.S_IRUSR | stat.S_IWUSR
        try:
            with os.fdopen(os.open(path, flags, mode), "wb") as file:
                while piece := content.read(PIECE):
                    file.write(piece)
                    self.step(len(piece))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        self._written.add(path)

    def _path(self, name: str) -> Path:
        """Where a member belongs. Raises Failure for a name that leads out."""
        parts = [part for part in name.split("/") if part not in {"", "."}]
        own = [] if self.name == "." else [self.name]
        if name.startswith("/") or ".." in parts or "\0" in name or parts[: len(own)] != own:
            raise Failure(f"The task's tar sent {name}, which leads out of what was asked for; stopped.")
        return self.root.joinpath(*parts[len(own) :])

    def _inside(self, path: Path) -> None:
        """Raise Failure for a path that a link leads out of the target."""
        parent = path.parent.resolve() if path != self.root or self.name != "." else self._base
        if not parent.is_relative_to(self._base):
            raise Failure(f"{path} leads out of {self._base} by a link; stopped.")


class _Output:
    """What tar says on stdout, as a file; its words on stderr are added to ``words``."""

    def __init__(self, session: ExecSession, words: bytearray) -> None:
        self._session, self._words = session, words
        self._pieces, self._rest = self.pieces(), b""

    def pieces(self) -> Iterator[bytes]:
        for channel, data in self._session.output():
            if channel == STDOUT:
                yield data
            elif channel == STDERR:
                self._words += data[: MOST_WORDS - len(self._words)]

    def fill(self) -> bool:
        """Wait for something to read; false at the end."""
        self._rest = self._rest or next(self._pieces, b"")
        return bool(self._rest)

    def read(self, size: int) -> bytes:
        self.fill()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


class _Input:
    """A file whose bytes tar gets on stdin."""

    def __init__(self, session: ExecSession, step: Callable[[int], Any]) -> None:
        self._session, self._step = session, step

    def write(self, data: bytes) -> int:
        for start in range(0, len(data), PIECE):
            piece = data[start : start + PIECE]
            self._session.write(piece)
            self._step(len(piece))
        return len(data)


def _task_path(text: str) -> TaskPath | None:
    match = _REMOTE.fullmatch(text)
    return TaskPath(match[1], match[2], match[3]) if match else None


def _size(source: Path) -> int:
    """Bytes of a file, or of all below a directory. Raises OSError."""
    if not source.is_dir():
        return source.stat().st_size
    return sum(path.lstat().st_size for path in source.rglob("*") if path.is_file() and not path.is_symlink())


@contextmanager
def _progress(*, total: int | None, showing: bool) -> Iterator[Callable[[int], Any]]:
    """A bar on stderr that hears of bytes."""
    if not showing:
        yield lambda _: None
        return
    with _bar() as bar:
        task = bar.add_task("", total=total)
        yield lambda size: bar.advance(task, size)


def _bar() -> "Progress":
    from rich.console import Console  # noqa: PLC0415 -- for terminals alone
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn  # noqa: PLC0415 -- the same

    return Progress(
        BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=Console(stderr=True), transient=True
    )
