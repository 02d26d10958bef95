"""The example that saves at SIGTERM, run as a process."""

import json
import os
import signal
import subprocess
import sys

import pytest
import yaml

from localcluster.directories import CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "saving.yaml"
LONG = 10_000_000


@pytest.fixture
def start(tmp_path):
    task, _ = yaml.safe_load(EXAMPLE.read_text())["workflow"]["groups"][0]["tasks"]
    (file,) = task["files"]
    program = tmp_path / "train.py"
    program.write_text(file["contents"])
    processes = []

    def begin(**variables):
        environment = {**os.environ, "CHECKPOINTS": str(tmp_path), **variables}
        process = subprocess.Popen(
            [sys.executable, "-u", str(program)], stdout=subprocess.PIPE, text=True, env=environment
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def test_an_attempt_goes_on_where_the_one_before_was_asked_to_end(start, tmp_path):
    first = start(STEPS=str(LONG), OSMO_ATTEMPT="1", OSMO_LAST_END="")
    assert first.stdout.readline() == "attempt 1 begins at step 0\n"
    saving = first.stdout.readline()
    assert saving == "saved step 500\n"
    first.send_signal(signal.SIGTERM)
    *_, last = saving, *first.stdout  # the signal may come before the next step
    assert first.wait() == 75
    saved = json.loads((tmp_path / "run.json").read_text())
    assert last == f"saved step {saved['step']}\n"
    assert 500 <= saved["step"] < LONG

    again = start(STEPS=str(saved["step"] + 3), OSMO_ATTEMPT="2", OSMO_LAST_END="preempted")
    *lines, done = again.stdout
    assert again.wait() == 0
    assert lines[0] == f"attempt 2 after preempted begins at step {saved['step']}\n"
    assert done == f"done at step {saved['step'] + 3} with weight {(saved['step'] + 3) / 2}\n"
    assert not (tmp_path / "run.new").exists()


def test_a_kill_while_it_writes_leaves_the_last_good_state(start, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"step": 40, "weight": 20.0}))
    (tmp_path / "run.new").write_text('{"step": 4')
    process = start(STEPS="41")
    assert process.stdout.readline() == "attempt 1 begins at step 40\n"
    assert process.stdout.readline() == "done at step 41 with weight 20.5\n"
    assert process.wait() == 0
