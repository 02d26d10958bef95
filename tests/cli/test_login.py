"""Logging in: with a personal token, in a browser at an identity provider, and for development."""

import json
import time
from urllib.parse import parse_qs

import pytest
import yaml

from tests.builders.replies import POOLS, jwt

GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def reply(content, status=200):
    return status, {"Content-Type": "application/json"}, json.dumps(content)


@pytest.fixture
def file(tmp_path):
    return tmp_path / ".config" / "osmo" / "login.yaml"


def provider(answering, *answers):
    """A server that is the service and its identity provider; the first answer names its own addresses."""
    server = answering(reply({}))
    addresses = {
        "device_endpoint": f"{server.url}/device",
        "device_client_id": "osmo-device",
        "token_endpoint": f"{server.url}/token",
    }
    server.answers[:] = [reply(addresses), *answers]
    return server


def forms(server):
    return [(path, parse_qs(body.decode())) for _, path, _, body in server.asked]


BEGUN = reply(
    {
        "device_code": "d7",
        "user_code": "ABCD-EFGH",
        "verification_uri": "https://idp.example/device",
        "verification_uri_complete": "https://idp.example/device?code=ABCD-EFGH",
        "interval": 0.01,
        "expires_in": 600,
    }
)
PENDING = reply({"error": "authorization_pending"}, 400)


@pytest.mark.parametrize("given_by", ["environment", "option", "file", "standard input"])
def test_a_personal_token_is_exchanged_and_kept_as_osmos_client_keeps_it(bare, answering, file, given_by):
    short = jwt(time.time() + 600)
    service = answering(reply({"token": short}), POOLS)
    (file.parents[2] / "token").write_text("personal\n")
    words = {
        "environment": ["login", f"{service.url}/"],
        "option": ["--token", "personal", "login", service.url],
        "file": ["login", service.url, "--token-file", str(file.parents[2] / "token")],
        "standard input": ["login", service.url, "--token-file", "-"],
    }[given_by]
    more = {"OSMO_TOKEN": "personal"} if given_by == "environment" else {}
    ended = bare(*words, given="personal\n", **more)
    assert (ended.code, ended.out, ended.err) == (0, f"logged in to {service.url}\n", "")
    assert json.loads(service.asked[0][3]) == {"token": "personal"}
    assert file.stat().st_mode & 0o777 == 0o600
    stored = yaml.safe_load(file.read_text())
    assert (stored["url"], stored["osmo_token"], stored["dev_login"]) == (service.url, True, None)
    assert stored["token_login"]["refresh_url"] == f"{service.url}/api/auth/jwt/access_token"
    assert bare("pools").code == 0
    assert service.asked[1][2]["Authorization"] == f"Bearer {short}"
    assert bare("logout").out == "logged out\n"
    assert not file.exists()
    assert bare("logout").out == "there was no login\n"


def test_a_login_in_a_browser_waits_for_its_code_to_be_entered(bare, answering, file):
    short = jwt(time.time() + 600)
    tokens = reply({"id_token": short, "refresh_token": "r1", "access_token": "a"})
    server = provider(answering, BEGUN, PENDING, PENDING, tokens, POOLS)
    ended = bare("login", server.url)
    assert (ended.code, ended.out) == (0, f"logged in to {server.url}\n"), ended.err
    assert "Open https://idp.example/device and enter the code ABCD-EFGH\n" in ended.err
    (_, (path, begun), *polls) = forms(server)
    assert (path, begun["scope"]) == ("/device", ["openid offline_access profile"])
    wanted = {"grant_type": [GRANT], "device_code": ["d7"], "client_id": ["osmo-device"]}
    assert polls == [("/token", wanted)] * 3
    assert yaml.safe_load(file.read_text())["osmo_token"] is False
    assert bare("pools").code == 0
    assert server.asked[-1][2]["Authorization"] == f"Bearer {short}"


def test_a_login_of_a_provider_that_has_ended_is_renewed_and_kept(bare, answering, file):
    short = jwt(time.time() + 600)
    tokens = reply({"id_token": jwt(time.time() - 1), "refresh_token": "r1"})
    server = provider(answering, BEGUN, tokens)
    assert bare("login", server.url).code == 0
    server.answers[:] = [reply({"id_token": short, "refresh_token": "r2"}), POOLS]
    assert bare("pools").code == 0
    (*_, (path, form), _) = forms(server)
    assert path == "/token"
    assert (form["grant_type"], form["refresh_token"]) == (["refresh_token"], ["r1"])
    assert server.asked[-1][2]["Authorization"] == f"Bearer {short}"
    assert yaml.safe_load(file.read_text())["token_login"]["refresh_token"] == "r2"


def test_a_login_that_does_not_succeed_is_one_sentence_and_leaves_nothing(bare, answering, file):
    denied = reply({"error": "access_denied", "error_description": "You said no."}, 400)
    no_provider = reply({"device_endpoint": "", "device_client_id": "", "token_endpoint": ""})
    clear = reply({"device_endpoint": "http://idp.example/device", "device_client_id": "c"})
    for server, code, said in (
        (answering(no_provider), 2, "offers no login with a browser; log in with a personal token"),
        (answering(clear), 2, "http://idp.example/device is not https://; nothing is sent there"),
        (
            provider(answering, reply({"error": "invalid_client"}, 401)),
            1,
            "refused the login: invalid_client",
        ),
        (provider(answering, BEGUN, denied), 1, "refused the login: You said no."),
        (provider(answering, BEGUN, reply({"access_token": "a"})), 1, "gave no ID token"),
        (provider(answering, BEGUN, (500, {}, "<html>no</html>")), 1, "answered with 500: <html>no</html>"),
    ):
        ended = bare("login", server.url)
        assert (ended.code, ended.out) == (code, ""), said
        assert said in ended.err.splitlines()[-1]
        assert "Traceback" not in ended.err
    wrong = answering(reply({"message": "Invalid token.", "error_code": "USER"}, 401))
    ended = bare("login", wrong.url, OSMO_TOKEN="t")
    assert (ended.code, ended.err) == (2, "Invalid token.\n")
    assert not file.exists()


def test_words_that_cannot_be_a_login_are_refused(bare, tmp_path):
    (tmp_path / "empty").write_text("\n")
    for words, said in (
        (["login"], "Which service?"),
        (["login", "ftp://x"], "no address of a service"),
        (["login", "https://x", "--token-file", str(tmp_path / "nowhere")], "cannot be read"),
        (["login", "https://x", "--token-file", str(tmp_path / "empty")], "holds no token"),
        (["--token", "t", "login", "https://x", "--token-file", "-"], "two logins"),
    ):
        ended = bare(*words)
        assert (ended.code, ended.out, len(ended.err.splitlines())) == (2, "", 1), said
        assert said in ended.err


def test_somebody_on_a_development_service_gives_a_name(bare, answering, file):
    service = answering(POOLS)
    assert bare("--user", "ann", "login", service.url).out == f"logged in to {service.url} as ann\n"
    assert bare("pools").code == 0
    assert service.asked[0][2]["x-osmo-user"] == "ann"


def test_a_login_that_cannot_be_written_is_said(bare, answering, tmp_path):
    (tmp_path / ".config").write_text("a file where a directory should be")
    ended = bare("--user", "ann", "login", answering(POOLS).url)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("The login cannot be written to ")


def test_a_login_at_the_real_service_lasts_for_the_next_command(bare, running_service):
    ended = bare("login", running_service["api_url"], OSMO_TOKEN=running_service["token"])
    assert ended.code == 0, ended.err
    assert bare("pools").code == 0
