"""Crash points: nothing in production, one death for each arming elsewhere, and all of them in the code."""

import os
import re
import signal

import pytest
from pydantic import ValidationError

from chaos.points import POINTS
from localcluster.directories import CHECKOUT
from web import crashpoints
from web.env import Environment


@pytest.fixture
def armed(settings, tmp_path, monkeypatch):
    settings.ENV = settings.ENV.model_copy(update={"crash_points": str(tmp_path)})
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append((pid, number)))
    return tmp_path, killed


def test_an_armed_point_kills_the_process_once(armed):
    directory, killed = armed
    (directory / "created-pods").touch()
    crashpoints.reached("half-of-pods")
    assert killed == []
    crashpoints.reached("created-pods")
    crashpoints.reached("created-pods")
    assert killed == [(os.getpid(), signal.SIGKILL)]
    assert [path.name for path in directory.iterdir()] == [f"created-pods.hit.{os.getpid()}"]


def test_nothing_dies_unless_a_directory_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "created-pods").touch()
    crashpoints.reached("created-pods")
    assert (tmp_path / "created-pods").exists()


def test_production_refuses_crash_points():
    with pytest.raises(ValidationError, match="OSMO_CRASH_POINTS"):
        Environment(env="production", secret_key="x" * 40, crash_points="/tmp/points")


def test_every_point_stands_in_the_code():
    """Points of single steps are named by verb and kind."""
    text = "".join(
        path.read_text() for package in ("workflows", "pools") for path in (CHECKOUT / package).rglob("*.py")
    )
    written = set(re.findall(r'reached\("([a-z-]+)"\)', text))
    steps = {point for point in POINTS if point.split("-")[0] in ("created", "deleted")}
    assert set(POINTS) - steps == written - steps
