"""What a process refuses to start with."""

import json
import ssl

import kombu
import pytest
import redis
from pydantic import ValidationError

from osmo_topology import settings
from web.env import DEVELOPMENT_KEY, Environment, read_environment
from web.identity.configuration import ProviderSettings, provider_settings

KEY = "k" * 40
SECRET = "proxy-" + "s" * 40


@pytest.fixture
def start(monkeypatch):
    """Read the settings of a process that is told these and nothing else."""

    def start(**told):
        for name in Environment.model_fields:
            monkeypatch.delenv(f"OSMO_{name.upper()}", raising=False)
        for name, value in told.items():
            monkeypatch.setenv(f"OSMO_{name.upper()}", value)
        return Environment()

    return start


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"secret_key": KEY, "development_login": "true"}, "OSMO_DEVELOPMENT_LOGIN"),
        ({"secret_key": KEY, "crash_points": "/tmp/crashes"}, "OSMO_CRASH_POINTS"),
        ({"secret_key": DEVELOPMENT_KEY}, "OSMO_SECRET_KEY"),
        ({}, "OSMO_SECRET_KEY"),
    ],
    ids=["the development login", "crash points", "the development key", "no key"],
)
@pytest.mark.parametrize("env", [{}, {"env": "production"}], ids=["by default", "as said"])
def test_production_does_not_start_with_a_switch_of_development(start, env, told, named):
    with pytest.raises(ValidationError, match=named):
        start(**env, **told)


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"allowed_hosts": '["osmo.example.com"]'}, "OSMO_ALLOWED_HOSTS"),
        ({"allowed_hosts": '["*"]'}, "OSMO_ALLOWED_HOSTS"),
        ({"trusted_proxy_secrets": f'["{SECRET}"]'}, "OSMO_TRUSTED_PROXY"),
        ({"trusted_proxy_networks": '["10.0.0.0/8"]'}, "OSMO_TRUSTED_PROXY"),
    ],
    ids=["a public host", "every host", "a gateway's secret", "a gateway's network"],
)
def test_development_does_not_start_where_others_are_served(start, told, named):
    with pytest.raises(ValidationError, match=named):
        start(env="development", **told)


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"trusted_proxy_secrets": '["short"]'}, "OSMO_TRUSTED_PROXY_SECRETS"),
        ({"trusted_proxy_networks": '["0.0.0.0/0"]'}, "OSMO_TRUSTED_PROXY_NETWORKS"),
        ({"trusted_proxy_networks": '["::/0"]'}, "OSMO_TRUSTED_PROXY_NETWORKS"),
        ({"default_roles": '["osmo user"]'}, "OSMO_DEFAULT_ROLES"),
    ],
)
def test_settings_of_access_that_protect_nothing_are_refused(start, told, named):
    with pytest.raises(ValidationError, match=named):
        start(secret_key=KEY, **told)


@pytest.mark.parametrize(
    "origin",
    [
        "https://ci:443",
        "http://ci:80",
        "https://ci:0443",
        "https://ci:65536",
        "https://[1.2.3.4]",
        "https://ci/",
        "CI",
        "mailto:",
    ],
)
def test_an_origin_of_news_that_no_address_can_have_is_refused(start, origin):
    with pytest.raises(ValidationError, match="OSMO_NOTIFY_HOSTS"):
        start(secret_key=KEY, notify_hosts=f'["{origin}"]')


def test_origins_of_news_are_names_and_numbers_with_ports_of_their_own(start):
    origins = ["https://hooks.example.org", "http://ci:8080", "https://[2001:db8::1]", "mailto:example.org"]
    assert start(secret_key=KEY, notify_hosts=json.dumps(origins)).notify_hosts == origins


