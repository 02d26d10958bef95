"""Where our command sends a login with a session: to the service's own host, as safe as there."""

import pytest

from osmo_topology_client.errors import ServiceUnreachable
from osmo_topology_client.service import Service
from osmo_topology_client.task_sessions import opened


@pytest.mark.parametrize(
    ("service", "router", "words"),
    [
        ("https://osmo.example", "wss://evil.example", "the service is at osmo.example"),
        ("https://osmo.example", "wss://osmo.example.evil.example", "the service is at osmo.example"),
        ("https://osmo.example", "wss://osmo.example@evil.example", "the service is at osmo.example"),
        ("https://osmo.example", "ws://osmo.example", "not reached by TLS"),
        ("https://osmo.example", "http://osmo.example", "not reached by TLS"),
        ("http://localhost:8000", "http://localhost:8000", "not reached by TLS"),
        ("https://osmo.example", "wss://[", "Invalid IPv6 URL"),
    ],
)
def test_a_login_is_not_sent_elsewhere(service, router, words, monkeypatch):
    monkeypatch.setattr("osmo_topology_client.task_sessions.connect", None)
    caller = Service(service, bearer="secret", user="", notify=print, sleep=print)
    with pytest.raises(ServiceUnreachable, match=words), opened(caller, {"router_address": router}, "/x"):
        pass
