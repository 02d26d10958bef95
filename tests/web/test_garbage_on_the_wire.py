"""Garbage as bytes on the wire, at addresses of every kind: an answer below 500, and no trace in the log.

``tests/api/test_garbage.py`` sends what reaches Django to every address. Here is what only the server
sees: how a request is framed, and bytes that a client library would not write.
"""

import pytest

from tests.web.wire import request, status_of

PLACES = [
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/"),
    ("GET", "/api/pool"),
    ("GET", "/api/profile/settings"),
    ("GET", "/api/workflow/train-1/logs"),
    ("POST", "/api/pool/h100/workflow"),
    ("PUT", "/api/configs/pool/h100"),
    ("DELETE", "/api/configs/backend/b"),
    ("GET", "/api/docs"),
    ("GET", "/admin/login/"),
    ("POST", "/admin/login/"),
    ("GET", "/static/drf_spectacular_sidecar/redoc/bundles/redoc.standalone.js"),
]
REFUSED = range(400, 500)
ANSWERED = range(200, 500)
NOT_SERVED = range(400, 502)  # 501: a transfer coding that nobody knows, RFC 9112 section 6.1

TARGETS = {
    "a NUL": (b"%s\0", REFUSED),
    "an escaped NUL": (b"%s%%00", REFUSED),
    "bytes that are no UTF-8": (b"%s\xff\xfe", REFUSED),
    "escaped bytes that are no UTF-8": (b"%s%%ff%%fe", REFUSED),
    "an overlong slash": (b"%s%%c0%%af", REFUSED),
    "half of a surrogate pair": (b"%s%%ed%%a0%%80", REFUSED),
    "a line end": (b"%s%%0d%%0aX-Osmo-User:%%20root", REFUSED),
    "escapes of nothing": (b"%s%%zz%%", REFUSED),
    "a space": (b"%s a", REFUSED),
    "a tab": (b"%s\ta", REFUSED),
    "10,000 bytes": (b"%s" + b"a" * 10_000, REFUSED),
    "2,000 levels": (b"%s" + b"/.." * 2000, REFUSED),
    "a fragment": (b"%s#a", ANSWERED),
    "a query with a NUL": (b"%s?a=\0", REFUSED),
    "a query with an escaped NUL": (b"%s?a=%%00", ANSWERED),
    "a query that is no UTF-8": (b"%s?limit=%%ff&order=\xff", ANSWERED),
    "a query of 2,000 names": (b"%s?" + b"a=1&" * 1900, ANSWERED),
    "a query of signs": (b"%s?&&==;?%%&[]={}", ANSWERED),
    "a whole URL": (b"http://other.example%s", ANSWERED),
    "a whole URL without a bracket": (b"http://[::1%s", ANSWERED),
    "a whole URL of no address": (b"http://[zz]:99999999%s", ANSWERED),
    "a whole URL that is no ASCII": (b"http://\xff\xe2\x84\x80%s", ANSWERED),
    "another scheme": (b"gopher://h%s", ANSWERED),
    "a host and a port": (b"h:443%s", ANSWERED),
    "no slash": (b"api%s", ANSWERED),
    "an asterisk": (b"*", ANSWERED),
}
HEADERS = {
    "a NUL": [b"X-A: a\0b"],
    "a NUL in a cookie": [b'Cookie: sessionid="\0aaaaaaaaaaaa"'],
    "an escaped NUL in a cookie": [b'Cookie: sessionid="\\000aaaaaaaaaaaa"'],
    "control characters": [b"X-A: \x01\x02\x7f"],
    "a lone carriage return": [b"X-A: a\rX-Osmo-User: root"],
    "a name of 8 bits": [b"X-\xc3\xa9: a"],
    "a name with a NUL": [b"X-\0A: a"],
    "a name with a space": [b"X A: a"],
    "a space behind the name": [b"X-A : a"],
    "no name": [b": a"],
    "no colon": [b"X-A"],
    "a folded line": [b"X-A: a", b"\tb"],
    "a line of 10,000 bytes": [b"X-A: " + b"a" * 10_000],
    "200 lines": [b"X-%d: a" % number for number in range(200)],
    "two hosts": [b"Host: 127.0.0.2"],
    "two lengths": [b"Content-Length: 2", b"Content-Length: 3"],
    "two lengths in a line": [b"Content-Length: 2, 3"],
    "a length with a sign": [b"Content-Length: +2"],
    "a negative length": [b"Content-Length: -2"],
    "a length in hexadecimal": [b"Content-Length: 0x2"],
    "a length of other digits": ["Content-Length: \u0662".encode()],
    "an endless length": [b"Content-Length: " + b"9" * 5000],
    "a length and chunks": [b"Content-Length: 2", b"Transfer-Encoding: chunked"],
    "chunks twice": [b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"],
    "a coding that nobody knows": [b"Transfer-Encoding: xchunked"],
    "a coding behind chunks": [b"Transfer-Encoding: chunked, gzip"],
}
ODDITIES = {
    "Latin-1": [b"X-A: \xff\xfe", b"Accept-Language: \xff", b"User-Agent: \xff"],
    "a cookie of no UTF-8": [b"Cookie: sessionid=\xff\xfe; csrftoken=\xff; messages=\xff"],
    "a cookie of signs": [b"Cookie: =;;=;a;\x22\\;messages=[[[[;sessionid=" + b"a" * 5000],
    "many cookies": [b"Cookie: " + b"; ".join(b"a%d=b" % number for number in range(500))],
    "a date of no calendar": [
        b"If-Modified-Since: Thu, 99 Zzz 99999 99:99:99 GMT",
        b"If-Unmodified-Since: 0",
    ],
    "a range without end": [b"Range: bytes=" + b"9" * 50 + b"-", b"If-Range: \xff"],
    "ranges": [b"Range: bytes=" + b"0-1," * 500],
    "an Accept of nothing": [
        b"Accept: ;q=\xff,,*/*;q=1e999",
        b"Accept-Encoding: ;;q=,",
        b"Accept-Charset: \xff",
    ],
    "languages": [b"Accept-Language: " + b"en-" * 500 + b";q=9"],
    "a form without a boundary": [b"Content-Type: multipart/form-data", b"Content-Encoding: br"],
    "a form of a boundary": [b"Content-Type: multipart/form-data; boundary=" + b"\xff" * 300],
    "a type of a charset": [b"Content-Type: application/json; charset=base64"],
    "a type of nothing": [b"Content-Type: ;;;=\xff"],
    "an origin": [b"Origin: http://[::1", b"Referer: http://[zz]/\xff"],
    "addresses": [b"X-Forwarded-For: \xff, [::1, ,,", b"X-Forwarded-Host: \xff", b"X-Forwarded-Proto: \xff"],
    "conditions": [b'If-Match: W/"\xff', b'If-None-Match: "' + b'","' * 500],
    "another method": [b"X-HTTP-Method-Override: \xff", b"X-Requested-With: \xff"],
    "an identifier": [b"X-Request-ID: \xff\xfe", b"X-Osmo-Client-Version: \xff.9.9"],
    "websockets": [b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: \xff"],
    "HTTP/2": [b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQAAP__"],
    "TLS": [b"Connection: Upgrade", b"Upgrade: TLS/1.2"],
    "an expectation that nobody knows": [b"Expect: 200-maybe"],
}
CREDENTIALS = {
    "Latin-1": [b"Authorization: Bearer \xff\xfe"],
    "nothing": [b"Authorization: "],
    "no token": [b"Authorization: Bearer"],
    "a long token": [b"Authorization: Bearer " + b"a" * 5000],
    "a token of parts": [b"Authorization: Bearer a.b.c.d a"],
    "no base64": [b"Authorization: Basic %%%"],
    "base64 of nothing": [b"Authorization: Basic AP8="],
    "a scheme": [b"Authorization: \xff \xff"],
}
HOSTS = [
    b"",
    b"\xff",
    b"[::1",
    b"a b",
    b"a" * 5000,
    b"127.0.0.1:a",
    b"evil.example",
    b"@",
]
CHUNKS = {
    "trailers": (b"2\r\n{}\r\n0\r\nX-Osmo-User: root\r\nAuthorization: Bearer a\r\n\r\n", ANSWERED),
    "a NUL in a trailer": (b"2\r\n{}\r\n0\r\nX: \0\r\n\r\n", ANSWERED),
    "10,000 bytes of trailers": (b"2\r\n{}\r\n0\r\n" + b"X: aaaaaaa\r\n" * 1000 + b"\r\n", ANSWERED),
    "a size that is none": (b"zz\r\n{}\r\n0\r\n\r\n", REFUSED),
    "a negative size": (b"-2\r\n{}\r\n0\r\n\r\n", REFUSED),
    "a size in hexadecimal": (b"0x2\r\n{}\r\n0\r\n\r\n", REFUSED),
    "more than its size": (b"2\r\n{}{}\r\n0\r\n\r\n", REFUSED),
    "no size": (b"\r\n\r\n", REFUSED),
    "an extension": (b'2;a="\0"\r\n{}\r\n0\r\n\r\n', ANSWERED),
}
BODIES = {
    "no JSON": b"{",
    "a NUL": b'{"file": "\\u0000", "pool": "\\u0000"}',
    "half of a surrogate pair": b'{"file": "\\ud800", "pool": "\\ud800"}',
    "no UTF-8": b'{"file": "\xff"}',
    "depth": b"[" * 20_000,
    "a number": b'{"file": 1e999, "pool": NaN}',
    "digits": b"[" + b"9" * 10_000 + b"]",
    "a list": b"[]",
    "null": b"null",
}
OPENINGS = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 200 + b"\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /api/pool\r\n\r\n",
    "HTTP/9.9": b"GET /api/pool HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
    "a method of 8 bits": b"G\xc9T /api/pool HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a method of 100 letters": b"A" * 100 + b" /api/pool HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a method in lower case": b"get /api/pool HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "no method": b" /api/pool HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "no target": b"GET  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a tunnel": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n",
    "a trace": b"TRACE /api/pool HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
    "a PROXY line": b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nGET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "bare line feeds": b"GET /api/pool HTTP/1.1\nHost: 127.0.0.1\n\n",
    "NULs": b"\0" * 1000 + b"\r\n\r\n",
}


class Log:
    """What the server has written since the last read."""

    def __init__(self, path):
        self._path, self._offset = path, path.stat().st_size

    def assert_quiet(self):
        with self._path.open("rb") as log:
            log.seek(self._offset)
            text = log.read().decode(errors="replace")
        self._offset += len(text.encode(errors="replace"))
        assert "Traceback" not in text, text
        assert '"error"' not in text, text


@pytest.fixture
def log(web_server):
    log = Log(web_server.log)
    yield log
    log.assert_quiet()


def framed(lines):
    """The body's length, where a case has no framing of its own."""
    return [] if any(b"ength" in line or b"Transfer" in line for line in lines) else [b"Content-Length: 2"]


@pytest.mark.parametrize("case", TARGETS)
def test_a_target_of_garbage(web_server, token, log, case):
    target, want = TARGETS[case]
    for method, path in PLACES:
        line = target % path.encode() if b"%s" in target else target
        sent = request(method, line, token.encode(), b"Content-Length: 2", body=b"{}")
        status = status_of(web_server, sent)
        is_sent_to_login = path.startswith("/admin/") and status == 302  # as at all that is not there
        assert status in want or is_sent_to_login, (method, path)


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_of_garbage(web_server, token, log, case):
    lines = HEADERS[case]
    for method, path in PLACES:
        sent = request(method, path.encode(), token.encode(), *lines, *framed(lines), body=b"{}")
        status = status_of(web_server, sent)
        reads_no_cookie = path == "/livez" or path.startswith("/static/")
        assert status in NOT_SERVED or (reads_no_cookie and b"Cookie" in lines[0]), (method, path, status)


@pytest.mark.parametrize("case", ODDITIES)
@pytest.mark.parametrize("is_known", [True, False], ids=["somebody", "nobody"])
def test_an_odd_header(web_server, token, log, case, is_known):
    caller = [token.encode()] if is_known else []
    for method, path in PLACES:
        sent = request(method, path.encode(), *caller, *ODDITIES[case], b"Content-Length: 2", body=b"{}")
        assert status_of(web_server, sent) in ANSWERED, (method, path)


@pytest.mark.parametrize("case", CREDENTIALS)
def test_credentials_of_garbage(web_server, transactional_db, log, case):
    for method, path in PLACES:
        sent = request(method, path.encode(), *CREDENTIALS[case], b"Content-Length: 2", body=b"{}")
        status = status_of(web_server, sent)
        assert status in (REFUSED if path.startswith("/api/p") else ANSWERED), (method, path)


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_of_garbage(web_server, token, log, host):
    for method, path in PLACES:
        line = b"Host: " + host
        sent = request(method, path.encode(), token.encode(), b"Content-Length: 2", body=b"{}", host=line)
        status = status_of(web_server, sent)
        assert status in (REFUSED if path.startswith("/api") else ANSWERED), (method, path)


@pytest.mark.parametrize("case", CHUNKS)
def test_chunks_of_garbage(web_server, token, log, case):
    body, want = CHUNKS[case]
    for method, path in PLACES[3:]:
        sent = request(method, path.encode(), token.encode(), b"Transfer-Encoding: chunked", body=body)
        assert status_of(web_server, sent) in want, (method, path)


@pytest.mark.parametrize("case", BODIES)
def test_a_body_of_garbage(web_server, token, log, case):
    body = BODIES[case]
    lines = [token.encode(), b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    for method, path in PLACES:
        status = status_of(web_server, request(method, path.encode(), *lines, body=body))
        assert status in (ANSWERED if method == "GET" else REFUSED), (method, path)


@pytest.mark.parametrize("case", OPENINGS)
def test_bytes_that_are_no_request_are_refused(web_server, log, case):
    assert status_of(web_server, OPENINGS[case]) in NOT_SERVED


def test_a_trailer_names_nobody(web_server, transactional_db):
    body = b"2\r\n{}\r\n0\r\nX-Osmo-User: root\r\n\r\n"
    sent = request("GET", b"/api/profile/settings", b"Transfer-Encoding: chunked", body=body)
    assert status_of(web_server, sent) == 401
