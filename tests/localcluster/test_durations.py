"""Each step of the set-up says how long it took on this machine the last time."""

import subprocess
import sys

import pytest

from localcluster import durations
from localcluster.directories import CHECKOUT


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_step_says_how_long_it_took_only_after_it_ended_here_once():
    lines = []
    steps = durations.Steps(lines.append)
    for step in ("starting PostgreSQL", "starting Redis", "starting PostgreSQL", "starting Redis"):
        steps(step)
    first, second = "starting PostgreSQL", "starting Redis"
    assert lines == [first, second, f"{first} (1 s last time)", f"{second} (1 s last time)"]


def test_a_duration_is_said_in_seconds_or_minutes():
    assert [durations.spelled(seconds) for seconds in (0.1, 59.4, 59.6, 125)] == [
        "1 s",
        "59 s",
        "1:00 min",
        "2:05 min",
    ]


@pytest.mark.parametrize("left", ["", "{", "[]"])
def test_a_broken_file_of_durations_keeps_nobody_from_the_set_up(cache, left):
    (cache / "osmo-topology").mkdir()
    (cache / "osmo-topology" / "durations.json").write_text(left)
    durations.note("a step", seconds=3)
    assert durations.last_time("a step") == " (3 s last time)"


def test_a_command_is_a_step_that_fails_with_its_status():
    command = [sys.executable, "-m", "localcluster.durations", "installing"]
    failed = subprocess.run([*command, "false"], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stdout) == (1, "installing\n")
    for said in ("installing\n", "installing (1 s last time)\n"):
        done = subprocess.run([*command, "true"], cwd=CHECKOUT, capture_output=True, text=True, check=True)
        assert done.stdout == said
