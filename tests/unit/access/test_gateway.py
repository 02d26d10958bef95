"""Trust in headers that say who is calling."""

import ipaddress

import pytest

from web.access import gateway
from web.access.gateway import Identity, Proxy, Untrusted, client_address, identity

SECRET, NEXT = "s" * 32, "n" * 32
NETWORK = ipaddress.ip_network("10.0.3.0/28")
BY_SECRET = Proxy((SECRET, NEXT), ())
BY_NETWORK = Proxy((), (NETWORK,))
BY_BOTH = Proxy((SECRET,), (NETWORK,))
NOBODY = Proxy((), ())

ANN = {gateway.USER: "ann"}
PROVEN = {gateway.PROOF: SECRET}
WITHIN, OUTSIDE = {"REMOTE_ADDR": "10.0.3.4"}, {"REMOTE_ADDR": "10.0.4.4"}


@pytest.mark.parametrize(
    ("proxy", "meta"),
    [
        (NOBODY, ANN),
        (NOBODY, ANN | PROVEN | WITHIN),
        (NOBODY, {gateway.ROLES: "osmo-admin"}),
        (NOBODY, {gateway.POOLS: "a"}),
        (NOBODY, {gateway.PROOF: ""}),
        (BY_SECRET, ANN),
        (BY_SECRET, ANN | {gateway.PROOF: ""}),
        (BY_SECRET, ANN | {gateway.PROOF: "S" * 32}),
        (BY_SECRET, ANN | {gateway.PROOF: SECRET[:-1]}),
        (BY_SECRET, ANN | {gateway.PROOF: f"{SECRET},{SECRET}"}),
        (BY_SECRET, ANN | {gateway.PROOF: "\xe9\udcff"}),
        (BY_SECRET, {gateway.PROOF: "wrong"}),
        (BY_SECRET, PROVEN | {gateway.ROLES: "osmo-admin"}),
        (BY_SECRET, PROVEN | {gateway.POOLS: "a"}),
        (BY_NETWORK, ANN),
        (BY_NETWORK, ANN | OUTSIDE),
        (BY_NETWORK, ANN | OUTSIDE | {"HTTP_X_FORWARDED_FOR": "10.0.3.4"}),
        (BY_NETWORK, ANN | OUTSIDE | PROVEN),
        (BY_NETWORK, ANN | {"REMOTE_ADDR": ""}),
        (BY_BOTH, ANN | WITHIN),
        (BY_BOTH, ANN | OUTSIDE | PROVEN),
        (BY_SECRET, PROVEN | {gateway.USER: ""}),
        (BY_SECRET, PROVEN | {gateway.USER: "ann,root"}),
        (BY_SECRET, PROVEN | {gateway.USER: "ann\x00"}),
        (BY_SECRET, PROVEN | {gateway.USER: "änn"}),
        (BY_SECRET, PROVEN | {gateway.USER: "a" * 151}),
        (BY_SECRET, PROVEN | ANN | {gateway.ROLES: "osmo admin"}),
        (BY_SECRET, PROVEN | ANN | {gateway.POOLS: "*"}),
        (BY_SECRET, PROVEN | ANN | {gateway.POOLS: ",".join(["a"] * 1001)}),
    ],
    ids=[
        "no gateway is configured",
        "no gateway is configured, and the caller plays one",
        "roles alone",
        "pools alone",
        "a proof alone, and no gateway",
        "no secret",
        "an empty secret",
        "another secret",
        "part of the secret",
        "the secret twice",
        "a secret beyond ASCII",
        "a wrong secret alone",
        "proven, roles without a user",
        "proven, pools without a user",
        "no address",
        "another network",
        "another network that claims to forward",
        "another network with a secret nobody asked for",
        "a unix socket",
        "both are asked for, no secret",
        "both are asked for, another network",
        "a user without a name",
        "two users",
        "a user with a control character",
        "a user beyond ASCII",
        "a user that is too long",
        "a role that is none",
        "every pool",
        "a thousand and one pools",
    ],
)
def test_a_caller_that_is_not_the_gateway_is_refused_and_nothing_it_sent_is_repeated(proxy, meta):
    with pytest.raises(Untrusted) as refused:
        identity(meta, proxy)
    said = str(refused.value)
    assert SECRET[:8] not in said
    assert "root" not in said


