"""An image as a directory: what the Dockerfile's last stage copies, and the packages of the lock alone.

Beside the checkout's own environment nothing else is importable, so a package that the image lacks is missed
here too. ``version`` makes the image of another release of the same code.
"""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Self

RECORD = "image.json"


@dataclass(frozen=True, slots=True)
class Image:
    """Where its files are, and what its processes are told."""

    workdir: Path
    environment: dict[str, str]

    @classmethod
    def read(cls, directory: Path) -> Self:
        content = json.loads((directory / RECORD).read_text())
        return cls(workdir=directory / "files", environment=content["environment"])


def build(checkout: Path, directory: Path, *, version: str = "") -> Path:
    """Make the image of a checkout; returns its directory."""
    lines = _last_stage((checkout / "Dockerfile").read_text())
    files = directory / "files"
    files.mkdir(parents=True)
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            *sources, target = line.split()[1:]
            for source in sources:
                _copy(checkout / source, files / target / ("" if (checkout / source).is_dir() else source))
    if version:
        release = files / "web" / "release.py"
        release.write_text(
            re.sub(r"^VERSION = .*$", f'VERSION = "{version}"', release.read_text(), flags=re.MULTILINE)
        )
    packages = _packages(checkout / "requirements-service.lock", directory / "packages")
    variables = dict(
        word.split("=", 1) for line in lines if line.startswith("ENV ") for word in line.split()[1:]
    )
    variables["PATH"] = (
        variables["PATH"].replace("/opt/osmo", str(packages)).replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
    )
    (directory / RECORD).write_text(json.dumps({"environment": variables}))
    return directory


def _last_stage(text: str) -> list[str]:
    """The instructions behind the last FROM, each on one line."""
    lines = text.replace("\\\n", " ").splitlines()
    begin = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    return lines[begin + 1 :]


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)  # with what is compiled already
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _packages(lock: Path, target: Path) -> Path:
    """An environment with the lock's distributions, each linked to where it is installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", target], check=True, timeout=60)
    (site,) = target.glob("lib/python*/site-packages")
    for name in re.findall(r"^([a-z0-9_.-]+)(?:\[[^\]]*\])?==", lock.read_text(), re.MULTILINE):
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        _link(distribution, site, target / "bin")
    return target


def _link(distribution: metadata.Distribution, site: Path, programs: Path) -> None:
    for file in distribution.files or ():
        top = file.parts[0]
        if top == "..":
            continue
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(distribution.locate_file(top))))
    for entry in distribution.entry_points:
        if entry.group == "console_scripts":
            module, _, name = entry.value.partition(":")
            program = programs / entry.name
            program.write_text(
                f"#!{programs / 'python'}\nimport sys\nfrom {module} import {name}\nsys.exit({name}())\n"
            )
            program.chmod(0o755)


def image_link(directory: Path, name: str) -> Path:
    """Where the kubelet with this directory looks for an image's directory."""
    return directory / "images" / re.sub(r"[^A-Za-z0-9.-]", "_", name)
