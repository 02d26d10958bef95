"""The control plane ends when it is stopped, and its kubelets live on when kwok is started again."""

import os
import signal
import threading
from contextlib import suppress

import pytest
import urllib3

from localcluster import controlplane, lease_watch, nodes
from localcluster.api import Api
from localcluster.build import binaries
from localcluster.supervisor import Supervisor
from tests.builders.waiting import until

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


def test_nodes_stay_ready_and_their_leases_are_renewed_after_kwok_is_started_again(tmp_path, monkeypatch):
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        plane = controlplane.start(supervisor, directory=tmp_path / "cluster", binaries=binaries())
        api = Api(plane.access())
        made = nodes.rack("r0", count=2, gpus=4, labels={})
        nodes.create(api, made)
        nodes.wait_ready(api, made)
        before = holders(api)
        assert len(before) == 2

        controlplane.restart_kwok(supervisor, plane)
        until(lambda: len(holders(api)) == 2 and not holders(api) & before)
        nodes.wait_ready(api, made)
        assert controlplane.unrenewed_leases(api, seconds=3600) == 0
        assert controlplane.unrenewed_leases(api, seconds=-60) == 2

        monkeypatch.setattr(lease_watch, "LOOK_SECONDS", 0.0)
        leases, before = lease_watch.LeaseWatch(supervisor, plane), holders(api)
        assert (leases.check(), holders(api)) == (0, before)
        monkeypatch.setattr(lease_watch, "STALE_SECONDS", -60.0)
        assert leases.check() == 2
        until(lambda: len(holders(api)) == 2 and not holders(api) & before)


def test_a_check_of_leases_does_not_wait_for_an_api_server_that_hangs(tmp_path, monkeypatch):
    """Whoever checks them starts ended parts again, perhaps the one that the API server waits for."""
    monkeypatch.setattr(lease_watch, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(lease_watch, "LEASE_ANSWER_SECONDS", 1.0)
    with Supervisor(log_dir=tmp_path / "logs") as supervisor:
        plane = controlplane.start(supervisor, directory=tmp_path / "cluster", binaries=binaries())
        leases, server = lease_watch.LeaseWatch(supervisor, plane), supervisor.find("kube-apiserver").pid
        answering = threading.Timer(30.0, os.kill, (server, signal.SIGCONT))
        os.kill(server, signal.SIGSTOP)
        answering.start()
        try:
            assert leases.check() == 0
            assert not answering.finished.is_set()
        finally:
            answering.cancel()
            os.kill(server, signal.SIGCONT)


def holders(api):
    """Who holds which node's lease."""
    return {
        (lease["metadata"]["name"], lease["spec"]["holderIdentity"])
        for lease in api.list(controlplane.LEASES)[0]
    }


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param(None, False, id="the server has not looked at it yet"),
        pytest.param([{"type": "NamesAccepted", "status": "True"}], False, id="its names are accepted"),
        pytest.param([{"type": "Established", "status": "False"}], False, id="not yet"),
        pytest.param([{"type": "Established", "status": "True"}], True, id="established"),
    ],
)
def test_a_definition_is_served_once_the_server_says_so(conditions, expected):
    assert controlplane.is_established({"status": {"conditions": conditions}}) is expected
