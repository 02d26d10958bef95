"""The compose file and the image speak of what the product really has."""

import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from localcluster.directories import CHECKOUT
from osmo_topology.settings import SPECTACULAR_SETTINGS
from web.env import Environment
from web.release import VERSION

COMPOSE = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = ("web", "worker", "beat", "observer", "migrate", "administrator")


def test_every_process_of_the_service_is_there_beside_its_servers():
    assert set(SERVICES) == {"postgres", "redis", *OURS}


@pytest.mark.parametrize("name", OURS)
def test_a_process_is_told_nothing_but_settings_that_exist(name):
    known = {f"OSMO_{field.upper()}" for field in Environment.model_fields}
    own = {"OSMO_ADMIN_PASSWORD"} if name == "administrator" else set()
    assert set(SERVICES[name]["environment"]) <= known | own


def test_the_variables_of_a_process_make_addresses_with_the_servers_own_passwords(monkeypatch):
    given = {"OSMO_SECRET_KEY": "s" * 32, "POSTGRES_PASSWORD": "p-db", "REDIS_PASSWORD": "p-redis"}
    for name, text in SERVICES["web"]["environment"].items():
        monkeypatch.setenv(name, substituted(text, given))
    own = Environment()
    assert own.broker_url == "redis://:p-redis@redis:6379/0"
    assert own.database_url.hosts()[0]["password"] == "p-db"
    assert SERVICES["redis"]["command"][-2:] == ["--requirepass", "${REDIS_PASSWORD:?set a password}"]


def substituted(text, given):
    """As Compose fills in ``${NAME:?words}`` and ``${NAME:-default}``."""
    return re.sub(r"\$\{(\w+):[?-]([^}]*)\}", lambda found: given.get(found[1], found[2]), text)


def test_the_page_sets_every_variable_that_the_file_needs():
    needed = set(re.findall(r"\$\{(\w+):\?", (CHECKOUT / "docker-compose.yml").read_text()))
    page = (CHECKOUT / "docs" / "how-to" / "compose.md").read_text()
    assert needed <= set(re.findall(r"^(\w+)=", page, re.MULTILINE))


@pytest.mark.parametrize("name", OURS)
def test_a_process_waits_for_servers_that_are_healthy(name):
    for other, wanted in SERVICES[name]["depends_on"].items():
        condition = wanted["condition"]
        assert condition == "service_completed_successfully" or "healthcheck" in SERVICES[other]


def test_the_web_server_needs_no_home_to_write_to():
    """Containers have a read-only root filesystem and a user without a home."""
    code = "import web.server.webserver as own; own.on_exit(None); print(own.control_socket_disable)"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=200
    )
    assert answer.stdout.strip() == "True"


def test_the_image_holds_every_package_of_the_product_and_no_other():
    text = (CHECKOUT / "Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE))
    packages = re.search(r"^packages = \[(.*)\]", (CHECKOUT / "pyproject.toml").read_text(), re.MULTILINE)
    assert copied == set(re.findall(r'"(\w+)"', packages[1]))


def test_every_place_names_the_same_version():
    for pyproject in (CHECKOUT / "pyproject.toml", CHECKOUT / "packaging" / "pyproject.toml"):
        content = tomllib.loads(pyproject.read_text())
        assert "version" in content["project"]["dynamic"]
        source = pyproject.parent / content["tool"]["hatch"]["version"]["path"]
        assert source.resolve() == CHECKOUT / "web" / "release.py"
    charts = [yaml.safe_load(path.read_text()) for path in CHECKOUT.glob("deploy/helm/*/Chart.yaml")]
    assert {chart[field] for chart in charts for field in ("version", "appVersion")} <= {VERSION}
    assert {COMPOSE["services"][name]["image"] for name in OURS} == {f"osmo-topology:{VERSION}"}
    assert SPECTACULAR_SETTINGS["VERSION"] == VERSION
    pages = "\n".join(page.read_text() for page in (CHECKOUT / "docs").rglob("*.md"))
    tags = re.findall(
        r"(?:osmo-topology:|osmo-topology, tag: |^## Versions of )(\d[\d.]*\d)", pages, re.MULTILINE
    )
    assert len(tags) > 3
    assert set(tags) == {VERSION}


def test_the_image_installs_the_versions_that_are_tested():
    tested = pins("requirements.lock")
    assert pins("requirements-service.lock").items() <= tested.items()


def pins(lock):
    text = (CHECKOUT / lock).read_text()
    assert "http" not in re.sub(r"^ +# .*$|aiohttp\S*", "", text, flags=re.MULTILINE)
    return dict(re.findall(r"^([a-z0-9_.-]+)(?:\[[^\]]*\])?==(\S+)", text, re.MULTILINE))


def test_the_changes_are_in_order_and_name_this_version():
    text = (CHECKOUT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[releases[0] == "Unreleased"] == VERSION
    assert len(set(releases)) == len(releases)
    unreleased = "".join(re.findall(r"^## Unreleased\n(.*?)^## ", text, re.MULTILINE | re.DOTALL))
    order = ["Before you upgrade", "Removed", "Renamed", "Security", "Added", "Changed", "Fixed"]
    sections = re.findall(r"^### (.*)$", unreleased, re.MULTILINE)
    assert sections == [name for name in order if name in sections]
    assert not re.search(r"\n\n- ", unreleased), "a list is cut in two"
