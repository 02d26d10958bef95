"""The demo is the main job: it must pass as a new user runs it."""

import subprocess
import sys

import pytest

from localcluster.directories import CHECKOUT


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", ["0.13", "0.17"])
def test_every_check_of_the_demo_passes(version):
    done = subprocess.run(
        [sys.executable, "-m", "localcluster.demo", "--kai-version", version],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
