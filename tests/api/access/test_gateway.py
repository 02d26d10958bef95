"""Gateway mode over the wire: what gunicorn makes of bytes is what the service is asked to believe."""

import asyncio
import json
from ipaddress import ip_network
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.config import Config

from osmo_topology.wsgi import application
from tests.factories import LEVELS, PoolFactory
from web.access.services import make_token
from web.server.environ import environ_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_connection")]

SECRET = "proxy-" + "s" * 40
PROOF = f"x-osmo-proxy-secret: {SECRET}"
PROXY = "192.0.2.10"


class Connection(asyncio.Transport):
    """What gunicorn asks of a connection while it reads a request."""

    def __init__(self, peer):
        super().__init__({"peername": (peer, 40000), "sockname": ("127.0.0.1", 8000)})

    def set_write_buffer_limits(self, high=None, low=None):
        """Nothing is written."""

    def can_write_eof(self):
        return False

    def close(self):
        """Nothing is open."""


def scope_of(sent, *, peer):
    """What gunicorn's parser hands to the application for these bytes."""

    async def parse():
        read = asyncio.get_running_loop().create_future()

        async def application(scope, receive, send):
            read.set_result(scope)

        log = SimpleNamespace(access_log_enabled=False, error=print, debug=print, error_log=None)
        worker = SimpleNamespace(
            cfg=Config(), log=log, asgi=application, loop=asyncio.get_running_loop(), nr_conns=0, nr=0
        )
        worker.alive, worker.max_requests = True, 1000
        connection = ASGIProtocol(worker)
        connection.connection_made(Connection(peer))
        connection.data_received(sent)
        return await asyncio.wait_for(read, 5)

    return asyncio.run(parse())


def send(*headers, method="GET", address="/api/profile/settings", peer=PROXY):
    """(status, JSON) of a request as bytes, read by gunicorn and answered by the service."""
    lines = [f"{method} {address} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
    environ = environ_of(scope_of("\r\n".join(lines).encode("latin-1"), peer=peer), b"")
    status = []
    body = b"".join(application(environ, lambda line, _headers, *_: status.append(int(line[:3]))))
    return status[0], json.loads(body)


@pytest.fixture(autouse=True)
def _production(settings):
    settings.DEVELOPMENT_LOGIN = False


@pytest.fixture
def _gateway(settings):
    settings.TRUSTED_PROXY_SECRETS = [SECRET]


def who(*headers, **options):
    """The name and the roles that a request was taken for."""
    status, body = send(*headers, **options)
    assert status == 200, body
    return body["profile"]["username"], body["roles"]


@pytest.mark.parametrize(
    "headers",
    [
        ["x-osmo-user: root"],
        ["X-OSMO-USER: root", "X-Osmo-Roles: osmo-admin"],
        ["x-osmo-user: root", PROOF],
        [
            "x-osmo-user: root",
            "X-Forwarded-For: 127.0.0.1",
            "X-Real-IP: 127.0.0.1",
            "Forwarded: for=127.0.0.1",
        ],
        ["x_osmo_user: root"],
        ["x-osmo-user:"],
    ],
    ids=["a user", "other letters", "a secret", "from home, it says", "underscores", "an empty user"],
)
def test_without_a_gateway_nobody_is_believed(headers):
    User.objects.create_superuser("root")
    assert send(*headers)[0] == 401
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    "headers",
    [
        ["x-osmo-user: root"],
        ["x-osmo-user: root", "x-osmo-proxy-secret: wrong"],
        ["x-osmo-user: root", "x_osmo_proxy_secret: " + SECRET],
        ["x-osmo-user: root", f"x-osmo-proxy-secret: {SECRET[:-1]}"],
        ["x-osmo-user: root", "x-osmo-proxy-secret: wrong", PROOF],
        ["x-osmo-user: ann", "x-osmo-user: root", PROOF],
        ["x-osmo-user: ann", "X-OSMO-User: root", PROOF],
        ["x-osmo-user: ann", "X-Osmo-Roles: osmo-admin", "x-osmo-roles: osmo-a", PROOF],
        ["x-osmo-user: ann", "x-osmo-allowed-pools: a", "x-osmo-allowed-pools: b", PROOF],
        ["x-osmo-user: ann", PROOF, PROOF],
        ["x-osmo-roles: osmo-admin", PROOF],
        ["x-osmo-proxy-secret: wrong"],
    ],
    ids=[
        "no secret",
        "a wrong secret",
        "a secret under another name",
        "part of the secret",
        "two secrets",
        "two users",
        "two users in other letters",
        "two lists of roles",
        "two lists of pools",
        "the secret twice",
        "roles of nobody",
        "a wrong secret and no user",
    ],
)
@pytest.mark.usefixtures("_gateway")
def test_beside_a_gateway_nobody_else_is_believed(headers):
    root = User.objects.create_superuser("root")
    status, body = send(*headers)
    assert status == 401
    assert SECRET not in json.dumps(body)
    assert send(*headers, f"Authorization: Bearer {make_token(root, name='t')}")[0] == 401


