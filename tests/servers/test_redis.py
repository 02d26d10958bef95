"""Redis as administrators run it: by TLS, and what is no single server that can be written."""

import kombu
import pytest

from localcluster.ports import LOOPBACK, free_ports
from pools.preflight import servers
from tests.builders.waiting import until
from tests.identity.certificates import write_certificates
from tests.servers.conftest import SECONDS, command, listening
from web.env import Environment
from web.limits.redis_server import redis_client
from web.operation import health
from web.operation.foreign_messages import Channel

PASSWORD = "p@ss/w:rd?#%5B"


@pytest.fixture
def start_redis(supervisor, tmp_path):
    """Start a Redis of its own with these lines of configuration; its port."""

    def start(*lines, name="redis-server", port=0):
        port = port or free_ports(1)[0]
        file = tmp_path / f"{name}-{port}.conf"
        file.write_text("\n".join([f"bind {LOOPBACK}", f"dir {tmp_path}", *lines]).format(port=port) + "\n")
        child = supervisor.start(command(name, str(file)))
        supervisor.wait_ready(child, lambda: listening(port), seconds=SECONDS)
        return port

    return start


@pytest.fixture
def tls(tmp_path, start_redis):
    """(the port of a Redis that speaks TLS alone, the file of its authority)."""
    authority, certificate, key = write_certificates(tmp_path)
    port = start_redis(
        "port 0",
        "tls-port {port}",
        f"tls-cert-file {certificate}",
        f"tls-key-file {key}",
        f"tls-ca-cert-file {authority}",
        "tls-auth-clients no",
        f'requirepass "{PASSWORD}"',
    )
    return port, authority


def broker(monkeypatch, settings, **variables):
    """The address that the service makes of these variables, in force."""
    for name, value in {"env": "development", **variables}.items():
        monkeypatch.setenv(f"OSMO_{name.upper()}", str(value))
    settings.CELERY_BROKER_URL = Environment().broker_url
    return settings.CELERY_BROKER_URL


def test_messages_travel_by_verified_tls(tls, monkeypatch, settings):
    port, authority = tls
    url = f"rediss://{LOOPBACK}:{port}/0?ssl_cert_reqs=required&ssl_ca_certs={authority}"
    address = broker(monkeypatch, settings, redis_url=url, redis_password=PASSWORD)
    with kombu.Connection(address, transport_options=settings.CELERY_BROKER_TRANSPORT_OPTIONS) as connection:
        queue = connection.SimpleQueue("osmo-test")
        queue.put({"group": "a"})
        message = queue.get(timeout=SECONDS)
        assert message.payload == {"group": "a"}
        message.ack()
        queue.close()
    assert [(status.name, status.line) for status in health._redis()] == [("redis", "ok")]


def test_a_certificate_of_another_authority_is_refused(tls, tmp_path, monkeypatch, settings):
    port, _ = tls
    other = tmp_path / "other"
    other.mkdir()
    url = f"rediss://{LOOPBACK}:{port}/0?ssl_cert_reqs=required&ssl_ca_certs={write_certificates(other)[0]}"
    address = broker(monkeypatch, settings, redis_url=url, redis_password=PASSWORD)
    with kombu.Connection(address) as connection, pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
    (status,) = health._redis()
    assert status.line.startswith("does not answer")


def test_without_tls_it_does_not_answer(tls, monkeypatch, settings):
    broker(monkeypatch, settings, redis_url=f"redis://{LOOPBACK}:{tls[0]}/0", redis_password=PASSWORD)
    (status,) = health._redis()
    assert status.line.startswith("does not answer")


def test_a_worker_gives_up_a_lost_connection_with_a_message_in_hand(start_redis, supervisor):
    """It lets go of the connection as Celery does, which closes it twice; an error there ends the worker."""
    connection = kombu.Connection(f"redis://{LOOPBACK}:{start_redis('port {port}')}/0")
    channels = connection.default_channel, connection.channel()
    assert all(isinstance(channel, Channel) for channel in channels)
    for number, channel in enumerate(channels):
        connection.SimpleQueue(f"osmo-test-{number}").put({"group": "a"})
        channel.basic_consume(f"osmo-test-{number}", False, lambda _: None, f"worker-{number}")
        connection.drain_events(timeout=SECONDS)
    channels[0]._brpop_start()  # the worker waits for the next message
    supervisor.kill("redis-server")
    connection.collect()
    connection.close()
    assert all(channel.closed for channel in channels)


def test_the_preflight_says_what_takes_no_messages(start_redis, monkeypatch, settings):
    """A Sentinel and a replica answer a ping like any Redis."""
    primary = start_redis("port {port}")
    replica = start_redis("port {port}", f"replicaof {LOOPBACK} {primary}")
    sentinel = start_redis(
        "port {port}", f"sentinel monitor main {LOOPBACK} {primary} 1", name="redis-sentinel"
    )
    for port, role in {primary: "master", replica: "slave", sentinel: "sentinel"}.items():
        address = broker(monkeypatch, settings, redis_url=f"redis://{LOOPBACK}:{port}/0")
        monkeypatch.setattr(
            servers.current_app, "connection_for_write", lambda address=address: kombu.Connection(address)
        )
        assert servers._broker_role() == role


def test_messages_and_readiness_follow_the_primary_that_sentinels_name(
    start_redis, supervisor, monkeypatch, settings
):
    own = ("port {port}", f'requirepass "{PASSWORD}"', f'masterauth "{PASSWORD}"')
    primary = start_redis(*own, name="redis-server")
    start_redis(*own, f"replicaof {LOOPBACK} {primary}")
    sentinel = start_redis(
        "port {port}",
        f"sentinel monitor main {LOOPBACK} {primary} 1",
        f'sentinel auth-pass main "{PASSWORD}"',
        "sentinel down-after-milliseconds main 500",
        "sentinel failover-timeout main 2000",
        'requirepass "of the sentinels"',
        name="redis-sentinel",
    )
    variables = {
        "redis_url": f"sentinel://{LOOPBACK}:1;sentinel://{LOOPBACK}:{sentinel}",
        "redis_password": PASSWORD,
        "redis_sentinel_primary": "main",
        "redis_sentinel_password": "of the sentinels",
    }
    address = broker(monkeypatch, settings, **variables)
    limits = {"socket_timeout": 2, "socket_connect_timeout": 2}
    options = {**limits, **Environment().sentinel_options(limits)}
    settings.CELERY_BROKER_TRANSPORT_OPTIONS = options

    def travels():
        try:
            with kombu.Connection(address, transport_options=options) as connection:
                queue = connection.SimpleQueue("osmo-test")
                queue.put({"a": 1})
                message = queue.get(timeout=5)
                message.ack()
                return message.payload == {"a": 1}
        except (connection.connection_errors, connection.channel_errors):
            return False

    def replicates():
        with redis_client(address) as client:
            return client.info()["connected_slaves"] == 1

    assert travels()
    assert [status.line for status in health._redis()] == ["ok"]
    until(replicates)
    supervisor.children[0].process.kill()
    until(travels)
    assert [status.line for status in health._redis()] == ["ok"]
