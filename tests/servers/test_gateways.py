"""The configurations on the page about gateways, run by nginx before web's own processes.

oauth2-proxy is played by a server that answers ``/oauth2/auth`` as its documentation describes: 202 with
``X-Auth-Request-*`` for a session, 401 without one.
"""

import http.client
import json
import re
import ssl
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest
import yaml
from django.contrib.auth.models import User
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from localcluster.directories import CHECKOUT
from localcluster.ports import LOOPBACK, free_ports
from tests.identity.certificates import write_certificates
from tests.servers.conftest import SECONDS, command, listening
from tests.web.conftest import SECRET, started_web
from web.access.gateway import IDENTITY, PROOF
from web.access.services import make_token

PAGE = (CHECKOUT / "docs/how-to/gateway.md").read_text()
COOKIE = "_oauth2_proxy=session-of-ann"
SETTINGS = "/api/profile/settings"
FORGED = {
    "x-osmo-user": "root",
    "x-osmo-roles": "osmo-admin",
    "x-osmo-allowed-pools": "everything",
    "x-osmo-proxy-secret": "g" * 40,
}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def snippet():
    """The directives that the annotations of ingress-nginx add to the location of the Ingress."""
    (annotated,) = (yaml.safe_load(block) for block in blocks("yaml") if "nginx.ingress" in block)
    return annotated["metadata"]["annotations"]["nginx.ingress.kubernetes.io/configuration-snippet"]


def written_by_ingress_nginx():
    """A location as that controller writes it for ``auth-url``, with the snippet at its place."""
    return f"""
        location = /_external-auth {{
            internal;
            proxy_pass http://oauth2-proxy:4180/oauth2/auth;
            proxy_set_header Host $host;
            proxy_set_header Content-Length "";
            proxy_pass_request_body off;
        }}
        location / {{
            auth_request /_external-auth;
            proxy_set_header Host $host;
            {snippet()}
            proxy_pass http://osmo-topology-web:8000;
        }}"""


