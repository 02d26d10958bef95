"""The how-to pages show values that the chart accepts and names that it gives."""

import re

import pytest
import yaml

from localcluster.directories import CHECKOUT
from pools.values.recovery_words import read_words
from scheduling.nodes.node_health import rule_fault
from tests.chart.objects import of_kind
from tests.chart.values import DEFAULTS, merged

HOW_TO = CHECKOUT / "docs/how-to"
DIGEST = f"sha256:{'0' * 64}"
INSTALL = (HOW_TO / "install.md").read_text()


def yaml_blocks(page):
    texts = re.findall(r"^```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [
        document
        for text in texts
        if "{{" not in text
        for document in yaml.safe_load_all(text.replace("sha256:...", DIGEST))
    ]


def is_values(block):
    return isinstance(block, dict) and block.keys() <= DEFAULTS.keys()


BLOCKS = [block for block in yaml_blocks(HOW_TO / "install.md") if is_values(block)]
VALUES = {
    f"{page.stem} {number}": block
    for page in sorted(HOW_TO.glob("*.md"))
    for number, block in enumerate(yaml_blocks(page))
    if is_values(block)
}
OTHERS = {
    "a workflow": lambda block: "workflow" in block,
    "what Prometheus reads": lambda block: "scrape_configs" in block,
    "annotations of an Ingress": lambda block: block.keys() == {"metadata"},
    "values of OSMO's gateway chart": lambda block: block.keys() == {"upstreams", "envoy"},
    "a declared configuration": lambda block: (
        block.keys() <= {"backends", "pools", "pod_templates", "workflow"}
    ),
    "a part of a workflow": lambda block: block.keys() <= {"resources", "groups", "tasks", "topology"},
    "a recovery policy": lambda block: block.keys() == {"recovery"} and not recovery_faults(block),
    "objects of Kueue": lambda block: str(block.get("apiVersion", "")).startswith("kueue.x-k8s.io/"),
    "conditions of nodes": lambda block: block.keys() == {"node_conditions"} and not rule_faults(block),
}


def recovery_faults(block):
    return read_words(block["recovery"], path=("recovery",))[1]


def rule_faults(block):
    rules = block["node_conditions"]["rules"]
    return [fault for pattern, statuses in rules.items() if (fault := rule_fault(pattern, statuses))]


@pytest.mark.parametrize("page", sorted(HOW_TO.glob("*.md")), ids=lambda page: page.stem)
def test_every_yaml_on_a_page_is_of_a_kind_that_some_test_reads(page):
    for block in yaml_blocks(page):
        assert is_values(block) or any(fits(block) for fits in OTHERS.values()), block


@pytest.mark.parametrize("place", VALUES)
def test_values_on_a_page_are_an_installation(helm, place):
    """By themselves if they have an address, else in place of those of the installation page."""
    block = VALUES[place]
    assert helm.template(values=block if "url" in block and "database" in block else over_the_page(block))


def over_the_page(block):
    if "quickstart" in block:
        return block
    return merged(block, {name: value for name, value in BLOCKS[0].items() if name != "ingress"})


def test_the_page_shows_a_quickstart_and_an_installation_with_ones_own_servers():
    assert [bool(block.get("quickstart")) for block in BLOCKS].count(True) == 1
    assert len(BLOCKS) > 1


def test_every_secret_that_values_name_is_made_on_a_page_with_its_keys():
    """Of those whose making the pages show."""
    pages = "\n".join(page.read_text() for page in HOW_TO.glob("*.md"))
    pages = pages.replace("\\\n", "")
    made = dict(re.findall(r"create (?:secret generic|secret tls|configmap) (\S+) (.*)", pages))
    values = BLOCKS[0]
    for name, key in {
        values["secretKey"]["existingSecret"]: "secret-key=",
        values["database"]["existingSecret"]: "password=",
        values["administrator"]["existingSecret"]: "password=",
        VALUES["monitoring 0"]["metrics"]["existingSecret"]: "token=",
        values["ingress"]["tlsSecret"]: "--cert=",
        "east-kubeconfigs": "--from-file=observer=",
        values["logs"]["existingSecret"]: "--from-env-file=",
        values["caBundle"]["configMap"]: "ca.crt=",
    }.items():
        assert key in made[name]


def test_jobs_on_the_pages_are_those_of_the_release(helm):
    objects = helm.template(values=BLOCKS[0])
    jobs = {job["metadata"]["name"] for job in of_kind(objects, "Job")}
    pages = "".join(page.read_text() for page in HOW_TO.glob("*.md"))
    assert set(re.findall(r"job/([\w-]+)", pages)) <= jobs


def test_values_that_a_text_names_are_values_of_the_chart():
    """Such as ``networkPolicy.webFrom`` in a sentence or after ``--set``."""
    sections = "|".join(re.escape(name) for name, value in DEFAULTS.items() if isinstance(value, dict))
    for page in HOW_TO.glob("*.md"):
        for path in re.findall(rf"(?:`|--set )((?:{sections})\.[\w.]+)", page.read_text()):
            assert known(path), f"{page.name}: {path}"


def known(path):
    own = {"nodeSelector", "extraEnv", "extraVolumes", "extraVolumeMounts", "podLabels", "podAnnotations"}
    place = DEFAULTS
    for part in path.rstrip(".").split("."):
        if not isinstance(place, dict) or (part not in place and part not in own):
            return False
        place = place.get(part, {})
    return True
