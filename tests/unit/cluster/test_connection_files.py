"""The kubeconfig and the files that it names are read as configured files, outside every shared lock."""

import os
import threading
import time

import pytest
import yaml

from cluster import configured_files
from cluster.connection import Access, connection_for
from cluster.errors import BadConnectionSettings, UnusableFile


def kubeconfig(path, *, user=None, cluster=None):
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"} | (cluster or {})}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "main",
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(content))
    return Access(str(path))


@pytest.fixture
def place(tmp_path):
    place = tmp_path / "clusters"
    place.mkdir()
    before = configured_files.kubeconfig_places()
    configured_files.confine([str(place)])
    yield place
    configured_files.confine(before)


def test_a_token_file_beside_the_kubeconfig_is_read(place):
    (place / "token").write_text("secret\n")
    assert (
        connection_for(kubeconfig(place / "k", user={"tokenFile": "token"})).authorization()
        == "Bearer secret"
    )


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_a_kubeconfig_that_is_no_file_is_refused_at_once(make, place):
    make(place / "k")
    with pytest.raises(UnusableFile, match="no regular file"):
        connection_for(Access(str(place / "k")))


NAMED = {
    "tokenFile": "user",
    "client-certificate": "user",
    "client-key": "user",
    "certificate-authority": "cluster",
}


@pytest.mark.parametrize("field", NAMED)
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_file_that_a_kubeconfig_names_is_as_it_is(field, where, place):
    path = (place if where == "inside" else place.parent) / "named"
    os.mkfifo(path)
    access = kubeconfig(place / "k", **{NAMED[field]: {field: str(path)}})
    match = "named pipe and no regular file" if where == "inside" else "does not lie below"
    with pytest.raises(UnusableFile, match=match):
        connection_for(access)


def test_a_named_file_that_is_not_there_is_told(place):
    with pytest.raises(BadConnectionSettings, match="its tokenFile cannot be read: No such file"):
        connection_for(kubeconfig(place / "k", user={"tokenFile": "none"}))


def test_a_kubeconfig_whose_mount_hangs_delays_no_other_cluster(place, monkeypatch):
    hung, well = kubeconfig(place / "hung"), kubeconfig(place / "well")
    answers, stat = threading.Event(), os.stat

    def hang(name, *arguments, **options):
        if str(name) == hung.kubeconfig:
            answers.wait(30)
        return stat(name, *arguments, **options)

    monkeypatch.setattr(os, "stat", hang)
    waiting = [threading.Thread(target=_try, args=(hung,), daemon=True) for _ in range(4)]
    for thread in waiting:
        thread.start()
    time.sleep(0.1)
    assert connection_for(well).base_url == "http://127.0.0.1:1"
    assert all(thread.is_alive() for thread in waiting)
    answers.set()
    for thread in waiting:
        thread.join()


def _try(access):
    connection_for(access)


def test_a_kubeconfig_that_nests_deeply_is_refused(place):
    (place / "k").write_text("[" * 100_000)
    with pytest.raises(BadConnectionSettings, match="more than 50 levels"):
        connection_for(Access(str(place / "k")))