@pytest.mark.usefixtures("_gateway")
def test_the_gateway_says_who_is_calling_and_what_they_hold():
    assert who("x-osmo-user: ann", PROOF) == ("ann", ["osmo-default"])
    roles = who("X-Osmo-User: ann", "x-osmo-roles: osmo-a, osmo-b", PROOF)[1]
    assert roles == ["osmo-a", "osmo-b", "osmo-default"]
    User.objects.get(username="ann").role_assignments.create(role="osmo-c")
    assert who("x-osmo-user: ann", PROOF)[1] == ["osmo-c", "osmo-default"]
    assert not User.objects.get(username="ann").has_usable_password()


@pytest.mark.usefixtures("_gateway")
def test_a_header_with_underscores_adds_nothing_to_the_gateways():
    smuggled = ["x_osmo_roles: osmo-admin", "x_osmo_user: root"]
    assert who("x-osmo-user: ann", *smuggled, PROOF) == ("ann", ["osmo-default"])


@pytest.mark.usefixtures("_gateway")
def test_the_gateways_pools_narrow_its_roles():
    for name in ("a", "ab", "b"):
        PoolFactory(name=name, levels=LEVELS)
    told = ["x-osmo-user: ann", "x-osmo-roles: osmo-user", PROOF]
    assert set(send(*told, address="/api/pool")[1]["pools"]) == {"a", "ab", "b"}
    narrowed = send(*told, "x-osmo-allowed-pools: a", address="/api/pool")[1]["pools"]
    assert set(narrowed) == {"a"}
    assert send(*told, "x-osmo-allowed-pools:", address="/api/pool")[1]["pools"] == {}
    assert send(*told, "x-osmo-allowed-pools: a", address="/api/pool/ab/topology")[0] == 403


@pytest.mark.usefixtures("_gateway")
def test_a_user_who_was_switched_off_stays_off_behind_the_gateway():
    User.objects.create_user("ann", is_active=False)
    assert send("x-osmo-user: ann", PROOF)[0] == 401


@pytest.mark.usefixtures("_gateway")
def test_a_token_goes_on_working_beside_the_gateway_and_through_it():
    token = f"Authorization: Bearer {make_token(User.objects.create_user('ann'), name='t')}"
    assert who(token)[0] == "ann"
    assert who(token, PROOF)[0] == "ann"
    assert who(token, "x-osmo-user: bob", PROOF)[0] == "bob"


@pytest.mark.usefixtures("_gateway")
def test_nobody_takes_a_token_past_the_gateway():
    told = ["x-osmo-user: ann", PROOF, "Content-Length: 0"]
    status, body = send(*told, method="POST", address="/api/auth/access_token/laptop")
    assert (status, "ask an administrator" in body["message"]) == (403, True)
    make_token(User.objects.get(username="ann"), name="lost")
    assert send(*told, method="DELETE", address="/api/auth/access_token/lost")[0] == 200


@pytest.mark.usefixtures("_gateway")
def test_no_log_holds_a_token_or_the_secret(caplog):
    caplog.set_level("DEBUG")
    token = make_token(User.objects.create_user("ann"), name="t")
    wrong = "0" * 40
    for headers in ([PROOF, "x-osmo-user: ann"], [f"{PROOF}x"], [PROOF, f"Authorization: Bearer {token}"]):
        send(*headers)
    send(f"Authorization: Bearer {wrong}")
    assert "request_finished" in caplog.text
    for secret in (SECRET, token, wrong):
        assert secret[:12] not in caplog.text


