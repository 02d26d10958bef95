"""``osmo-topology exec`` on web and an API server that says exit codes and ends of input, as kubelets do."""

import os
import signal
import subprocess
import sys

import pytest

from localcluster.directories import CHECKOUT
from tests.builders.waiting import until
from tests.web.conftest import process_of

SECONDS = 60


@pytest.fixture
def start_command(own, ann, group, tmp_path):
    login = {
        "OSMO_URL": f"http://127.0.0.1:{own.port}",
        "OSMO_TOKEN": ann["Authorization"].removeprefix("Bearer "),
    }

    def start(*words, name=group.workflow.name):
        return subprocess.Popen(
            [sys.executable, "-m", "osmo_topology_cli", "exec", name, "task-0", *words],
            cwd=CHECKOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONWARNINGS": "error"} | login,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def command(start_command):
    def run(*words, given=None, **more):
        with start_command(*words, **more) as process:
            out, err = process.communicate(given, timeout=SECONDS)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return run


def test_the_command_ends_with_the_code_of_its_process(command):
    ended = command("--", "exit", "7")
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "", "")


def test_input_is_sent_to_its_end(command):
    ended = command("-i", "--", "echo", given="from a pipe")
    assert (ended.returncode, ended.stdout) == (0, "from a pipe")


def test_a_session_that_is_cut_off_is_told_in_words(command):
    ended = command("--", "drop")
    words = "The session was cut off: the connection to the cluster was lost\n"
    assert (ended.returncode, ended.stderr) == (10, words)


def test_web_that_stops_ends_the_command_in_a_sentence(start_command, own, pods):
    with start_command("--", "echo") as process:
        until(pods.opened)
        os.kill(process_of(own), signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (10, "The session broke off: service restart.\n")


def test_a_workflow_that_is_not_there_is_refused_in_words(command):
    ended = command("--", "true", name="none-1")
    assert ended.returncode == 1
    assert "There is no workflow" in ended.stderr