ISSUER = "https://login.example.com"


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({"oidc_issuer": "http://login.example.com"}, "OSMO_OIDC_ISSUER"),
        ({"oidc_issuer": "login.example.com"}, "OSMO_OIDC_ISSUER"),
        ({"oidc_device_client_id": "osmo-device"}, "OSMO_OIDC_ISSUER"),
        ({"oidc_issuer": ISSUER, "oidc_algorithms": '["none"]'}, "OSMO_OIDC_ALGORITHMS"),
        ({"oidc_issuer": ISSUER, "oidc_algorithms": '["RS256", "HS256"]'}, "OSMO_OIDC_ALGORITHMS"),
        ({"oidc_issuer": ISSUER, "oidc_algorithms": "[]"}, "OSMO_OIDC_ALGORITHMS"),
        ({"oidc_issuer": ISSUER, "oidc_ca_file": "/nowhere/authority.pem"}, "OSMO_OIDC_CA_FILE"),
        ({"oidc_issuer": ISSUER, "oidc_group_roles": '{"ml": ["a role"]}'}, "OSMO_OIDC_GROUP_ROLES"),
        ({"oidc_issuer": ISSUER, "oidc_group_roles": '["ml"]'}, "oidc_group_roles"),
        ({"oidc_issuer": ISSUER, "oidc_pages_client_id": "osmo-pages"}, "OSMO_SERVICE_URL"),
        ({"oidc_issuer": ISSUER, "oidc_scopes": '["profile"]'}, "OSMO_OIDC_SCOPES"),
    ],
)
def test_an_identity_provider_that_could_not_be_trusted_is_refused(start, told, named):
    with pytest.raises(ValidationError, match=named):
        start(secret_key=KEY, **told)


def test_every_setting_of_an_identity_provider_is_used(start):
    roles = '{"ml": ["osmo-train"], "admins": ["osmo-admin"]}'
    told = {
        "issuer": ISSUER,
        "ca_file": __file__,
        "algorithms": '["ES256"]',
        "device_client_id": "device",
        "browser_client_id": "browser",
        "audiences": '["pipelines"]',
        "pages_client_id": "pages",
        "pages_client_secret": "hush",
        "scopes": '["openid", "groups"]',
        "session_seconds": "600",
        "user_claim": "email",
        "groups_claim": "roles",
        "group_roles": roles,
    }
    env = start(
        secret_key=KEY,
        service_url="https://osmo.example.com",
        **{f"oidc_{name}": value for name, value in told.items()},
    )
    own = provider_settings(env)
    assert own == ProviderSettings(
        issuer=ISSUER,
        ca_file=__file__,
        algorithms=("ES256",),
        device_client="device",
        browser_client="browser",
        audiences=("pipelines",),
        pages_client="pages",
        pages_secret="hush",
        scopes=("openid", "groups"),
        session_seconds=600,
        user_claim="email",
        groups_claim="roles",
        group_roles=(("admins", ("osmo-admin",)), ("ml", ("osmo-train",))),
    )
    assert "hush" not in repr(own) + repr(env)
    assert provider_settings(start(env="development")) is None


def test_a_start_that_is_refused_tells_all_mistakes_and_none_of_the_secrets(start):
    with pytest.raises(ValidationError) as refused:
        start(
            secret_key="hush-hush",
            development_login="1",
            trusted_proxy_secrets='["also-hush"]',
            database_url="postgresql://osmo:hush@db/osmo",
        )
    said = str(refused.value)
    for name in ("OSMO_SECRET_KEY", "OSMO_DEVELOPMENT_LOGIN", "OSMO_TRUSTED_PROXY_SECRETS"):
        assert name in said
    assert "hush" not in said


def test_a_sound_production_starts_with_a_gateway_and_shows_no_secret(start):
    own = start(
        secret_key=KEY, trusted_proxy_secrets=f'["{SECRET}"]', trusted_proxy_networks='["10.0.3.0/28"]'
    )
    assert own.trusted_proxy_secrets[0].get_secret_value() == SECRET
    assert SECRET not in repr(own)


def test_settings_of_tls_in_the_databases_address_are_not_left_out():
    """Left out, a connection that must be verified would be made to anybody."""
    said = settings._database("postgresql://osmo:p@db/osmo?sslmode=verify-full&sslrootcert=/ca.pem")
    assert (said["OPTIONS"]["sslmode"], said["OPTIONS"]["sslrootcert"]) == ("verify-full", "/ca.pem")
    assert "sslmode" not in settings._database("postgresql://osmo@db/osmo?host=/run")["OPTIONS"]


def test_several_hosts_reach_libpq_with_the_choice_among_them():
    own = settings._database("postgresql://osmo:p@a:5432,b:5433/osmo?target_session_attrs=read-write")
    assert (own["HOST"], own["PORT"]) == ("a,b", "5432,5433")
    assert (own["USER"], own["OPTIONS"]["target_session_attrs"]) == ("osmo", "read-write")
    assert settings._database("postgresql://[::1]:5432/osmo")["HOST"] == "::1"


ODD = "p@ss/w:rd?#%5B ä"
"""Each of these characters ends a part of an address or quotes another."""


