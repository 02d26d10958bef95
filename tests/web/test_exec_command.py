"""``osmo-topology exec`` on web and an API server that says exit codes and ends of input, as kubelets do."""

import os
import subprocess
import sys

import pytest

from localcluster.directories import CHECKOUT

SECONDS = 60


@pytest.fixture
def command(own, ann, group, tmp_path):
    def run(*words, given=None, name=group.workflow.name):
        login = {
            "OSMO_URL": f"http://127.0.0.1:{own.port}",
            "OSMO_TOKEN": ann["Authorization"].removeprefix("Bearer "),
        }
        return subprocess.run(
            [sys.executable, "-m", "osmo_topology_cli", "exec", name, "task-0", *words],
            cwd=CHECKOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONWARNINGS": "error"} | login,
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    return run


def test_the_command_ends_with_the_code_of_its_process(command):
    ended = command("--", "exit", "7")
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "", "")


def test_input_is_sent_to_its_end(command):
    ended = command("-i", "--", "echo", given="from a pipe")
    assert (ended.returncode, ended.stdout) == (0, "from a pipe")


def test_a_session_that_is_cut_off_is_told_in_words(command):
    ended = command("--", "drop")
    assert ended.returncode not in {0, 7}
    assert "cut off" in ended.stderr


def test_a_workflow_that_is_not_there_is_refused_in_words(command):
    ended = command("--", "true", name="none-1")
    assert ended.returncode == 1
    assert "There is no workflow" in ended.stderr
