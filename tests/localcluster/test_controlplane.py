"""The control plane ends when it is stopped, whatever its clients still read."""

import threading
from contextlib import suppress

import urllib3

from localcluster import controlplane
from localcluster.api import Api
from localcluster.build import binaries
from localcluster.supervisor import Supervisor

NODES = "/api/v1/nodes"


def follow(api, version, *, opened):
    """Read nodes until the server ends the stream; its first bookmark shows that the stream is open."""
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    with suppress(urllib3.exceptions.HTTPError):  # a server that is killed cuts it off
        for _ in api.watch(NODES, resource_version=version, query=query):
            opened.set()


def test_an_open_watch_does_not_keep_the_api_server_from_its_end(tmp_path, capsys):
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        plane = controlplane.start(supervisor, directory=tmp_path / "cluster", binaries=binaries())
        api, opened = Api(plane.access()), threading.Event()
        version = api.list(NODES)[1]
        reader = threading.Thread(target=follow, args=(api, version), kwargs={"opened": opened})
        reader.start()
        assert opened.wait(timeout=60)
    reader.join(timeout=60)
    assert not reader.is_alive()
    assert "killed" not in capsys.readouterr().err