def test_a_gateway_is_known_by_its_address_alone_if_so_configured(settings):
    settings.TRUSTED_PROXY_NETWORKS = [ip_network("192.0.2.0/28")]
    assert who("x-osmo-user: ann")[0] == "ann"
    assert send("x-osmo-user: ann", peer="192.0.2.77")[0] == 401
    assert send("x-osmo-user: ann", f"X-Forwarded-For: {PROXY}", peer="192.0.2.77")[0] == 401
    settings.TRUSTED_PROXY_SECRETS = [SECRET]
    assert send("x-osmo-user: ann")[0] == 401
    assert who("x-osmo-user: ann", PROOF)[0] == "ann"


@pytest.mark.parametrize(("site", "want"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200)])
@pytest.mark.usefixtures("_gateway")
def test_a_page_of_another_site_does_not_act_through_the_gateways_cookie(site, want):
    fetched = ["x-osmo-user: ann", PROOF, f"Sec-Fetch-Site: {site}"]
    assert send(*fetched, "Content-Length: 0", method="POST")[0] == want
    assert send(*fetched)[0] == 200


OWN = "https://osmo.example"
PAGES_OF_OTHERS = {
    "another site": ["Origin: https://evil.example"],
    "a site that begins alike": ["Origin: https://127.0.0.1.evil.example"],
    "a page without an origin": ["Origin: null"],
    "our name as a user's": ["Origin: https://127.0.0.1@evil.example"],
    "another port": ["Origin: http://127.0.0.1:9000"],
    "what is no address": ["Origin: http://[::1"],
    "a page that refers": ["Referer: https://evil.example/127.0.0.1"],
    "an origin against a referrer": ["Origin: https://evil.example", "Referer: http://127.0.0.1/ui/"],
}
OWN_PAGES = {
    "the host itself": ["Origin: http://127.0.0.1"],
    "by TLS before us": ["Origin: https://127.0.0.1"],
    "the public address": [f"Origin: {OWN}"],
    "a trusted origin": ["Origin: https://admin.example"],
    "a page that refers": [f"Referer: {OWN}/ui/workflows/a-1/cancel"],
    "no browser": [],
}


@pytest.mark.usefixtures("_gateway")
@pytest.mark.parametrize("case", PAGES_OF_OTHERS)
def test_without_sec_fetch_site_the_origin_says_whose_page_it_is(case):
    headers = ["x-osmo-user: ann", PROOF, "Content-Length: 0", *PAGES_OF_OTHERS[case]]
    assert send(*headers, method="POST")[0] == 403
    assert send(*headers)[0] == 200


@pytest.mark.usefixtures("_gateway")
@pytest.mark.parametrize("case", OWN_PAGES)
def test_a_page_of_the_service_acts_also_in_browsers_without_sec_fetch_site(case, settings):
    settings.ENV = settings.ENV.model_copy(update={"service_url": f"{OWN}/"})
    settings.CSRF_TRUSTED_ORIGINS = ["https://admin.example"]
    headers = ["x-osmo-user: ann", PROOF, "Content-Length: 0", *OWN_PAGES[case]]
    assert send(*headers, method="POST")[0] == 200


def test_the_development_login_is_for_this_machine_and_says_nothing_but_a_name(settings):
    settings.DEVELOPMENT_LOGIN = True
    assert who("x-osmo-user: ann", peer="127.0.0.1")[0] == "ann"
    assert send("x-osmo-user: ann", peer="192.0.2.77")[0] == 401
    assert send("x-osmo-user: ann", "X-Forwarded-For: 127.0.0.1", peer="192.0.2.77")[0] == 401
    assert send("x-osmo-user: ann", "x-osmo-roles: osmo-admin", peer="127.0.0.1")[0] == 401
    assert send("x-osmo-user: a b", peer="127.0.0.1")[0] == 401
    settings.TRUSTED_PROXY_SECRETS = [SECRET]
    assert send("x-osmo-user: ann", peer="127.0.0.1")[0] == 401