@pytest.mark.parametrize(
    ("proxy", "meta"),
    [
        (BY_SECRET, PROVEN),
        (BY_SECRET, {gateway.PROOF: NEXT}),
        (BY_NETWORK, WITHIN),
        (BY_NETWORK, {"REMOTE_ADDR": "::ffff:10.0.3.4"}),
        (BY_BOTH, PROVEN | WITHIN),
    ],
    ids=["by secret", "by the next secret", "by address", "by a mapped address", "by both"],
)
def test_the_gateway_that_proves_itself_is_believed(proxy, meta):
    assert identity(meta | ANN, proxy) == Identity("ann", (), None)


def test_a_gateway_names_roles_and_pools():
    said = {gateway.USER: " ann@example.com ", gateway.ROLES: "osmo-a, reader,,", gateway.POOLS: "a,b"}
    want = Identity("ann@example.com", ("osmo-a", "reader"), frozenset({"a", "b"}))
    assert identity(said | PROVEN, BY_SECRET) == want
    none = identity(ANN | PROVEN | {gateway.ROLES: "", gateway.POOLS: ""}, BY_SECRET)
    assert none == Identity("ann", (), frozenset())


def test_a_request_that_says_nothing_of_it_is_not_the_gateways():
    assert identity({}, NOBODY) is None
    assert identity(WITHIN, BY_NETWORK) is None
    assert identity(PROVEN, BY_SECRET) is None


@pytest.mark.parametrize(
    ("proxy", "meta", "want"),
    [
        (NOBODY, {"REMOTE_ADDR": "192.0.2.7"}, "192.0.2.7"),
        (NOBODY, {"REMOTE_ADDR": "192.0.2.7", "HTTP_X_FORWARDED_FOR": "203.0.113.9"}, "192.0.2.7"),
        (BY_NETWORK, OUTSIDE | {"HTTP_X_FORWARDED_FOR": "203.0.113.9"}, "10.0.4.4"),
        (BY_NETWORK, WITHIN | {"HTTP_X_FORWARDED_FOR": "1.1.1.1, 203.0.113.9"}, "203.0.113.9"),
        (BY_NETWORK, WITHIN, "10.0.3.4"),
        (NOBODY, {"REMOTE_ADDR": "2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"),
        (NOBODY, {"REMOTE_ADDR": ""}, "unknown"),
        (BY_NETWORK, WITHIN | {"HTTP_X_FORWARDED_FOR": "nonsense"}, "unknown"),
    ],
    ids=[
        "the peer's",
        "the peer's, who lies",
        "a stranger's, who lies",
        "what the gateway added last",
        "the gateway's own",
        "an IPv6 network",
        "a unix socket",
        "nonsense",
    ],
)
def test_limits_count_by_an_address_that_the_caller_cannot_choose(proxy, meta, want):
    assert client_address(meta, proxy) == want


FORWARDER = ipaddress.ip_network("10.0.9.0/28")
BEHIND = {"REMOTE_ADDR": "10.0.9.1"}


@pytest.mark.parametrize(
    ("meta", "want"),
    [
        (BEHIND | {"HTTP_X_FORWARDED_FOR": "203.0.113.9"}, "203.0.113.9"),
        (BEHIND | {"HTTP_X_FORWARDED_FOR": "1.1.1.1, 203.0.113.9"}, "203.0.113.9"),
        (BEHIND | {"HTTP_X_FORWARDED_FOR": "1.1.1.1, 203.0.113.9, 10.0.9.2"}, "203.0.113.9"),
        (BEHIND | {"HTTP_X_FORWARDED_FOR": "10.0.9.3, 10.0.9.2"}, "10.0.9.3"),
        (BEHIND | {"HTTP_X_FORWARDED_FOR": ""}, "10.0.9.1"),
        (BEHIND | {"HTTP_X_FORWARDED_FOR": "nonsense"}, "unknown"),
        (OUTSIDE | {"HTTP_X_FORWARDED_FOR": "203.0.113.9, 10.0.9.2"}, "10.0.4.4"),
    ],
    ids=[
        "the caller",
        "not what the caller wrote before it",
        "through two forwarders",
        "a forwarder that calls by itself",
        "nothing forwarded",
        "nonsense",
        "a peer that is no forwarder",
    ],
)
def test_a_forwarder_says_whose_address_it_is_and_nothing_else(meta, want):
    proxy = Proxy((), (), forwarders=(FORWARDER,))
    assert client_address(meta, proxy) == want
    with pytest.raises(Untrusted):
        identity(meta | ANN, proxy)