class Proxy(BaseHTTPRequestHandler):
    """oauth2-proxy with ``--reverse-proxy --set-xauthrequest``, as far as nginx sees it."""

    def do_GET(self):
        known = COOKIE in self.headers.get("Cookie", "")
        if self.path == "/oauth2/auth":
            self.send_response(202 if known else 401)
            if known:
                for name, value in {
                    "User": "8f3c",
                    "Email": "ann@example.com",
                    "Preferred-Username": "ann",
                    "Groups": "osmo-user,everybody",
                }.items():
                    self.send_header(f"X-Auth-Request-{name}", value)
        else:
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def oauth2_proxy():
    with ThreadingHTTPServer((LOOPBACK, 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


def start_nginx(supervisor, directory, server, port):
    """Start nginx with one server, and wait until it listens."""
    folders = "".join(
        f"{kind}_temp_path {directory}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = directory / "nginx.conf"
    file.write_text(
        f"daemon off; user root; worker_processes 1; pid {directory}/nginx.pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off;\n{folders}{server} }}\n"
    )
    child = supervisor.start(command("nginx", "-c", str(file), "-p", str(directory)))
    supervisor.wait_ready(child, lambda: listening(port), seconds=SECONDS)


@pytest.fixture
def gateway(supervisor, tmp_path, oauth2_proxy, transactional_db, redis_url):
    """nginx with these locations before the service; requests through it."""

    def start(locations):
        (port,) = free_ports(1)
        web = stack.enter_context(started_web(tmp_path, redis_url, OSMO_DEFAULT_ROLES="[]"))
        for written, real in {
            "http://oauth2-proxy:4180": f"http://{LOOPBACK}:{oauth2_proxy}",
            "http://osmo-topology-web:8000": f"http://{LOOPBACK}:{web.port}",
            '"..."': f'"{SECRET}"',
        }.items():
            assert written in locations
            locations = locations.replace(written, real)
        start_nginx(supervisor, tmp_path, f"server {{ listen {LOOPBACK}:{port}; {locations} }}", port)
        return port

    with ExitStack() as stack:
        yield start


def answer(port, **headers):
    client = http.client.HTTPConnection(LOOPBACK, port, timeout=SECONDS)
    client.request("GET", SETTINGS, headers={"Host": "127.0.0.1", **headers})
    reply = client.getresponse()
    body = reply.read()
    client.close()
    return reply.status, body


RECIPES = {"nginx": lambda: blocks("nginx")[0], "ingress-nginx": written_by_ingress_nginx}


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_gateway_names_whom_the_login_proxy_names_and_nobody_else(gateway, recipe):
    port = gateway(RECIPES[recipe]())
    for forged in ({}, FORGED):
        status, body = answer(port, Cookie=COOKIE, **forged)
        assert status == 200, body
        profile = json.loads(body)
        assert (profile["profile"]["username"], set(profile["roles"])) == (
            "ann",
            {"osmo-user", "everybody", "osmo-default"},
        )
        status, body = answer(port, **forged)
        assert status in {302, 401}
        assert b"root" not in body


def test_a_session_in_a_task_passes_the_gateway_with_its_callers_login_alone(gateway):
    address = f"{LOOPBACK}:{gateway(blocks('nginx')[0])}"
    session = f"ws://{address}/api/router/exec/train-1/client/EXEC-0"
    with connect(session, additional_headers={"Cookie": COOKIE, **FORGED}, proxy=None) as socket:
        socket.send(b'{"Rows": 24, "Cols": 80}')
        assert b"key is not known" in socket.recv(timeout=SECONDS)
    with pytest.raises(InvalidStatus) as refusal:
        connect(session, additional_headers=FORGED, proxy=None)
    assert refusal.value.response.status_code == 401
    with urlopen(Request(f"http://{address}/api/router/version", headers={"Cookie": COOKIE})) as reply:
        assert reply.status == 200


@pytest.fixture
def tls_gateway(supervisor, tmp_path, transactional_db, redis_url):
    """nginx with the page's server for TLS before a service that is reached by https; (port, authority)."""
    page = (CHECKOUT / "docs/how-to/ingress-and-tls.md").read_text()
    (server,) = re.findall(r"^```nginx\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    authority, certificate, key = write_certificates(tmp_path)
    (port,) = free_ports(1)
    with started_web(
        tmp_path,
        redis_url,
        OSMO_SERVICE_URL=f"https://{LOOPBACK}:{port}",
        OSMO_FORWARDED_FOR_NETWORKS='["127.0.0.1/32"]',
    ) as web:
        for written, real in {
            "listen 443 ssl": f"listen {LOOPBACK}:{port} ssl",
            "/etc/nginx/tls.crt": str(certificate),
            "/etc/nginx/tls.key": str(key),
            "http://osmo-topology-web:8000": f"http://{LOOPBACK}:{web.port}",
        }.items():
            assert written in server
            server = server.replace(written, real)
        start_nginx(supervisor, tmp_path, server, port)
        yield port, authority


def test_the_server_for_tls_passes_everything_on(tls_gateway):
    port, authority = tls_gateway
    context = ssl.create_default_context(cafile=str(authority))
    client = http.client.HTTPSConnection(LOOPBACK, port, timeout=SECONDS, context=context)
    client.request("GET", "/ui/login")
    reply = client.getresponse()
    assert (reply.status, "Secure" in reply.headers["Set-Cookie"]) == (200, True), reply.read()
    reply.read()
    client.request(
        "POST",
        "/api/pool/train/workflow",
        json.dumps({"file": "#" * 7_000_000}),
        {"Authorization": f"Bearer {make_token(User.objects.create_superuser('ann'), name='t')}"}
        | {"Content-Type": "application/json"},
    )
    reply = client.getresponse()
    body = json.loads(reply.read())  # the service's own answer: nginx's would be no JSON
    assert reply.status in {400, 404}, body
    client.close()


def test_every_recipe_sets_each_header_that_the_service_believes():
    """Envoy was not run: OSMO's own filters remove and set the first three, its recipe adds the proof."""
    believed = {name.removeprefix("HTTP_").replace("_", "-").lower() for name in (*IDENTITY, PROOF)}
    for recipe in (blocks("nginx")[0], snippet()):
        assert set(re.findall(r"proxy_set_header (x-osmo-\S+)", recipe)) == believed
    (gateway,) = (yaml.safe_load(block) for block in blocks("yaml") if "serviceRoutes" in block)
    ((added,),) = (route["request_headers_to_add"] for route in gateway["envoy"]["serviceRoutes"])
    assert added["header"]["key"] in believed
    assert added["append_action"] == "OVERWRITE_IF_EXISTS_OR_ADD"


def test_a_session_in_a_task_passes_the_server_for_tls(tls_gateway):
    port, authority = tls_gateway
    token = make_token(User.objects.create_user("ann"), name="t")
    opening = connect(
        f"wss://{LOOPBACK}:{port}/api/router/exec/train-1/client/EXEC-0",
        ssl=ssl.create_default_context(cafile=str(authority)),
        additional_headers={"Authorization": f"Bearer {token}"},
        proxy=None,
    )
    with opening as socket:
        socket.send(b'{"Rows": 24, "Cols": 80}')
        assert b"key is not known" in socket.recv(timeout=SECONDS)
