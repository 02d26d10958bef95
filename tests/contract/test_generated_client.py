"""A client that openapi-python-client makes of the description works on the whole service.

The generator needs another typer than the command, so it has an environment of its own, made by the first run
that needs it (``generated/requirements.lock``).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from localcluster.directories import CHECKOUT
from tests.e2e.conftest import workflow
from tests.installed import installed

HERE = Path(__file__).parent / "generated"
LOCK = HERE / "requirements.lock"


@pytest.fixture(scope="session")
def generator():
    """The ``bin`` of an environment with the generator."""
    return installed("client-generator", LOCK, _install) / "env" / "bin"


def _install(folder):
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    pip = [folder / "env" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "--retries=1"]
    locked = ["--require-hashes", "--only-binary=:all:", "-r", LOCK]
    done = subprocess.run([*pip, *locked], capture_output=True, text=True, check=False)
    is_offline = re.search(r"connection|timed out|name resolution", done.stderr, re.IGNORECASE)
    if is_offline and "CI" not in os.environ:
        pytest.skip("no package index answers")
    assert done.returncode == 0, done.stderr


@pytest.fixture
def generated(generator, tmp_path):
    """A folder with the package ``generated``, made of the description in docs/."""
    described = CHECKOUT / "docs" / "reference" / "openapi.yaml"
    out = tmp_path / "generated"
    options = ["--path", described, "--output-path", out, "--meta", "none", "--fail-on-warning"]
    command = [generator / "openapi-python-client", "generate", *options]
    path = f"{generator}:{os.environ['PATH']}"
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return tmp_path


def test_a_generated_client_submits_watches_and_cancels(
    generated, generator, world, running_service, own_token
):
    pool = world.make_pool(racks=1)
    name = f"{world.prefix}generated"
    text = workflow(("g", ["a", "b"])).replace("name: w", f"name: {name}")
    done = subprocess.run(
        [generator / "python", HERE / "program.py", running_service["api_url"], own_token, pool],
        input=text,
        env={"PYTHONPATH": str(generated)},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "refused: USAGE"
    assert lines[1].startswith(f"submitted {name}-1, ")
    assert [line for line in lines if " is " not in line][2:] == [f"listed {name}-1", f"cancelling {name}-1"]
    assert lines[-1] == f"{name}-1 is FAILED_CANCELED"
