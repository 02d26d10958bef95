"""The command ``osmo-topology`` logs in at a real identity provider and works with its tokens."""

import re
from dataclasses import replace

import pytest
import requests

from tests.cli.conftest import bare  # noqa: F401 -- a fixture


@pytest.fixture
def service(transactional_db, identity, live_server, settings):
    settings.IDENTITY_PROVIDER = replace(identity.settings)
    settings.ENV = settings.ENV.model_copy(update={"service_url": live_server.url})
    return live_server.url


def test_a_person_enters_the_code_and_the_command_has_their_roles(bare, identity, service, tmp_path):  # noqa: F811
    trust = {"REQUESTS_CA_BUNDLE": str(identity.running.authority)}
    process = bare.start("login", service, **trust)
    line = process.stderr.readline()
    address, code = re.fullmatch(r"Open (\S+) and enter the code (\S+)\n", line).groups()
    ann = identity.person("ann")
    ann.visit(f"{address}?user_code={code}", until_shown="Sign-in Success")
    ann.close()
    ended = bare.end(process)
    assert (ended.code, ended.out) == (0, f"logged in to {service} as ann\n"), ended.err
    pools = bare("pools", **trust)
    assert pools.code == 0, pools.err
    stored = (tmp_path / ".config" / "osmo" / "login.yaml").read_text()
    (token,) = re.findall(r"id_token: (\S+)", stored)
    profile = requests.get(
        f"{service}/api/profile/settings", headers={"Authorization": f"Bearer {token}"}, timeout=30
    ).json()
    assert profile["profile"]["username"] == "ann"
    assert profile["roles"] == ["osmo-default", "osmo-train", "osmo-tune"]
