"""The packages of the image, from the lock that it is installed from, and those of the command.

Names and versions come from the lock, licences from the metadata of the same versions, which are installed
here. Metadata written before SPDX names were usual is read by a table of packages, so that no "BSD" is
guessed to be one of its kinds. What the base image brings (Python, Debian's packages) is not listed here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-service.lock"
WHOLE_LOCK = ROOT / "requirements.lock"
COMMAND = "osmo-topology-cli"
IMAGE = {"python_version": "3.11", "python_full_version": "3.11.14", "sys_platform": "linux"}

SPDX = {
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "ISC License": "ISC",
    "BSD 3-Clause OR Apache-2.0": "BSD-3-Clause OR Apache-2.0",
}
"""Other spellings of names that leave no doubt."""

LICENCES = {
    "amqp": "BSD-3-Clause",
    "billiard": "BSD-3-Clause",
    "click-plugins": "BSD-3-Clause",
    "drf-spectacular-sidecar": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "prompt-toolkit": "BSD-3-Clause",
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "sqlparse": "BSD-3-Clause",
    "vine": "BSD-3-Clause",
    "wcwidth": "MIT",
}
"""Read in the texts that these packages bring, because their metadata names a family of licences or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package of the image; ``licence`` is an SPDX expression, ``needs`` are names of other ones."""

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]


def packages(lock: Path = LOCK) -> list[Package]:
    """The image's packages by name. Raises LookupError where another version is installed here."""
    versions = pins(lock)
    return [_package(name, version, versions) for name, version in sorted(versions.items())]


def command_packages() -> list[Package]:
    """What the command brings to a user's machine, in the versions of the lock that it is tested with."""
    versions = pins(WHOLE_LOCK)
    names, new = set[str](), _needs(COMMAND)
    while new:
        names |= new
        new = {needed for name in new for needed in _needs(name)} - names
    shipped = {name: versions[name] for name in sorted(names)}
    return [_package(name, version, shipped) for name, version in shipped.items()]


def _needs(name: str) -> set[str]:
    """What an installed package needs without its extras, on Linux."""
    requirements = [Requirement(line) for line in metadata.distribution(name).requires or ()]
    return {
        canonicalize_name(requirement.name)
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate({**IMAGE, "extra": ""})
    }


def pins(lock: Path) -> dict[str, str]:
    """Names and versions that the lock installs in the image."""
    lines = re.findall(r"^(\S+==[^\\\n]*)", lock.read_text(), re.MULTILINE)
    requirements = [Requirement(line) for line in lines]
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in requirements
        if requirement.marker is None or requirement.marker.evaluate(IMAGE)
    }


def _package(name: str, version: str, versions: Mapping[str, str]) -> Package:
    try:
        fields = metadata.metadata(name)  # read once: a distribution parses them anew for each question
    except metadata.PackageNotFoundError:
        raise LookupError(f"{name} {version} is not installed here: run `make venv`") from None
    if fields["Version"] != version:
        raise LookupError(f"{name} is {fields['Version']} here and {version} in the lock: run `make venv`")
    needs = {canonicalize_name(Requirement(line).name) for line in fields.get_all("Requires-Dist", [])}
    return Package(
        name=name,
        version=version,
        licence=LICENCES.get(name) or _licence(fields),
        needs=tuple(sorted(needs & versions.keys())),
    )


def _licence(fields: metadata.PackageMetadata) -> str:
    """The licence's SPDX expression, as the package names it."""
    values = fields.json  # as a mapping: the protocol of the fields has no way to ask for one that may lack
    text = str(values.get("license_expression") or values.get("license") or "")
    return SPDX.get(text, text)
