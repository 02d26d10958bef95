"""What any store of logs promises: the same tests for a directory and for a bucket."""

import stat
import threading
import uuid

import boto3
import pytest
from moto import mock_aws

from workflows.logs.errors import StoreFailed
from workflows.logs.files import FileStore
from workflows.logs.s3 import S3Store
from workflows.logs.store import NAME, name_of

WORKFLOW, TASK = uuid.uuid4(), uuid.uuid4()


def name(retry=0, workflow=WORKFLOW):
    return name_of(workflow=workflow, task_uuid=TASK, retry_id=retry)


@pytest.fixture(scope="module")
def bucket():
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(variable, "a-secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        boto3.client("s3").create_bucket(Bucket="kept-logs")
        yield "kept-logs"


@pytest.fixture(params=["directory", "bucket"])
def store(request, tmp_path):
    if request.param == "directory":
        return FileStore(tmp_path / "made" / "by it")
    return S3Store(bucket=request.getfixturevalue("bucket"), prefix=f"/some/{uuid.uuid4()}/", endpoint="")


def test_a_log_is_got_from_its_put_until_its_removal(store):
    assert store.get(name()) is None
    store.put(name(), b"one")
    store.put(name(1), b"other")
    assert (store.get(name()), store.get(name(1))) == (b"one", b"other")
    store.remove(name())
    assert (store.get(name()), store.get(name(1))) == (None, b"other")


def test_a_second_put_replaces_the_first(store):
    store.put(name(), b"one and more")
    store.put(name(), b"two")
    assert store.get(name()) == b"two"


def test_removing_what_is_not_there_is_no_fault(store):
    store.remove(name())
    store.put(name(), b"one")
    store.remove(name())
    store.remove(name())


def test_a_store_that_cannot_says_so_and_names_no_secret(bucket, tmp_path):
    (tmp_path / "file").write_text("in the way")
    for broken in (
        FileStore(tmp_path / "file"),
        S3Store(bucket="another-one", prefix="", endpoint=""),
    ):
        with pytest.raises(StoreFailed) as failed:
            broken.put(name(), b"one")
        assert "a-secret" not in str(failed.value)
        assert name() in str(failed.value)


def test_files_are_for_the_service_alone_and_a_directory_goes_with_its_last_log(tmp_path):
    store = FileStore(tmp_path / "logs")
    store.put(name(), b"one")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "logs").rglob("*")}
    assert sorted(modes.values()) == [0o600, 0o700]
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700
    store.remove(name())
    assert list((tmp_path / "logs").iterdir()) == []


def test_a_remnant_of_a_killed_writer_goes_with_its_log(tmp_path):
    store = FileStore(tmp_path)
    store.put(name(), b"one")
    (tmp_path / f"{name()}.00ff.part").write_bytes(b"ha")
    assert store.get(name()) == b"one"
    store.remove(name())
    assert list(tmp_path.iterdir()) == []


def test_a_reader_never_meets_half_an_object(tmp_path):
    store, contents = FileStore(tmp_path), [bytes([letter]) * 200_000 for letter in b"ab"]
    store.put(name(), contents[0])
    done = threading.Event()

    def write():
        for turn in range(20):
            store.put(name(), contents[turn % 2])
        done.set()

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    while not done.is_set():
        assert store.get(name()) in contents
    for writer in writers:
        writer.join()
    assert [path.name for path in (tmp_path / name()).parent.iterdir()] == [name().split("/")[1]]


def test_a_name_is_made_of_uuids_and_a_number_alone():
    assert NAME.fullmatch(name(2**31 - 1))
    with pytest.raises(AttributeError):
        name_of(workflow="../../etc", task_uuid=TASK, retry_id=0)
