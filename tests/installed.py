"""What tests need of other languages or versions, installed once for all runs of an account."""

import fcntl
import hashlib
import os
import shutil
import subprocess

import pytest

from localcluster.directories import cache_directory

NPM_SECONDS = 180


def installed(name, lock, install):
    """A folder that ``install(folder)`` has filled, by the first run that needs it with this ``lock``."""
    folder = cache_directory() / f"{name}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as one_installer:
        fcntl.flock(one_installer, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            install(folder)
            (folder / "installed").touch()
    return folder


def npm_packages(name, source):
    """A folder with npm's packages that ``source`` pins; the test is skipped where they cannot be had."""
    if not shutil.which("node") or not shutil.which("npm"):
        _missing("node and npm are not on this machine")

    def install(folder):
        for file in ("package.json", "package-lock.json"):
            shutil.copy(source / file, folder)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
        try:
            subprocess.run(command, cwd=folder, check=True, timeout=NPM_SECONDS, capture_output=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            _missing(f"npm could not install {name}: {error}")

    return installed(name, source / "package-lock.json", install)


def _missing(reason):
    if os.environ.get("OSMO_NODE") == "needed":
        pytest.fail(reason)
    pytest.skip(reason)
