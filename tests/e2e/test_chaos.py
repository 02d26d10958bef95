"""The fault harness in its short form: everything fails once, every crash point is hit, nothing is lost."""

import subprocess
import sys

import pytest

from localcluster.directories import CHECKOUT


@pytest.mark.deep
@pytest.mark.timeout(1200)
def test_nothing_is_lost_leaked_doubled_half_made_or_backwards_whatever_fails():
    """On servers of its own, so nothing here disturbs another test; the seed is fixed, the order is not."""
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--short", "--seed", "1"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=1180,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
