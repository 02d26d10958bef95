"""The headers that name a user, as bytes on the wire: whoever repeats or respells one is nobody."""

import pytest
from django.contrib.auth.models import User

from tests.web.conftest import SECRET

PROOF = f"x-osmo-proxy-secret: {SECRET}"
GENUINE = {
    "x-osmo-user": "x-osmo-user: ann",
    "x-osmo-roles": "x-osmo-roles: osmo-user",
    "x-osmo-allowed-pools": "x-osmo-allowed-pools: a",
    "x-osmo-proxy-secret": PROOF,
}


def spellings(name):
    return {
        "the same": name,
        "capitals": name.upper(),
        "mixed": name.title(),
        "cased": name.swapcase(),
    }.items()


REPEATED = [
    pytest.param(name, f"{spelling}: {value}", last, id=f"{name}, {title}, {'last' if last else 'first'}")
    for name, genuine in GENUINE.items()
    for title, spelling in spellings(name)
    for value in [genuine.partition(": ")[2]]
    for last in (False, True)
]


@pytest.mark.parametrize(("name", "copy", "last"), REPEATED)
def test_a_repeated_identity_header_is_refused(web_server, transactional_db, name, copy, last):
    genuine = list(GENUINE.values())
    status, body = web_server.json(*([*genuine, copy] if last else [copy, *genuine]))
    assert status == 401
    assert SECRET not in str(body)
    assert not User.objects.exists()


@pytest.mark.parametrize("name", GENUINE)
def test_a_repetition_in_the_middle_is_refused(web_server, transactional_db, name):
    genuine = list(GENUINE.values())
    assert web_server.json(*genuine[:2], GENUINE[name], *genuine[2:])[0] == 401


def test_each_header_once_is_believed(web_server, transactional_db):
    status, body = web_server.json(*GENUINE.values())
    assert (status, body["profile"]["username"]) == (200, "ann")
    assert body["roles"] == ["osmo-default", "osmo-user"]


@pytest.mark.parametrize("spelling", ["x_osmo_user", "X_OSMO_USER", "x-osmo_user", "x_osmo-user"])
def test_a_name_with_underscores_names_nobody(web_server, transactional_db, spelling):
    assert web_server.json(f"{spelling}: root", PROOF)[0] == 401
    status, body = web_server.json(*GENUINE.values(), f"{spelling}: root", "x_osmo_roles: osmo-admin")
    assert (status, body["profile"]["username"]) == (200, "ann")
    assert "osmo-admin" not in body["roles"]


@pytest.mark.parametrize(
    "line",
    [
        "x-osmo-user : root",
        " x-osmo-user: root",
        "x-osmo-user\t: root",
        "x-osmo-user\x0b: root",
        "x-osmo-us\u00e9r: root",
    ],
)
def test_a_name_with_other_characters_names_nobody(web_server, transactional_db, line):
    status, *_ = web_server.send(PROOF, line)
    assert status in (400, 401)
    assert not User.objects.exists()


def test_an_upgrade_to_another_protocol_passes_no_header_unchecked(web_server, transactional_db):
    upgrade = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: " + "A" * 22 + "==",
    ]
    assert web_server.json(*GENUINE.values(), "x-osmo-user: root", *upgrade)[0] == 401
    assert web_server.json(*GENUINE.values(), *upgrade)[0] == 200
