"""``osmo-topology cp``: tar in the task, tar here; and what a task that means harm may send."""

import io
import os
import tarfile
import threading
from contextlib import nullcontext

import pytest

from osmo_topology_cli import copying
from osmo_topology_cli.copying import MOST_HEADER, PIECE, Copy, Unpacking
from osmo_topology_client.errors import Failure
from osmo_topology_client.task_sessions import STDERR, Ending
from tests.e2e.conftest import workflow


@pytest.fixture
def running(world):
    pool = world.make_pool(racks=1, allow_exec=True)
    name = world.submit(pool, workflow(("g", ["a"])))
    world.wait_group(name, "g", "RUNNING")
    return name


def test_directories_come_from_a_task_and_go_to_it_with_every_byte(command, running, tmp_path):
    """kwok runs tar on this machine, so the task's files are here, too."""
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "out" / "deep").mkdir(parents=True)
    here.mkdir()
    content = os.urandom(3 * PIECE + 1)
    (there / "out" / "deep" / "model.bin").write_bytes(content)
    (there / "out" / os.fsdecode(b"na\xffme \n")).write_bytes(b"x")
    (there / "out" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (there / "out" / "run.sh").chmod(0o750)
    (there / "out" / "way").symlink_to("/etc")
    ended = command("cp", f"{running}/a:{there}/out", str(here))
    assert ended.code == 0, ended.err
    assert (here / "out" / "deep" / "model.bin").read_bytes() == content
    assert (here / "out" / os.fsdecode(b"na\xffme \n")).read_bytes() == b"x"
    assert (here / "out" / "run.sh").stat().st_mode & 0o777 == 0o750
    assert not (here / "out" / "way").is_symlink()
    assert "way is a link" in ended.err

    ended = command("cp", str(here / "out"), f"{running}/a:{there}")
    assert ended.code == 0, ended.err
    ended = command("cp", str(here / "out" / "run.sh"), f"{running}/a:{there}/again/")
    assert ended.code == 1
    assert "tar in task a failed" in ended.err
    (here / "latest").symlink_to(here / "out" / "run.sh")
    ended = command("cp", str(here / "latest"), f"{running}/a:{there}")
    assert ended.code == 0, ended.err
    assert (there / "latest").read_bytes() == b"#!/bin/sh\n"
    ended = command("cp", str(here / "out" / "deep"), f"{running}/a:{there}/new")
    assert ended.code == 0, ended.err
    assert (there / "new" / "model.bin").read_bytes() == content


def test_what_is_not_there_is_told_by_the_tasks_own_tar(command, running, tmp_path):
    ended = command("cp", f"{running}/a:/no/such/file", str(tmp_path))
    assert ended.code == 1
    assert "No such file" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("paths", [("a", "b"), ("w/a:/x", "w/b:/y")])
def test_one_side_alone_is_a_task(bare, paths):
    ended = bare("cp", *paths, OSMO_URL="http://127.0.0.1:9", OSMO_TOKEN="t")
    assert (ended.code, "NAME/TASK:/path" in ended.err) == (2, True)


def archive(*members, raw=b""):
    """An archive of (name, content) and of TarInfo objects, as a stream."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            name, content = member
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return io.BytesIO(raw + file.getvalue())


def special(name, type_, link="", size=0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = type_, link, size
    return info


def unpack(stream, root, notes=None):
    Unpacking("out", root / "out", note=(notes if notes is not None else []).append, step=len_of).run(stream)


def len_of(_):
    """Nobody watches."""


@pytest.fixture
def target(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "target"


def everything(target):
    return sorted(str(path.relative_to(target.parent)) for path in target.parent.rglob("*"))


@pytest.mark.parametrize("name", ["../x", "/etc/x", "out/../../x", "other", "./out/../x", "outside/x", ""])
def test_no_member_is_written_outside_the_target(target, name):
    with pytest.raises(Failure, match="leads out"):
        unpack(archive((name, b"x")), target)
    assert everything(target) == ["outside", "target"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_left_out_so_that_nothing_is_written_through_one(target, kind):
    notes = []
    members = special("out", tarfile.DIRTYPE), special("out/way", kind, "../../outside")
    with pytest.raises((Failure, OSError)):
        unpack(archive(*members, ("out/way/x", b"x")), target, notes)
    assert notes == ["out/way is a link or device; left out."]
    assert everything(target) == ["outside", "target", "target/out"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.FIFOTYPE])
def test_what_was_named_itself_is_never_left_out_as_if_it_were_copied(target, kind):
    with pytest.raises(Failure, match="out is a link or device"):
        unpack(archive(special("out", kind, "elsewhere")), target)
    assert everything(target) == ["outside", "target"]


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o700), (0o022, 0o755)])
def test_files_have_no_right_that_the_callers_umask_takes(target, mask, mode):
    program = special("out", tarfile.REGTYPE)
    program.mode = 0o777
    before = os.umask(mask)
    try:
        unpack(archive(program), target)
    finally:
        os.umask(before)
    assert (target / "out").stat().st_mode & 0o777 == mode


def test_a_link_of_the_callers_own_is_not_written_through(target):
    (target / "out").symlink_to(target.parent / "outside")
    with pytest.raises(Failure, match="by a link"):
        unpack(archive(("out/x", b"x")), target)
    assert everything(target) == ["outside", "target", "target/out"]


def test_a_link_at_a_files_name_is_replaced(target):
    (target / "out").symlink_to(target.parent / "outside" / "x")
    unpack(archive(("out", b"x")), target)
    assert (target / "out").read_bytes() == b"x"
    assert not (target / "out").is_symlink()
    assert everything(target) == ["outside", "target", "target/out"]


def test_a_hard_link_is_a_copy_of_what_came_before_and_of_nothing_else(target):
    notes = []
    members = (
        special("out", tarfile.DIRTYPE),
        ("out/a", b"text"),
        special("out/b", tarfile.LNKTYPE, "out/a"),
        special("out/c", tarfile.LNKTYPE, "out/never"),
    )
    unpack(archive(*members), target, notes)
    assert (target / "out" / "b").read_bytes() == b"text"
    assert (target / "out" / "b").stat().st_nlink == 1
    assert notes == ["out/c is a link to what was not copied; left out."]
    with pytest.raises(Failure, match="leads out"):
        unpack(archive(special("out", tarfile.LNKTYPE, "/etc/passwd")), target)


def test_a_file_larger_than_what_is_free_is_refused_before_it_is_written(target):
    with pytest.raises(Failure, match="are free"):
        unpack(archive(special("out", tarfile.REGTYPE, size=2**60)), target)
    assert everything(target) == ["outside", "target"]


def test_a_header_that_would_fill_the_memory_is_refused(target):
    with pytest.raises(tarfile.TarError, match="header"):
        unpack(archive(special("out", tarfile.GNUTYPE_LONGNAME, size=MOST_HEADER + 1)), target)


def pax(*records, type_=tarfile.XHDTYPE):
    """A header of the next member, or of all that follow, with these (name, value) pairs."""
    content = b"".join(
        tarfile.TarInfo._create_pax_generic_header({name: value}, type_, "utf-8")[512:].rstrip(b"\0")
        for name, value in records
    )
    padding = bytes(-len(content) % 512)
    return special("pax", type_, size=len(content)).tobuf(tarfile.USTAR_FORMAT) + content + padding


def old_sparse():
    """A member of GNU's old sparse format whose map says that it goes on, and does not."""
    buf = bytearray(special("out", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    buf[482], buf[148:156] = 1, b" " * 8
    buf[148:156] = b"%06o\0 " % sum(buf)
    return bytes(buf)


HOSTILE = {
    "thousands of headers of one member": pax(("comment", "x")) * 3000,
    "a sparse file of version 1.0": pax(("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"))
    + special("out", tarfile.REGTYPE).tobuf()
    + b"no number\n".ljust(512, b"\0"),
    "a sparse file of version 0.1": pax(("GNU.sparse.map", "x")) + special("out", tarfile.REGTYPE).tobuf(),
    "a sparse file of version 0.0": pax(("GNU.sparse.size", "9")) + special("out", tarfile.REGTYPE).tobuf(),
    "an old sparse file that is cut off": old_sparse(),
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_an_archive_that_would_break_a_reader_is_refused_as_none(target, raw):
    with pytest.raises(tarfile.TarError):
        unpack(io.BytesIO(raw), target)
    assert everything(target) == ["outside", "target"]


def test_headers_of_all_members_do_not_fill_the_memory_together(target):
    each = pax(*((f"k{number}", "x" * 1000) for number in range(100)), type_=tarfile.XGLTYPE)
    members = (each + special(f"out/{number}", tarfile.DIRTYPE).tobuf() for number in range(20))
    with pytest.raises(tarfile.TarError, match="header"):
        unpack(io.BytesIO(special("out", tarfile.DIRTYPE).tobuf() + b"".join(members)), target)


def test_long_names_of_many_members_are_no_fault(target):
    name = "x" * 200
    members = [special("out", tarfile.DIRTYPE)]
    members += [special(f"out/{name}{number}", tarfile.DIRTYPE) for number in range(2500)]
    unpack(archive(*members), target)
    assert len(list((target / "out").iterdir())) == 2500


class TaskTar:
    """A session with a tar that reads to the end of its input."""

    def __init__(self):
        self.ended, self.ending = threading.Event(), None

    def write(self, data):
        """Take it."""

    def end_input(self):
        self.ended.set()

    def output(self):
        assert self.ended.wait(10), "the task's tar waits for ever"
        self.ending = Ending(0, "")
        yield from ()


def test_whatever_stops_the_sending_ends_the_input_of_the_tasks_tar(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise ValueError("embedded null byte")

    tar, faults = TaskTar(), []
    monkeypatch.setattr(tarfile.TarFile, "add", broken)
    Copy(service=None, note=faults.append)._pack(tmp_path, "x", tar, faults)
    assert tar.ended.is_set()
    assert [str(fault) for fault in faults] == ["embedded null byte"]


def test_a_tar_that_failed_is_a_failure_also_where_its_status_was_lost(tmp_path, monkeypatch):
    """Seen on a busy API server: the cluster's connection ended before the status came."""

    class FailedTar(TaskTar):
        def output(self):
            yield STDERR, b"tar: /no/such: Cannot open\ntar: Error is not recoverable: exiting now\n"
            self.ending = Ending(0, "")

    monkeypatch.setattr(copying, "exec_session", lambda *_, **__: nullcontext(FailedTar()))
    (tmp_path / "run.sh").write_bytes(b"x")
    with pytest.raises(Failure, match=r"tar in task a failed: .*Cannot open"):
        Copy(service=None, note=print).run(f"{tmp_path}/run.sh", "w/a:/no/such/", showing=False)


def test_a_stream_that_is_cut_leaves_no_half_file(target):
    whole = archive(("out", b"x" * 100_000)).getvalue()
    with pytest.raises(tarfile.TarError):
        unpack(io.BytesIO(whole[:60_000]), target)
    assert everything(target) == ["outside", "target"]


def test_a_stream_that_never_ends_is_not_read_for_ever(target):
    class Endless(io.BytesIO):
        def read(self, size=-1):
            return super().read(size) or bytes(size)

    with pytest.raises(tarfile.TarError, match="does not end"):
        unpack(Endless(archive(("out", b"x")).getvalue()), target)


@pytest.mark.parametrize("text", [b"no archive at all" * 100, os.urandom(2000)])
def test_what_is_no_archive_is_told(target, text):
    with pytest.raises(tarfile.TarError):
        unpack(io.BytesIO(text), target)
