"""Runs keep out of each other's way, clear up after killed ones, and use no server of somebody else's."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest

from localcluster import build, controlplane, directories
from localcluster.api import Api
from localcluster.directories import CHECKOUT
from localcluster.processes import Process
from localcluster.supervisor import Supervisor


@pytest.fixture
def local(tmp_path, monkeypatch):
    monkeypatch.setattr(directories, "LOCAL", tmp_path)
    return tmp_path


def leave(local, name, owner):
    (local / name).mkdir()
    (local / name / "owner.json").write_text(json.dumps({"process": asdict(owner), "homes": []}))


def test_a_run_removes_what_killed_runs_left_and_nothing_else(local):
    me = Process.of(os.getpid())
    leave(local, "test-1", replace(me, started="before"))
    leave(local, "demo-2", me)
    (local / "logs").mkdir()
    with directories.run_directory("bench") as mine:
        assert {path.name for path in local.iterdir()} == {"demo-2", "logs", mine.name}
    assert {path.name for path in local.iterdir()} == {"demo-2", "logs"}


def test_the_logs_of_a_run_that_failed_are_kept(local):
    def fail():
        with directories.run_directory("demo") as mine:
            (mine / "logs").mkdir()
            (mine / "logs" / "web.log").write_text("why")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (local / "failed" / "demo" / "web.log").read_text() == "why"


@pytest.mark.parametrize("name", ["OSMO_DATABASE_URL", "OSMO_REDIS_URL", "CLUSTER_KUBECONFIG"])
def test_a_server_of_somebody_elses_is_refused_by_name(name, tmp_path):
    kubeconfig = tmp_path / "config"
    kubeconfig.touch()
    answer = subprocess.run(
        [sys.executable, "-m", "localcluster", "own"],
        cwd=CHECKOUT,
        env=os.environ | {name: str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 2
    assert name in answer.stderr


def test_exported_variables_of_other_programs_are_no_reason_to_refuse():
    others = {"KUBECONFIG": "/nowhere", "DATABASE_URL": "x", "REDIS_URL": "x"}
    command = [sys.executable, "-m", "localcluster", "own"]
    subprocess.run(command, cwd=CHECKOUT, env=os.environ | others, check=True)


def test_a_cluster_is_as_it_was_after_a_restart(tmp_path):
    path = "/api/v1/namespaces/kept"
    for attempt in range(2):
        with Supervisor(log_dir=tmp_path / "logs") as supervisor:
            plane = controlplane.start(
                supervisor, directory=tmp_path / "cluster", binaries=build.binaries(), kai_version="0.13"
            )
            api = Api(plane.access())
            if attempt == 0:
                controlplane.create_namespace(api, "kept")
            assert api.find(path) is not None
            api.close()
            for private in ("tokens.csv", "tokens.json", "service-account.key", "admin.kubeconfig"):
                assert (tmp_path / "cluster" / private).stat().st_mode & 0o077 == 0


def test_a_program_is_built_anew_when_its_inputs_change_and_only_then(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = build.PROGRAMS[0]
    before = build.artefact(program)
    assert before == build.artefact(program)
    assert before.is_relative_to(tmp_path)
    assert build.artefact(replace(program, linker_flags="-s")) != before
