"""Garbage in a cookie, a header, a path or a query is refused at every address, whoever sends it."""

import re
from dataclasses import dataclass, field

import pytest
from django.contrib.auth.models import User
from django.test import Client

from osmo_topology.wsgi import application
from tests.builders.addresses import addresses
from tests.error_shape import assert_error_shape

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_connection")]

CONTROLS = [chr(code) for code in range(32) if chr(code) not in "\t\n\r"] + ["\x7f"]
QUOTED = [f"\\{ord(control):03o}" for control in ("\0", "\1", "\n", "\x1b", "\x7f")]
BYTES = ["\x80", "\xff\xfe", "\xc3\x28", "\xed\xa0\x80", "\xf4\x90\x80\x80"]
"""Bytes that are no UTF-8, as WSGI hands them on: one alone, a mark, a broken pair, a surrogate, too high."""
PERCENT = ["%00", "%01", "%0a", "%80", "%ff%fe", "%ed%a0%80", "%f4%90%80%80", "%", "%zz", "a" * 3000]

COOKIES = ["sessionid", "csrftoken", "messages", "theirs", ""]
HEADERS = [
    "HTTP_AUTHORIZATION", "HTTP_IDEMPOTENCY_KEY", "HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH",
    "HTTP_IF_MODIFIED_SINCE", "HTTP_X_OSMO_USER", "HTTP_X_OSMO_ROLES", "HTTP_X_OSMO_CLIENT_VERSION",
    "HTTP_X_REQUEST_ID", "HTTP_ACCEPT", "HTTP_ACCEPT_LANGUAGE", "HTTP_USER_AGENT", "HTTP_REFERER",
    "HTTP_ORIGIN", "HTTP_X_FORWARDED_FOR", "HTTP_HOST", "HTTP_X_CSRFTOKEN", "HTTP_SEC_FETCH_SITE",
    "HTTP_X_HTTP_METHOD_OVERRIDE", "HTTP_RANGE", "HTTP_X_ANYTHING", "CONTENT_TYPE", "CONTENT_LENGTH",
]  # fmt: skip
IN_HEADERS = ["\0", "\1", "\x1f", "\x7f", *BYTES, "\\000", "%00", '"', ";=", "," * 50, "9" * 400]
CHARSETS = ["base64", "idna", "undefined", "utf-16", "rot13", "punycode", "hex", "nothing", "unicode_escape"]
TYPES = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
PARAMETERS = ["q", "pool", "next", "o", "p", "all", "name", "revision", "expires_at", "label", "_popup"]


@dataclass(frozen=True)
class Garbage:
    """A request's parts that are not as they should be; ``path`` is added to an address."""

    headers: dict = field(default_factory=dict)
    query: str = ""
    path: str = ""


KINDS = {
    "cookie": [
        *(Garbage({"HTTP_COOKIE": f'{n}="{text}aaaaaaaaaaaa"'}) for n in COOKIES for text in QUOTED + BYTES),
        *(Garbage({"HTTP_COOKIE": f"sessionid={text}aaaaaaaaaaaa"}) for text in ("\0", "\1", "\x7f")),
    ],
    "header": [
        *(Garbage({name: text}) for name in HEADERS for text in IN_HEADERS),
        *(
            Garbage({"HTTP_AUTHORIZATION": f"{scheme} {text}"})
            for scheme in ("Bearer", "Basic")
            for text in BYTES + CONTROLS
        ),
    ],
    "charset": [
        Garbage({"CONTENT_TYPE": f"{kind}; charset={charset}"}, query="a=b%c3%a4")
        for charset in CHARSETS
        for kind in TYPES
    ]
    + [Garbage({"CONTENT_TYPE": "text/plain; charset=utf-8"}, query="&".join(f"a{n}=b" for n in range(2000)))]
    + [Garbage({"CONTENT_TYPE": text}) for text in IN_HEADERS],
    "path": [Garbage(path=text) for text in PERCENT],
    "query": [
        *(Garbage(query=f"{name}={text}") for text in PERCENT for name in PARAMETERS),
        *(Garbage(query=f"{text}={text}&{text}") for text in PERCENT),
        Garbage(query="&".join(f"a{place}=b" for place in range(2000))),
    ],
}  # fmt: skip
ALWAYS = 2
"""Requests of each kind that every address gets."""
SHARE = 96
"""Of the others an address gets every ninety-sixth, and its neighbour the next ones; so each is sent."""
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")


def concrete(route):
    return "/" + re.sub(r"<(?:\w+:)?\w+>", "1", route.replace("^", "").replace("(?:/.*)?$", "/x"))


