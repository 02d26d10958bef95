"""The command and the client are one distribution: built, installed alone, and run by each Python here."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from localcluster.directories import CHECKOUT
from tests.builders.replies import POOLS
from web.release import VERSION

COMMAND, CLIENT = CHECKOUT / "osmo_topology_cli", CHECKOUT / "osmo_topology_client"
SOURCES = sorted(path for package in (COMMAND, CLIENT) for path in package.glob("*.py"))
PROJECT = tomllib.loads((CHECKOUT / "packaging" / "pyproject.toml").read_text())["project"]
MODULES = {name: name for name in ("requests", "rich", "typer", "websockets")} | {"pyyaml": "yaml"}
THIS = f"{sys.version_info.major}.{sys.version_info.minor}"


def names(requirements):
    return {re.match(r"[\w-]+", text)[0].lower() for text in requirements}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Built as a user builds it, from a copy, so that nothing is left in the checkout."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("wheel")
    for folder in ("packaging", COMMAND.name, CLIENT.name, "web"):
        shutil.copytree(CHECKOUT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(build, cwd=copy / "packaging", check=True, capture_output=True)
    (path,) = out.iterdir()
    return path


def test_the_wheel_holds_the_command_and_the_client_and_names_its_dependencies(wheel):
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        described = archive.read(f"osmo_topology_cli-{VERSION}.dist-info/METADATA").decode()
    typed = CLIENT / "py.typed"
    assert files == {path.relative_to(CHECKOUT).as_posix() for path in (*SOURCES, typed)}
    assert f"\nVersion: {VERSION}\n" in described
    assert "\nRequires-Python: >=3.10\n" in described
    assert names(re.findall(r"^Requires-Dist: (.*)$", described, re.MULTILINE)) == set(MODULES)


def test_a_checkout_has_what_the_command_needs_in_the_same_versions():
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert sorted(extras["cli"]) == sorted(PROJECT["dependencies"])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}.{path.name}")
def test_a_module_imports_the_two_packages_and_these_and_parses_as_python_310(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= {COMMAND.name, CLIENT.name, *MODULES.values(), *sys.stdlib_module_names}


def needed(distributions, seen=frozenset()):
    """These distributions and all that they need, where their markers hold here."""
    for name in distributions:
        if name in seen:
            continue
        seen |= {name}
        requires = [text for text in metadata.requires(name) or () if "extra ==" not in text]
        below = {requirement for requirement in names(requires) if _is_here(requirement)}
        seen = needed(below, seen)
    return seen


def _is_here(name):
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


@pytest.fixture
def alone(tmp_path, wheel):
    """An empty environment of this Python with the wheel and what its dependencies need, no more."""
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    install = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"]
    subprocess.run([*install, "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    for name in needed(MODULES):
        distribution = metadata.distribution(name)
        for first in {file.parts[0] for file in distribution.files} - {".."}:
            if not (site / first).exists():
                (site / first).symlink_to(Path(distribution.locate_file(first)).resolve())
    return environment / "bin"


def run(bin_folder, *words, home, **environment):
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONWARNINGS": "error"} | environment
    return subprocess.run(
        [bin_folder / "osmo-topology", *words],
        env=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
    )


def check(bin_folder, home, answering):
    """The version, a list in two formats, and a document that is read."""
    login = {"OSMO_URL": answering(POOLS).url, "OSMO_TOKEN": "t"}
    ended = run(bin_folder, "--version", home=home)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"osmo-topology {VERSION}\n", "")
    ended = run(bin_folder, "pools", home=home, **login)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[1].split()[:2] == ["training", "ONLINE"]
    ended = run(bin_folder, "pools", "-o", "yaml", home=home, **login)
    assert ended.stdout.startswith("pools:\n  training:\n"), ended.stderr
    ended = run(bin_folder, "pools", "-o", "xml", home=home, **login)
    assert ended.returncode == 2
    assert "'table', 'wide', 'json', 'yaml', 'name'" in ended.stderr
    assert "Traceback" not in ended.stderr
    program = "import os, osmo_topology_client as c; print(*c.Client(os.environ['OSMO_URL']).get('pool'))"
    python = [bin_folder / "python", "-c", program]
    ended = subprocess.run(python, env=login, capture_output=True, text=True, check=False, cwd=home)
    assert (ended.stdout.split(), ended.stderr) == (list(json.loads(POOLS[2])), "")


def test_it_runs_alone_in_an_empty_environment(alone, tmp_path, answering):
    check(alone, tmp_path, answering)


def interpreter(version):
    """A Python of this version on this machine; None if there is none."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [*root.glob(f"versions/{version}.*/bin/python"), shutil.which(f"python{version}")]
    for candidate in filter(None, candidates):
        asked = [candidate, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return candidate
    return None


# the oldest of them first: the one that is missed most easily
OTHERS = sorted({"3.10", "3.11", "3.12", "3.13", "3.14"} - {THIS})


@pytest.mark.parametrize(
    "version", [OTHERS[0], *(pytest.param(version, marks=pytest.mark.deep) for version in OTHERS[1:])]
)
def test_it_installs_and_runs_with_each_python_of_this_machine(version, wheel, tmp_path, answering):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    environment = tmp_path / "env"
    subprocess.run([python, "-m", "venv", "--without-pip", str(environment)], check=True)
    install = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"]
    options = ["--quiet", "--only-binary=:all:", "--no-compile", "--retries=1", "--timeout=10", str(wheel)]
    done = subprocess.run([*install, *options], capture_output=True, text=True, check=False)
    if done.returncode and re.search(r"connection|timed out|name resolution", done.stderr, re.IGNORECASE):
        pytest.skip("no package index answers")
    assert done.returncode == 0, done.stderr
    check(environment / "bin", tmp_path, answering)