def test_a_database_password_of_odd_characters_stands_apart_from_the_address(start, monkeypatch):
    own = start(
        env="development", database_url="postgresql://db/osmo", database_user="a@b", database_password=ODD
    )
    monkeypatch.setattr(settings, "ENV", own)
    read = settings._database(str(own.database_url))
    assert (read["USER"], read["PASSWORD"], read["HOST"]) == ("a@b", ODD, "db")
    assert ODD not in repr(own)


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_a_redis_password_of_odd_characters_stands_apart_from_the_address(start, scheme):
    own = start(
        env="development", redis_url=f"{scheme}://old:old@r:6380/1", redis_user="a:b", redis_password=ODD
    )
    read = kombu.Connection(own.broker_url).info()
    assert (read["userid"], read["password"], read["hostname"], read["port"]) == ("a:b", ODD, "r", 6380)
    assert redis.Redis.from_url(own.broker_url).connection_pool.connection_kwargs["password"] == ODD
    assert start(env="development", redis_url="redis://r/0").broker_url == "redis://r/0"


def test_redis_by_tls_is_verified_by_both_of_its_clients(start):
    url = "rediss://r:6380/0?ssl_cert_reqs=required&ssl_ca_certs=/ca.pem"
    own = start(env="development", redis_url=url, redis_password="p")
    assert kombu.Connection(own.broker_url).info()["ssl"] == {
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
        "ssl_ca_certs": "/ca.pem",
    }
    health = redis.Redis.from_url(own.broker_url).connection_pool.connection_kwargs
    assert (health["ssl_cert_reqs"], health["ssl_ca_certs"]) == ("required", "/ca.pem")


def test_sentinels_are_asked_for_a_primary_whose_password_stands_apart(start):
    own = start(
        env="development",
        redis_url="sentinel://a:26379/1;sentinel://b:26379",
        redis_password=ODD,
        redis_sentinel_primary="main",
        redis_sentinel_password="s",
    )
    read = kombu.Connection(own.broker_url)
    assert (read.info()["hostname"], read.info()["virtual_host"], read.password) == ("a", "1", ODD)
    assert read.alt[1:] == ["sentinel://b:26379"]
    assert own.sentinel_options({"socket_timeout": 2}) == {
        "master_name": "main",
        "sentinel_kwargs": {"socket_timeout": 2, "password": "s"},
    }
    assert start(env="development").sentinel_options({}) == {}


@pytest.mark.parametrize(("url", "primary"), [("sentinel://a:26379", ""), ("redis://a", "main")])
def test_sentinels_and_the_name_of_their_primary_need_one_another(start, url, primary):
    with pytest.raises(ValidationError, match="OSMO_REDIS_SENTINEL_PRIMARY: with addresses of Sentinels"):
        start(env="development", redis_url=url, redis_sentinel_primary=primary)


@pytest.mark.parametrize("url", ["redis://a;redis://b", "redis-cluster://a", "amqp://a"])
def test_a_broker_that_is_no_single_redis_is_refused(start, url):
    with pytest.raises(ValidationError, match=r"OSMO_REDIS_URL: the address of one Redis.* Sentinel"):
        start(env="development", redis_url=url)


def test_a_mounted_secret_is_read_and_the_environment_comes_first(start, tmp_path, monkeypatch):
    (tmp_path / "OSMO_SECRET_KEY").write_text(f"{KEY}\n")
    (tmp_path / "osmo_database_password").write_text(ODD)
    (tmp_path / "OSMO_REDIS_PASSWORD").write_text("from a file")
    start(env="production", secret_key=KEY, redis_password="from the environment")
    monkeypatch.delenv("OSMO_SECRET_KEY")
    own = read_environment(str(tmp_path))
    assert (own.secret_key, own.database_password.get_secret_value()) == (KEY, ODD)
    assert own.redis_password.get_secret_value() == "from the environment"


def test_a_directory_of_secrets_that_is_not_there_refuses_the_start(tmp_path):
    with pytest.raises(ValueError, match=r"OSMO_SECRETS_DIR names .*/none"):
        read_environment(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("address", "want"), [("https://osmo.example.com", True), ("http://127.0.0.1:8000", False), ("", False)]
)
def test_cookies_need_tls_where_the_service_is_reached_by_it(start, address, want):
    assert start(env="development", service_url=address).reached_by_tls is want
    own = start(env="development").reached_by_tls
    assert settings.SESSION_COOKIE_SECURE is settings.CSRF_COOKIE_SECURE is own
