"""What asks a pod by its address: a kubelet and a scraper, which know none of the service's names."""

import pytest

from tests.web.wire import request, status_of

TOKEN = b"Authorization: Bearer " + b"m" * 40
PROBES = ["/livez", "/readyz", "/metrics"]
HOSTS = [b"Host: 10.1.2.3:8000", b"Host: web:8000", b"Host: [fd00::1]:8000", b"Host: ", b"X-No: host"]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", PROBES)
def test_a_probe_needs_no_name_of_ours(web_server, transactional_db, path, host):
    for method in ("GET", "HEAD"):
        assert status_of(web_server, request(method, path.encode(), TOKEN, host=host)) == 200


@pytest.mark.parametrize("host", HOSTS[:3])
def test_everything_else_does(web_server, token, host):
    for path in (b"/api/pool", b"/admin/login/", b"/readyz/", b"/metrics/a", b"/livezz"):
        assert status_of(web_server, request("GET", path, token.encode(), host=host)) in (400, 404)
    assert status_of(web_server, request("GET", b"/api/pool", token.encode(), host=host)) == 400


def test_probes_are_not_logged_one_by_one(web_server, transactional_db):
    size = web_server.log.stat().st_size
    for path in PROBES:
        assert status_of(web_server, request("GET", path.encode(), TOKEN)) == 200
    assert status_of(web_server, request("GET", b"/api/pool")) == 401
    with web_server.log.open() as log:
        log.seek(size)
        lines = log.read()
    assert "GET /api/pool" in lines
    assert not [path for path in PROBES if path in lines]