ROUTES = sorted({concrete(route) for route in addresses(leave_out="?") if "?P" not in route})


def client_of(caller):
    client = Client(raise_request_exception=False)
    if caller == "an administrator":
        client.force_login(User.objects.create_superuser("root"))
    return client


def send(client, method, route, garbage):
    """Send a request with garbage in it; the client's own session stays beside a cookie of it."""
    environ = {"CONTENT_TYPE": "application/json", "QUERY_STRING": garbage.query, **garbage.headers}
    if garbage.path:
        environ["PATH_INFO"] = as_wsgi(f"{route}{garbage.path}")
    if "HTTP_COOKIE" in environ and (session := client.cookies.get("sessionid")):
        environ["HTTP_COOKIE"] += f"; sessionid={session.value}"
    return client.generic(method, route, **environ)


def status_of(client, method, route, garbage):
    return send(client, method, route, garbage).status_code


def call(client, method, route, garbage):
    """The status of a request that the service's own handler takes, from which Django makes its request."""
    path, query = as_wsgi(f"{route}{garbage.path}"), garbage.query
    environ = client._base_environ(
        PATH_INFO=path, REQUEST_METHOD=method, QUERY_STRING=query, **garbage.headers
    )
    status = []
    b"".join(application(environ, lambda line, _headers, *_: status.append(int(line[:3]))))
    return status[0]


def as_wsgi(path):
    """A path as WSGI hands it on: percent-encoding undone, bytes as latin-1."""
    return re.sub(r"%([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), path)


@pytest.mark.parametrize("caller", ["a stranger", "an administrator"])
@pytest.mark.parametrize("kind", KINDS)
def test_garbage_is_refused_at_every_address_and_no_fault_of_the_server(kind, caller):
    assert len(ROUTES) > 140
    client, failures = client_of(caller), {}
    ask = call if kind == "charset" else status_of
    for place, route in enumerate(ROUTES):
        cases = [*KINDS[kind][:ALWAYS], *KINDS[kind][ALWAYS + place % SHARE :: SHARE]]
        for number, garbage in enumerate(cases):
            method = METHODS[place % 5] if number % 2 else "GET"
            if ask(client, method, route, garbage) >= 500:
                failures.setdefault(garbage.query[:60] or str(garbage), []).append(f"{method} {route}")
    assert not failures, {case: places[:4] for case, places in failures.items()}


REFUSED = {
    "a cookie of a NUL": Garbage({"HTTP_COOKIE": 'sessionid="\\000aaaaaaaaaaaa"'}),
    "a cookie of another site on the host": Garbage({"HTTP_COOKIE": 'theirs="\\033"'}),
    "a header": Garbage({"HTTP_IDEMPOTENCY_KEY": "a\0b"}),
    "a query of a NUL": Garbage(query="pool=%00"),
    "a query of bytes": Garbage(query="pool=%ff"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("route", ["/livez", "/readyz", "/api/version", "/api/workflow", "/admin/"])
def test_the_answer_is_a_400_in_the_shape_of_every_error(case, route):
    assert_error_shape(send(client_of("a stranger"), "GET", route, REFUSED[case]), 400)


@pytest.mark.parametrize(
    ("content_type", "want"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ('application/json;charset="UTF8"', 200),
        ("application/json; charset=us-ascii; x=y", 200),
        ("application/json; charset=base64", 400),
        ("application/json; charset=utf-8; charset=base64", 400),
        ("application/json; CHARSET=utf-16", 400),
        ("application/json; charset*=utf-8''base64", 400),
        ("application/json; charset=a\0b", 400),
        ("application/json; charset=nothing", 400),
    ],
)
def test_a_request_is_read_in_utf_8_and_in_nothing_else(content_type, want):
    garbage = Garbage({"CONTENT_TYPE": content_type}, query="a=%c3%a4")
    assert call(client_of("a stranger"), "GET", "/livez", garbage) == want


HARMLESS = {
    "a cookie in quotes": Garbage({"HTTP_COOKIE": 'theirs="a b\\054c"'}),
    "a cookie in UTF-8": Garbage({"HTTP_COOKIE": "theirs=\xc3\xa4"}),
    "a tab in a header": Garbage({"HTTP_ACCEPT": "text/html,\tapplication/json"}),
    "letters beyond ASCII in a query": Garbage(query="a=%c3%a4"),
    "a line break in a query": Garbage(query="env_vars=A=b%0Ac"),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_a_readable_request_is_answered(case):
    assert send(client_of("a stranger"), "GET", "/api/version", HARMLESS[case]).status_code == 200
