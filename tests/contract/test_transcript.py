"""The main flow over a socket, with what the client really puts on the wire."""

import http.client
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User

from tests.contract import transcript
from web.access.services import make_token

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_main_flow_ends_as_the_client_expects(live_server, service):
    token = make_token(User.objects.get(username="ann"), name="laptop")
    lines = []
    exits = transcript.run(live_server.url, pool="h100", token=token, say=lines.append)
    assert exits == [0] * 11 + [1, 2], "\n".join(lines)
    assert token not in "\n".join(lines)


def test_a_base_address_that_ends_in_a_slash_leads_to_the_same_place(live_server, service):
    parts = urlsplit(live_server.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    with closing(connection):
        connection.request("GET", "//api/version", headers={"Content-Type": "application/json"})
        assert connection.getresponse().status == 200
