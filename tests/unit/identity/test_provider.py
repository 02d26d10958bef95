"""What is cached of an identity provider: for how long, and how often it is fetched again."""

import threading

import pytest

from tests.identity.keys import SigningKey
from web.identity import provider as cache
from web.identity.configuration import ProviderSettings
from web.identity.fetching import Unreachable, fetch
from web.identity.provider import Provider
from web.identity.publication import Publication, public_keys

SETTINGS = ProviderSettings(issuer="https://login.example.com")
FIRST, SECOND = SigningKey("first"), SigningKey("second")


def publication(*keys):
    published = public_keys([key.public_jwk() for key in keys], algorithms=SETTINGS.algorithms)
    return Publication("", "", "", "", published)


class Issuer:
    """An issuer whose answers a test decides, on a clock of its own."""

    def __init__(self, *keys):
        self.keys, self.now, self.fetches, self.away = keys, 1000.0, 0, False
        self.open = threading.Event()
        self.open.set()
        self.provider = Provider(SETTINGS, fetch=self.fetch, clock=lambda: self.now)

    def fetch(self, settings):
        self.open.wait(30)
        self.fetches += 1
        if self.away:
            raise Unreachable("away")
        return publication(*self.keys)

    def knows(self, key):
        return self.provider.key(key.kid, "RS256") is not None

    def wait(self):
        """Until the fetch under way has ended."""
        pending = self.provider._pending
        assert pending is not None
        pending.exception(30)


def test_a_publication_is_fetched_once_while_it_is_fresh():
    issuer = Issuer(FIRST)
    assert [issuer.knows(FIRST) for _ in range(5)] == [True] * 5
    issuer.now += cache.FRESH_SECONDS - 1
    assert issuer.knows(FIRST)
    assert issuer.fetches == 1


def test_later_it_is_fetched_again_and_nobody_waits():
    issuer = Issuer(FIRST)
    assert issuer.knows(FIRST)
    issuer.keys, issuer.now = (SECOND,), issuer.now + cache.FRESH_SECONDS
    issuer.open.clear()
    assert issuer.knows(FIRST)  # answered while the fetch goes on
    issuer.open.set()
    issuer.wait()
    assert issuer.fetches == 2
    assert not issuer.knows(FIRST)
    assert issuer.knows(SECOND)


def test_an_unknown_key_is_fetched_at_once_and_not_too_often():
    issuer = Issuer(FIRST)
    assert issuer.knows(FIRST)
    issuer.keys = (FIRST, SECOND)
    assert not issuer.knows(SECOND)  # just fetched
    issuer.now += cache.INTERVAL_SECONDS
    assert issuer.knows(SECOND)
    for _ in range(10):
        assert not issuer.knows(SigningKey("invented"))
        issuer.now += cache.INTERVAL_SECONDS / 20
    assert issuer.fetches == 2


def test_keys_are_used_for_an_hour_without_the_issuer_and_no_longer():
    issuer = Issuer(FIRST)
    assert issuer.knows(FIRST)
    issuer.away = True
    issuer.now += cache.LONGEST_SECONDS - 1
    assert issuer.knows(FIRST)
    issuer.wait()
    issuer.now += cache.INTERVAL_SECONDS
    with pytest.raises(Unreachable):
        issuer.knows(FIRST)
    with pytest.raises(Unreachable):
        issuer.knows(FIRST)
    assert issuer.fetches == 3  # not a fetch for each request
    issuer.away, issuer.now = False, issuer.now + cache.INTERVAL_SECONDS
    assert issuer.knows(FIRST)


def test_threads_with_a_known_key_do_not_wait_for_one_with_an_unknown_key():
    issuer = Issuer(FIRST)
    assert issuer.knows(FIRST)
    issuer.now += cache.INTERVAL_SECONDS
    issuer.open.clear()
    waiting = threading.Thread(target=issuer.knows, args=[SECOND])
    waiting.start()
    assert issuer.knows(FIRST)
    issuer.open.set()
    waiting.join(30)
    assert not waiting.is_alive()


def test_only_public_keys_of_accepted_algorithms_are_kept():
    good = FIRST.public_jwk()
    secret = {"kty": "oct", "k": "c2VjcmV0" * 8, "kid": "secret", "alg": "HS256"}
    keys = [
        good,
        secret,
        {**secret, "alg": "RS256"},
        {**good, "kid": "hmac", "alg": "HS256"},
        {**good, "kid": "none", "alg": "none"},
        {**good, "kid": "encryption", "use": "enc"},
        {**good, "kid": "RS512", "alg": "RS512"},
        {**good, "kid": "broken", "n": "!"},
        {**good, "kid": "small", "n": "sQ", "e": "AQAB"},
        {"kty": "RSA"},
        "text",
        None,
    ]
    assert set(public_keys(keys, algorithms=("RS256", "ES256"))) == {("first", "RS256")}


def test_a_key_without_an_algorithm_serves_those_of_its_type_that_are_accepted():
    key = {name: value for name, value in FIRST.public_jwk().items() if name != "alg"}
    kept = public_keys([key], algorithms=("RS256", "PS256", "ES256"))
    assert set(kept) == {("first", "RS256"), ("first", "PS256")}


def test_the_number_of_keys_is_bounded():
    keys = [{**FIRST.public_jwk(), "kid": str(number)} for number in range(150)]
    assert len(public_keys(keys, algorithms=("RS256",))) == 100


def test_a_token_without_a_key_id_fits_the_only_key():
    assert publication(FIRST).key(None, "RS256") is not None
    assert publication(FIRST, SECOND).key(None, "RS256") is None


def test_nothing_is_fetched_without_tls():
    with pytest.raises(Unreachable, match="no https"):
        fetch("http://127.0.0.1:1/keys", ca_file="")
