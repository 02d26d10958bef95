"""What a release is made of is listed completely, and under licences that its users may take on."""

import json
import re
import subprocess
import sys

import pytest

from inventory import images
from inventory.documents import bill_of_materials, licence_list
from inventory.packages import COMMAND, LOCK, ROOT, WHOLE_LOCK, command_packages, packages, pins
from web.release import VERSION

PERMITTED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MPL-2.0"),
    *("PSF-2.0", "Unlicense"),
}
STRONGER = {  # a library that anybody may replace; Django has no other driver of PostgreSQL with pools
    "psycopg": "LGPL-3.0-only",
    "psycopg-binary": "LGPL-3.0-only",
}


def test_the_list_has_what_the_lock_installs_on_linux():
    shipped = {package.name: package.version for package in packages()}
    assert shipped == pins(LOCK)
    assert "tzdata" not in shipped
    assert {"django", "kubernetes", "boto3"} < shipped.keys()


def test_no_licence_is_stronger_than_mpl_but_that_of_the_database_driver():
    stronger = {
        package.name: package.licence
        for package in [*packages(), *command_packages()]
        if not set(re.split(r" (?:AND|OR) ", package.licence)) <= PERMITTED
    }
    assert stronger == STRONGER


def test_what_the_command_brings_is_listed_with_what_that_needs():
    versions = {package.name: package.version for package in command_packages()}
    assert {"pyyaml", "requests", "rich", "typer", "markdown-it-py", "urllib3"} < versions.keys()
    assert versions.items() <= pins(WHOLE_LOCK).items()
    assert "django" not in versions
    assert "pytest" not in versions
    bill = json.loads(bill_of_materials(command_packages(), product=COMMAND))
    assert bill["metadata"]["component"]["name"] == COMMAND
    assert {component["name"] for component in bill["components"]} == versions.keys()


def test_a_package_of_another_version_is_refused(tmp_path):
    lock = tmp_path / "lock"
    lock.write_text("django==1.0 \\\n    --hash=sha256:0\n")
    with pytest.raises(LookupError, match=r"django is 5.* here and 1.0 in the lock"):
        packages(lock)


def test_the_bill_of_materials_names_each_package_once_and_knows_every_reference():
    bill = json.loads(bill_of_materials(packages()))
    references = [component["bom-ref"] for component in bill["components"]]
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["version"] == VERSION
    assert len(references) == len(set(references)) == len(packages())
    known = {*references, bill["metadata"]["component"]["bom-ref"]}
    assert {edge["ref"] for edge in bill["dependencies"]} == known
    assert {to for edge in bill["dependencies"] for to in edge["dependsOn"]} <= known
    (aiohttp,) = [component for component in bill["components"] if component["name"] == "aiohttp"]
    assert aiohttp["licenses"] == [{"expression": "Apache-2.0 AND MIT"}]


def test_two_runs_write_the_same_bytes():
    assert bill_of_materials(packages()) == bill_of_materials(packages())
    assert f"osmo-topology:{VERSION}" in licence_list(packages())


def test_every_image_that_a_file_of_deployment_names_is_listed():
    text = images.image_list(digests=False)
    templates = "".join(path.read_text() for path in ROOT.glob("deploy/helm/*/templates/*"))
    assert set(re.findall(r"\bimage: (\S.*)", templates)) == {
        '{{ include "osmo.image" $root | quote }}',
        '{{ include "osmo.image" . | quote }}',
        "{{ .image | quote }}",  # of the quickstart
    }
    values = (ROOT / "deploy/helm/osmo-topology/values.yaml").read_text()
    for image in [f"osmo-topology:{VERSION}", *re.findall(r"Image: (\S+)", values)]:
        assert f"{image}  # " in text


def test_an_image_that_several_need_is_listed_once_with_all_of_them():
    lines = images.image_list(digests=False).splitlines()
    references = [line.partition("  # ")[0] for line in lines]
    assert len(references) == len(set(references))
    (postgresql,) = [line for line in lines if line.startswith("postgres:")]
    assert "# quickstart.enabled, docker-compose.yml, " in postgresql


def test_digests_are_those_that_the_registries_give(tmp_path, monkeypatch):
    program = tmp_path / "skopeo"
    program.write_text(f"#!{sys.executable}\nprint('sha256:' + '7' * 64)\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    first, *others = images.image_list(digests=True).splitlines()
    assert first.startswith(f"osmo-topology:{VERSION} ")
    assert all(f"@sha256:{'7' * 64}  # " in line for line in others)


def test_without_skopeo_nothing_is_written(tmp_path):
    command = [sys.executable, "-m", "inventory", str(tmp_path / "out"), "--digests"]
    ended = subprocess.run(command, cwd=ROOT, env={"PATH": ""}, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "digests need skopeo" in ended.stderr
    assert not (tmp_path / "out").exists()
