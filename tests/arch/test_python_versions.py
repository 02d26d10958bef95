"""Every place that speaks of Python versions names the same ones."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from localcluster.directories import CHECKOUT

SERVICE = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
COMMAND = tomllib.loads((CHECKOUT / "packaging" / "pyproject.toml").read_text())["project"]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
FIRST, LAST = VERSIONS[0], VERSIONS[-1]
LOCKS = ("requirements.lock", "requirements-service.lock")
KNOWN_MINORS = range(8, 20)


def classified(project):
    return tuple(line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line)


def test_the_service_takes_the_versions_that_it_is_classified_for():
    accepted = SpecifierSet(SERVICE["requires-python"])
    assert tuple(f"3.{minor}" for minor in KNOWN_MINORS if f"3.{minor}" in accepted) == VERSIONS
    assert classified(SERVICE) == VERSIONS


def test_the_command_takes_an_older_one_too():
    assert classified(COMMAND) == ("3.10", *VERSIONS)
    assert "3.10" in SpecifierSet(COMMAND["requires-python"])
    assert "3.9" not in SpecifierSet(COMMAND["requires-python"])


def test_make_takes_each_of_them():
    text = (CHECKOUT / "Makefile").read_text()
    assert " ".join(f"python{version}" for version in VERSIONS) in text
    first, last = (version.replace(".", ", ") for version in (FIRST, LAST))
    assert f"({first}) <= sys.version_info[:2] <= ({last})" in text


@pytest.mark.parametrize("page", ["README.md", "docs/tutorials/first-rack-job.md"])
def test_a_page_that_tells_what_is_needed_names_them(page):
    assert f"You need Python {FIRST} to {LAST}" in (CHECKOUT / page).read_text()


def test_the_page_of_compatibility_has_a_word_on_each():
    (row,) = re.findall(
        r"^\| Python \| (.*) \|$", (CHECKOUT / "docs/reference/compatibility.md").read_text(), re.MULTILINE
    )
    assert set(re.findall(r"3\.\d+", row)) == {"3.10", *VERSIONS}


def test_the_image_is_made_of_one_of_them():
    images = re.findall(r"^FROM python:(\d\.\d+)-slim", (CHECKOUT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(set(images)) == 1
    assert set(images) <= set(VERSIONS)


def locked(lock, version):
    """Name and version of each package that this lock installs on a Python of this version."""
    environment = {"python_version": version, "python_full_version": f"{version}.9"}
    lines = re.findall(r"^(\S+==[^\\\n]*)", (CHECKOUT / lock).read_text(), re.MULTILINE)
    packages = [Requirement(line) for line in lines]
    return {
        package.name: str(package.specifier)
        for package in packages
        if not package.marker or package.marker.evaluate(environment)
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_installs_what_is_declared_in_one_version_each(lock, version):
    packages = locked(lock, version)
    assert packages == locked(lock, FIRST)
    declared = [Requirement(line) for line in SERVICE["dependencies"]]
    for requirement in declared:
        assert packages[requirement.name.lower()].removeprefix("==") in requirement.specifier


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_index_and_a_hash_for_each_package(lock):
    text = (CHECKOUT / lock).read_text()
    assert not re.search(r"https?://|^--", text, re.MULTILINE)
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in block, block
