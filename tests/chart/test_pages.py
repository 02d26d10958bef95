"""The pages about the chart show values that it accepts and names that it gives."""

import re

import pytest
import yaml

from tests.chart.objects import of_kind
from tests.chart.values import ROOT

INSTALL = (ROOT / "docs/how-to/install.md").read_text()
PAGES = INSTALL + (ROOT / "docs/how-to/uninstall.md").read_text()
BLOCKS = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", INSTALL, re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_values_on_the_page_are_an_installation(helm, number):
    assert helm.template(values=BLOCKS[number])


def test_the_page_shows_a_quickstart_and_an_installation_with_ones_own_servers():
    assert [bool(block.get("quickstart")) for block in BLOCKS].count(True) == 1
    assert len(BLOCKS) > 1


def test_secrets_on_the_page_have_the_names_and_keys_of_its_values():
    values = BLOCKS[0]
    made = {name: line for line in INSTALL.splitlines() for name in re.findall(r"secret generic (\S+)", line)}
    for name, key in {
        values["secretKey"]["existingSecret"]: "secret-key=",
        values["database"]["existingSecret"]: "password=",
        values["administrator"]["existingSecret"]: "password=",
    }.items():
        assert key in made[name]


def test_jobs_on_the_pages_are_those_of_the_release(helm):
    objects = helm.template(values=BLOCKS[0])
    jobs = {one["metadata"]["name"] for one in of_kind(objects, "Job")}
    assert set(re.findall(r"job/([\w-]+)", PAGES)) <= jobs
